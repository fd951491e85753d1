"""Keys come from the environment, else from a private file, else from the keyring; nothing tells them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.config.api_keys import (
    KeyedEnvironment,
    KeyFile,
    KeyringEntry,
    key_of,
    keyed,
    read_key_file,
    source_of,
)
from agent_cli.config.layer import ConfigError
from agent_cli.config.schema import Provider
from agent_cli.model.routing import MissingKey, key_source, resolve
from tests.rows import each_row

KEY = "k-4711-from-file"


def write(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "keys.yaml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_key_file(path)
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value).replace(str(path.parent), "…")


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, f"OPENAI_API_KEY: {KEY}\nANTHROPIC_API_KEY: '{KEY}2'\n")
    env = keyed({"OPENAI_API_KEY": " from-env ", "EMPTY": ""}, tmp_path)
    assert key_of(env, "OPENAI_API_KEY") == "from-env"
    assert key_of(env, "ANTHROPIC_API_KEY") == f"{KEY}2"
    assert key_of(env, "GROQ_API_KEY") == source_of(env, "GROQ_API_KEY") == ""
    assert source_of(env, "OPENAI_API_KEY") == "the variable OPENAI_API_KEY"
    assert source_of(env, "ANTHROPIC_API_KEY") == f"ANTHROPIC_API_KEY in {path}"
    assert env.held() == {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": f"{KEY}2"}


def test_an_empty_variable_is_none(tmp_path: Path) -> None:
    write(tmp_path, f"OPENAI_API_KEY: {KEY}\n")
    assert key_of(keyed({"OPENAI_API_KEY": " "}, tmp_path), "OPENAI_API_KEY") == KEY


def test_a_plain_mapping_is_an_environment_too() -> None:
    assert key_of({"A_KEY": " x "}, "A_KEY") == "x" and source_of({"A_KEY": "x"}, "A_KEY") == "the variable A_KEY"
    assert source_of({}, "A_KEY") == ""


def test_a_key_file_gives_keys_and_no_other_setting(tmp_path: Path) -> None:
    write(tmp_path, f"OPENAI_API_KEY: {KEY}\nOPENAI_BASE_URL: http://elsewhere.example/v1\n")
    route = resolve("openai/gpt-4.1", {}, keyed({}, tmp_path))
    assert (route.api_key, route.base_url) == (KEY, "https://api.openai.com/v1")
    assert KEY not in repr(route)


def test_a_provider_of_ones_own_takes_its_key_from_the_file(tmp_path: Path) -> None:
    write(tmp_path, f"MINE_API_KEY: {KEY}\n")
    providers = {"mine": Provider(base_url="http://127.0.0.1:9/v1", api_key_env="MINE_API_KEY")}
    env = keyed({}, tmp_path)
    assert resolve("mine/m", providers, env).api_key == KEY
    assert key_source("mine/m", providers, env) == f"MINE_API_KEY in {tmp_path / 'keys.yaml'}"


def test_a_local_provider_needs_no_key(tmp_path: Path) -> None:
    env = keyed({}, tmp_path)
    assert resolve("ollama/m", {}, env).api_key == "" and key_source("ollama/m", {}, env) == ""
    with pytest.raises(MissingKey):
        resolve("openai/gpt-4.1", {}, env)


def test_no_file_is_no_key(tmp_path: Path) -> None:
    assert read_key_file(tmp_path / "keys.yaml") == KeyFile(str(tmp_path / "keys.yaml"))
    assert read_key_file(write(tmp_path, "# nothing yet\n")) == KeyFile(str(tmp_path / "keys.yaml"))


@each_row("mode", [0o644, 0o640, 0o604, 0o660, 0o622, 0o700])
def test_a_file_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    told = refusal(write(tmp_path, f"OPENAI_API_KEY: {KEY}\n", mode))
    assert told.startswith(f"…/keys.yaml: others may open it (mode {mode:04o}); run `chmod 600 …/keys.yaml`")


def test_a_file_that_only_its_owner_reads_is_fine(tmp_path: Path) -> None:
    assert read_key_file(write(tmp_path, f"OPENAI_API_KEY: {KEY}\n", 0o400)).values == {"OPENAI_API_KEY": KEY}


def test_a_link_is_judged_by_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = write(tmp_path / "elsewhere", f"OPENAI_API_KEY: {KEY}\n", 0o644)
    (tmp_path / "keys.yaml").symlink_to(target)
    assert "chmod 600" in refusal(tmp_path / "keys.yaml")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "keys.yaml", 0o600)
    assert refusal(tmp_path / "keys.yaml") == "…/keys.yaml: not a regular file"
    (tmp_path / "keys.yaml").unlink()
    (tmp_path / "keys.yaml").mkdir(0o700)
    assert refusal(tmp_path / "keys.yaml") == "…/keys.yaml: not a regular file"


def test_the_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    if os.geteuid() == 0:
        os.chown(write(tmp_path, f"OPENAI_API_KEY: {KEY}\n"), 12345, -1)
    else:
        path.symlink_to("/etc/passwd")
    assert "belongs to another user (id " in refusal(path)


@each_row(
    ("text", "told"),
    [
        (f"OPENAI_API_KEY: {KEY}\nOPENAI_API_KEY: {KEY}\n", "…/keys.yaml:2: OPENAI_API_KEY is given twice"),
        (f"OPENAI_API_KEY={KEY}\n", "…/keys.yaml: not a mapping of variables to keys; write lines such as"),
        (f"- {KEY}\n", "…/keys.yaml: not a mapping of variables to keys; write lines such as"),
        (f"{KEY}: x\n", "…/keys.yaml:1: not the name of a variable; write lines such as"),
        (f"\n\nA: *{KEY}\n", "…/keys.yaml:3: not valid YAML; write lines such as"),
        (f"A: [{KEY}\n", "…/keys.yaml:2: not valid YAML; write lines such as"),
        (f"\nA: !{KEY} [\n", "…/keys.yaml:3: not valid YAML; write lines such as"),
        ("A:\n", "…/keys.yaml:1: the key of A is empty, or has characters that no key has"),
        ("A: |\n  a\n  b\n", "…/keys.yaml:1: the key of A is empty, or has characters that no key has"),
        (f"A: [{KEY}]\n", "…/keys.yaml:1: write the key of A, or `{keyring: SERVICE/USER}`"),
        (f"A: {{keyring: {KEY}}}\n", "…/keys.yaml:1: write the key of A, or `{keyring: SERVICE/USER}`"),
        (f"A: {{keychain: a/{KEY}}}\n", "…/keys.yaml:1: write the key of A, or `{keyring: SERVICE/USER}`"),
        ("A: {[a]: b/c}\n", "…/keys.yaml:1: write the key of A, or `{keyring: SERVICE/USER}`"),
    ],
)
def test_a_file_that_is_wrong_is_told_without_what_it_holds(tmp_path: Path, text: str, told: str) -> None:
    assert refusal(write(tmp_path, text)).startswith(told)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.write_bytes(b"\xff\xfe\x00")
    assert refusal(path) == "…/keys.yaml: not UTF-8 text"
    path.write_bytes(b"# " * 40_000)
    assert refusal(path) == "…/keys.yaml: too large for a key file"


def test_a_number_is_a_key_as_it_is_written(tmp_path: Path) -> None:
    assert read_key_file(write(tmp_path, "A: 0012\nB: 1e3\nC: true\n")).values == {
        "A": "0012",
        "B": "1e3",
        "C": "true",
    }


def test_keys_are_in_no_representation(tmp_path: Path) -> None:
    write(tmp_path, f"OPENAI_API_KEY: {KEY}\n")
    env = keyed({"ANTHROPIC_API_KEY": KEY}, tmp_path)
    assert KEY not in f"{env!r}{env}{read_key_file(tmp_path / 'keys.yaml')!r}"
    assert "OPENAI_API_KEY" in repr(env) and "OPENAI_API_KEY" not in {**env} and KEY not in os.environ.values()


ASK = """
import sys
from agent_cli.config.api_keys import KeyedEnvironment, KeyFile, KeyringEntry
file = KeyFile("/c/keys.yaml", {}, {"A_KEY": KeyringEntry("agent-cli", "me"), "B_KEY": KeyringEntry("agent-cli", "you")})
env = KeyedEnvironment({}, file, float(sys.argv[1]))
print([env.key("A_KEY"), env.key("A_KEY"), env.key("B_KEY"), env.key("C_KEY")])
print(env.source("A_KEY"))
print(env.problems)
"""


def ask(folder: Path, backend: str | None, timeout_s: float = 0.4) -> list[str]:
    """What a program prints that asks a keyring of our making; None: there is none."""
    if backend is not None:
        (folder / "keyring.py").write_text(backend, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(timeout_s)], capture_output=True, text=True, timeout=90, check=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_a_key_out_of_the_keyring(tmp_path: Path) -> None:
    lines = ask(
        tmp_path, "def get_password(service, user):\n    return f'{service}-{user}-pw' if user == 'me' else None\n"
    )
    assert lines[0] == "['agent-cli-me-pw', 'agent-cli-me-pw', '', '']"
    assert lines[1] == "the keyring (agent-cli/me, for A_KEY in /c/keys.yaml)"
    assert "it has no password for agent-cli/you; set B_KEY, or put the key into that file" in lines[2]


def test_a_keyring_that_hangs_is_left_alone_after_its_time(tmp_path: Path) -> None:
    lines = ask(tmp_path, "import time\ndef get_password(service, user):\n    time.sleep(600)\n")
    assert lines[0] == "['', '', '', '']"
    assert lines[2].count("did not answer within 0.4 s") == 1


@pytest.mark.parametrize(
    ("backend", "told"),
    [
        (None, "the package `keyring` is not installed"),
        ("raise RuntimeError('k-4711 secret words')\n", "the keyring failed (RuntimeError)"),
        ("def get_password(service, user):\n    raise SystemExit(3)\n", "the keyring failed (SystemExit)"),
    ],
)
def test_a_keyring_that_fails_is_one_message(tmp_path: Path, backend: str | None, told: str) -> None:
    lines = ask(tmp_path, backend or "raise ImportError('none')\n")
    assert lines[0] == "['', '', '', '']"
    assert lines[2].count(told) == 1 and "k-4711" not in "".join(lines)


def test_the_keyring_is_not_touched_where_no_file_names_it() -> None:
    env = KeyedEnvironment({"A_KEY": "x"}, KeyFile("f", {"B_KEY": "y"}, {"A_KEY": KeyringEntry("s", "u")}))
    assert (env.key("A_KEY"), env.key("B_KEY"), env.key("C_KEY"), env.problems) == ("x", "y", "", [])
    assert "keyring" not in sys.modules


def test_what_keys_there_should_be_is_known_without_the_keyring() -> None:
    entry = KeyringEntry("s", "u")
    env = KeyedEnvironment(
        {"A": "x", "B": " ", "PATH": "/bin"}, KeyFile("f", {"B": "y"}, {"A": entry, "C": entry})
    )
    assert env.expected() == {"A": "x", "B": "y", "C": "?", "PATH": "/bin"}
    assert "keyring" not in sys.modules
