"""What a confined command sees of our environment."""

import os
import subprocess
import sys
from pathlib import Path

from agent_cli.redaction.env_names import is_secret, leads_out
from agent_cli.sandbox.profile.environment import OF_CONFINEMENT, child_env, confined_env
from tests.redaction.secrets import tokens
from tests.rows import each_row

SECRETS = {
    "GITHUB_TOKEN": "x1y2z3", "GH_TOKEN": "abc", "GITLAB_TOKEN": "abc", "NPM_TOKEN": "abc", "NODE_AUTH_TOKEN": "abc",
    "AWS_ACCESS_KEY_ID": "abc", "AWS_SECRET_ACCESS_KEY": "abc", "AWS_SESSION_TOKEN": "abc", "AZURE_CLIENT_SECRET": "abc",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/u/key.json", "DIGITALOCEAN_ACCESS_TOKEN": "abc", "PGPASSWORD": "abc",
    "MYSQL_PWD": "abc", "MYSQL_ROOT_PASSWORD": "1234", "DB_PASS": "abc", "REDIS_PASSWORD": "abc", "SMTP_PASS": "abc",
    "DATABASE_URL": "postgres://u:p@db/x", "REDIS_URL": "redis://:p@cache:6379", "MONGO_URI": "mongodb+srv://u:p@c/x",
    "SENTRY_DSN": "https://1@sentry.example.org/2", "SLACK_WEBHOOK": "x", "HOOK": "https://hooks.slack.com/services/T0000/B0000/XXXXXXXXXXXXXXXX",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-team=abc", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=Bearer%20abc",
    "ANTHROPIC_CUSTOM_HEADERS": "x: abc", "JWT": "abc", "JWT_SECRET": "abc", "SESSION_SECRET": "abc", "SECRET_KEY_BASE": "abc", "DJANGO_SECRET_KEY": "abc",
    "STRIPE_API_KEY": "abc", "TWILIO_AUTH_TOKEN": "abc", "SENDGRID_API_KEY": "abc", "CI_JOB_TOKEN": "abc",
    "VAULT_TOKEN": "abc", "CONSUL_HTTP_TOKEN": "abc", "TF_VAR_db_password": "abc", "AZURE_STORAGE_CONNECTION_STRING": "a=b",
    "HTTPS_PROXY": "http://me:pw@proxy:3128", "NETRC_PASSPHRASE": "abc", "GPG_PASSPHRASE": "abc", "ADO_PAT": "abc",
    "COOKIE": "a=b", "BASIC_AUTH": "dTpw", "myApiKey": "abc", "SshPrivateKey": "abc", "OPENAI_API_KEY": "abc",
    "EXTRA": "ghp_0123456789abcdef0123456789abcdef0123", "OTHER": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghij",
    "PEM": "-----BEGIN RSA PRIVATE KEY-----\nMII", "HEADER": "Authorization: Bearer abcdefghijklmnopqrst",
    "X": "AKIAABCDEFGHIJKLMNOP", "Y": "sk-proj-abcdefghijklmnopqrstuvwx", "TWINE_PASSWORD": "abc",
}  # fmt: skip
HARMLESS = {
    "PATH": "/usr/bin:/bin", "HOME": "/home/u", "USER": "u", "LOGNAME": "u", "SHELL": "/bin/bash", "LANG": "C.UTF-8",
    "LC_ALL": "C", "TERM": "xterm", "PWD": "/home/u/x", "OLDPWD": "/home/u", "TZ": "UTC", "EDITOR": "vi", "PAGER": "cat",
    "TOKENIZERS_PARALLELISM": "false", "KEYMAP": "us", "KEYBOARD_LAYOUT": "de", "MAX_TOKENS": "4096", "KEYTIMEOUT": "1",
    "GIT_AUTHOR_NAME": "A U Thor", "GIT_AUTHOR_EMAIL": "a@example.org", "AUTHOR": "me", "MONKEY": "1", "HOTKEY": "ctrl",
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "false", "VIRTUAL_ENV": "/v",
    "PYTHONPATH": "src", "NODE_ENV": "test", "NODE_OPTIONS": "--max-old-space-size=4096", "JAVA_HOME": "/usr/lib/jvm",
    "GOPATH": "/home/u/go", "CARGO_HOME": "/home/u/.cargo", "AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-1",
    "DATABASE_HOST": "localhost", "REDIS_HOST": "localhost:6379", "API_URL": "https://api.example.org/v1", "PORT": "8000",
    "HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "localhost,127.0.0.1", "REQUIRE_AUTH": "true", "CI": "true",
    "SSL_CERT_FILE": "/etc/ssl/cert.pem", "REQUESTS_CA_BUNDLE": "/etc/ssl/cert.pem", "PASSES": "3", "COMPASS": "north",
    "SSH_PUBLIC_KEY": "ssh-ed25519 AAAA", "DEBUG": "1", "VERSION": "1.2.3", "GIT_SHA": "f8313d3f8313d3f8313d3f8313d3f8313d3f83",
    "BUILD_ID": "0b7e6f0e-0000-4000-8000-0123456789ab", "SECRETARY": "x", "AGENT_CALL": "0011.1;", "XDG_SESSION_ID": "3",
}  # fmt: skip
LEADING = (
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY",
    "WAYLAND_DISPLAY", "XAUTHORITY", "DOCKER_HOST", "CONTAINER_HOST", "KUBECONFIG", "TMUX", "STY", "NVIM", "SWAYSOCK",
    "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE", "VSCODE_GIT_ASKPASS_NODE", "GIT_ASKPASS", "NOTIFY_SOCKET",
    "KITTY_LISTEN_ON", "WEZTERM_UNIX_SOCKET", "GNOME_KEYRING_CONTROL", "PULSE_SERVER", "SESSION_MANAGER",
)  # fmt: skip


def confined(env: dict[str, str], **more: object) -> dict[str, str]:
    return confined_env(env, **{"offline": False, "cache": None, **more})  # type: ignore[arg-type]


@each_row("name", SECRETS)
def test_secrets_are_not_passed_on(name: str) -> None:
    assert is_secret(name, SECRETS[name])
    assert confined({name: SECRETS[name]}) == {}


@each_row("name", HARMLESS)
def test_what_is_harmless_is_passed_on(name: str) -> None:
    assert confined({name: HARMLESS[name]}) == {name: HARMLESS[name]}


@each_row("name", LEADING)
def test_what_leads_to_other_programs_is_not_passed_on(name: str) -> None:
    assert leads_out(name) and confined({name: "/run/user/1000/x"}) == {}


def test_what_the_user_passes_on_purpose_is_there() -> None:
    env = {"GITHUB_TOKEN": "x", "SSH_AUTH_SOCK": "/tmp/s", "NPM_TOKEN": "y"}
    assert confined(env, passed=("GITHUB_TOKEN", "SSH_AUTH_SOCK")) == {
        "GITHUB_TOKEN": "x",
        "SSH_AUTH_SOCK": "/tmp/s",
    }


def test_settings_of_git_keep_their_places() -> None:
    env = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.extraheader",
        "GIT_CONFIG_VALUE_0": "Authorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l",
    }
    assert confined(env) == {**env, "GIT_CONFIG_VALUE_0": ""}
    done = subprocess.run(
        ["git", "config", "--get", "core.fsmonitor"],
        env={**confined(child_env({"PATH": os.environ["PATH"], **env}))},
        capture_output=True,
    )
    assert done.stdout == b"false\n"


def test_caches_go_where_they_can_be_written(tmp_path: Path) -> None:
    env = confined({"PIP_CACHE_DIR": "/home/u/.cache/pip"}, cache=tmp_path)
    assert env["PIP_CACHE_DIR"] == f"{tmp_path}/pip" and env["npm_config_cache"] == f"{tmp_path}/npm"
    assert confined({"PIP_CACHE_DIR": "/x"}) == {"PIP_CACHE_DIR": "/x"}


def test_what_was_downloaded_is_read_offline_and_kept_apart_otherwise(tmp_path: Path) -> None:
    env = {"CARGO_HOME": "/home/u/.cargo"}
    assert confined(env, cache=tmp_path, offline=True)["CARGO_HOME"] == "/home/u/.cargo"
    assert confined(env, cache=tmp_path)["CARGO_HOME"] == f"{tmp_path}/cargo"


@each_row("downloads", ["registry/cache", "git/db"])
def test_what_a_connected_command_has_downloaded_is_found_offline(tmp_path: Path, downloads: str) -> None:
    (tmp_path / "cargo" / downloads).mkdir(parents=True)
    (tmp_path / "go-mod" / "cache" / "download").mkdir(parents=True)
    env = confined({"HOME": "/home/u", "CARGO_HOME": "/home/u/.cargo"}, cache=tmp_path, offline=True)
    assert env["CARGO_HOME"] == f"{tmp_path}/cargo" and env["GOMODCACHE"] == f"{tmp_path}/go-mod"
    of_the_user = "file:///home/u/go/pkg/mod/cache/download"
    assert env["GOPROXY"] == f"{of_the_user},https://proxy.golang.org,direct"
    env = confined({"GOPATH": "/a b:/c", "GOPROXY": "off"}, cache=tmp_path, offline=True)
    assert env["GOPROXY"] == "file:///a%20b/pkg/mod/cache/download,off"
    env = confined({"GOPATH": "/a", "GOMODCACHE": "/m"}, cache=tmp_path, offline=True)
    assert env["GOPROXY"].startswith("file:///m/cache/download,")
    env = confined({"GOMODCACHE": "relative"}, cache=tmp_path, offline=True)
    assert env["GOPROXY"].startswith("file:///relative/cache/download,"), "an address in any case"
    assert "GOPROXY" not in confined({"HOME": "/home/u"}, cache=tmp_path)


def test_matplotlib_can_write_to_its_folder_and_reads_the_settings_of_the_user(tmp_path: Path) -> None:
    given = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    env = confined(given, cache="/c", offline=True)
    assert env["MPLCONFIGDIR"] == "/c/matplotlib" and env["MATPLOTLIBRC"].endswith("matplotlib/matplotlibrc")
    assert confined({**given, "MATPLOTLIBRC": "/m"}, cache="/c")["MATPLOTLIBRC"] == "/m"
    assert "MATPLOTLIBRC" not in confined({**given, "MPLCONFIGDIR": "/m"}, cache="/c")
    for folder in ("matplotlib", ".matplotlib"):
        (tmp_path / folder / "stylelib").mkdir(parents=True)
    assert "MPLCONFIGDIR" not in confined(given, cache="/c")


def test_offline_nothing_is_tried_again() -> None:
    env = confined({}, offline=True)
    assert env["npm_config_fetch_retries"] == "0" and env["PIP_RETRIES"] == "0"
    assert confined({}) == {}


def test_with_the_network_an_installation_that_cannot_write_fails_within_seconds() -> None:
    """pnpm waits between its attempts, whatever has failed."""
    names = ("npm_config_fetch_retry_mintimeout", "npm_config_fetch_retry_maxtimeout")
    connected = confined({}, cache="/c")
    assert sum(int(connected[name]) for name in names) < 10_000
    assert "npm_config_fetch_retries" not in connected


_HIDING = """
import os
from agent_cli.sandbox.self_protection import hide_keys_of_this_process
count = hide_keys_of_this_process()
os.environ["LATER_API_KEY"] = "set-later"
print(count, b"sk-secret" in open("/proc/self/environ", "rb").read(), os.environ["OPENAI_API_KEY"], flush=True)
os.system("echo $OPENAI_API_KEY $LATER_API_KEY $HARMLESS; ulimit -c")
"""


def test_keys_do_not_show_in_proc_and_still_work() -> None:
    env = {**os.environ, "OPENAI_API_KEY": "sk-secret", "EMPTY_API_KEY": "", "HARMLESS": "kept"}
    done = subprocess.run([sys.executable, "-c", _HIDING], env=env, capture_output=True, text=True, timeout=90)
    assert done.stdout.split("\n")[:3] == ["1 False sk-secret", "sk-secret set-later kept", "0"], done.stderr


PROXY = "http://127.0.0.1:3128"


def test_with_hosts_behind_a_proxy_every_program_finds_it_and_this_machine_stays_direct() -> None:
    env = confined(
        {"HTTP_PROXY": "http://mine:1", "NO_PROXY": "corp", "HOME": "/h"}, offline=True, proxy=PROXY, cache="/c"
    )
    names = (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "npm_config_https_proxy",
    )
    assert {env[name] for name in names} == {PROXY}
    assert {env[name] for name in ("NO_PROXY", "no_proxy", "npm_config_noproxy")} == {"localhost,127.0.0.1,::1"}
    assert "CARGO_NET_OFFLINE" not in env and env["CARGO_HOME"] == "/c/cargo" and env["HOME"] == "/h"


def test_without_a_proxy_none_is_named() -> None:
    assert not [name for name in confined({}, offline=True) if "proxy" in name.lower()]
    assert confined({"HTTP_PROXY": "http://mine:1"}, offline=False, proxy=PROXY) == {"HTTP_PROXY": "http://mine:1"}


def test_a_proxy_that_cannot_be_reached_is_not_named() -> None:
    env = {"HTTP_PROXY": "http://127.0.0.1:7890", "https_proxy": "http://proxy:3128", "NO_PROXY": "corp"}
    assert {"HTTP_PROXY", "https_proxy"}.isdisjoint(confined(env, offline=True))
    assert confined(env, offline=True, passed=("HTTP_PROXY",))["HTTP_PROXY"] == "http://127.0.0.1:7890"


@each_row(
    "base, expected",
    [
        ({"LANG": "de_DE.UTF-8"}, {"LANG": "de_DE.UTF-8", "LC_MESSAGES": "C"}),
        ({"LANG": "en_GB.UTF-8", "LANGUAGE": "fr:en"}, {"LANG": "en_GB.UTF-8", "LANGUAGE": "fr:en", "LC_MESSAGES": "C"}),
        ({"LANG": "C", "LC_ALL": "ja_JP.UTF-8", "LC_TIME": "C"}, {"LANG": "ja_JP.UTF-8", "LC_MESSAGES": "C"}),
        ({"LANG": "de_DE", "LC_MESSAGES": "en_US", "LC_TIME": "fr_FR"}, None),
        ({"LANG": "de_DE", "LC_ALL": "C.UTF-8"}, None),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "en_US:en"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_messages_are_in_english_and_the_rest_of_the_locale_is_the_users(
    base: dict[str, str], expected: dict[str, str] | None
) -> None:
    found = child_env(base)
    told = {name: value for name, value in found.items() if name.startswith(("LC_", "LANG"))}
    assert told == (base if expected is None else expected)


def test_the_users_own_setting_for_commands_comes_before_english() -> None:
    assert child_env({"LANG": "de_DE"}, {"LC_MESSAGES": "de_DE"})["LC_MESSAGES"] == "de_DE"


def test_an_editor_for_rebase_lists_is_not_opened() -> None:
    env = child_env({"GIT_SEQUENCE_EDITOR": "code --wait"})
    assert "GIT_SEQUENCE_EDITOR" not in env and env["GIT_EDITOR"] == "true"


def test_what_only_the_proxy_adds_does_not_outlast_the_command() -> None:
    added = (
        confined({}, offline=True, proxy=PROXY, cache="/c").keys() | confined({}, offline=True, cache="/c").keys()
    )
    assert added <= OF_CONFINEMENT


@each_row(
    "kind",
    ["docker", "atlassian", "notion", "figma", "fly", "fly-macaroon", "new-relic", "terraform", "pulumi", "supabase",
     "supabase-secret", "vercel", "azure-storage", "azure-bus"],
)  # fmt: skip
def test_a_value_with_the_shape_of_a_token_is_a_secret_whatever_its_name(kind: str) -> None:
    assert is_secret("DEPLOYMENT", tokens()[kind][0])
