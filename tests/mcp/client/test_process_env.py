"""Which of our variables a server gets."""

from agent_cli.mcp.client.process import server_env
from tests.rows import each_row


@each_row(
    ("name", "value"),
    [
        ("PIP_INDEX_URL", "https://me:pw@index.example/simple"), ("UV_INDEX_URL", "https://tok@index.example/simple"),
        ("NPM_CONFIG_HTTPS_PROXY", "http://me:pw@proxy:3128"), ("UV_CREDS", "x"), ("NPM_CONFIG_PASS", "x"),
        ("UV_INDEX_X_USERNAME", "ghp_" + "a1B2c3D4e5" * 4), ("OPENAI_API_KEY", "x"), ("GITHUB_TOKEN", "x"),
        ("NODE_AUTH_TOKEN", "x"), ("SOMETHING_ELSE", "x"),
    ],
)  # fmt: skip
def test_no_secret_reaches_a_server_that_does_not_name_it(name: str, value: str) -> None:
    assert name not in server_env({name: value, "PATH": "/bin"}, {})
    assert server_env({name: "x"}, {name: value})[name] == value


def test_settings_of_package_managers_reach_it() -> None:
    base = {
        "PATH": "/bin",
        "HOME": "/h",
        "PIP_INDEX_URL": "https://index.example/simple",
        "NODE_OPTIONS": "--trace",
    }
    assert server_env(base, {}) == base
