"""A person without a key pastes one at the first start; it works, lies where they said, and is seen nowhere."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from agent_cli.cli.services.key_entry import problem_of, provider_of
from agent_cli.config.api_keys import read_key_file, save_key
from agent_cli.config.layer import ConfigError
from tests.cli.test_help import NOTHING
from tests.e2e.person import Person
from tests.e2e.world import World
from tests.model.server import Reply
from tests.rows import each_row

KEY = "sk-ant-api03-Qx7fLw2Zt9Vb4Nk8Rm3Hd6Js1Pc5Yg0"
ASKED = r"Paste an API key to continue \(Enter to quit\):"
KEYRING = """\
import json, pathlib
FILE = pathlib.Path(__file__).with_name("ring.json")
class Backend:
    priority = {priority}
def get_keyring():
    return Backend()
def set_password(service, user, password):
    FILE.write_text(json.dumps([service, user, password]))
def get_password(service, user):
    return json.loads(FILE.read_text())[2]
"""


class _Bare(World):
    """A machine without a key or a model."""

    more: Mapping[str, str]

    def environment(self, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """Only what was set for this test."""
        return super().environment({**NOTHING, **self.more, **(changes or {})})


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[_Bare]:
    with _Bare(tmp_path) as machine:
        machine.more = {}
        url = machine.server.url
        (machine.config / "config.yaml").write_text(
            f"providers: {{anthropic: {{base_url: '{url}'}}}}\n", encoding="utf-8"
        )
        yield machine


def _asked(world: World) -> Person:
    person = Person(world, columns=200, is_awaited=False)
    person.wait(ASKED)
    return person


def _pasted(person: Person, key: str) -> None:
    person.paste(key)
    person.send("\r")


def _unseen(world: _Bare, person: Person, key: str = KEY, *, besides: Path | None = None) -> None:
    assert key.encode() not in person.log and key[-12:].encode() not in person.log
    found = [
        path
        for folder in (world.state, world.home, world.config, world.work)
        for path in folder.rglob("*")
        if path.is_file() and path != besides and key.encode() in path.read_bytes()
    ]
    assert found == []


def _works(world: World, person: Person) -> None:
    """The prompt stands, and a task is done with the key."""
    person.wait("/help for commands")
    person.ask("Greet me")
    assert "Good day to you." in person.text
    (request,) = world.server.requests
    assert request.headers["x-api-key"] == KEY
    person.leave()


def test_a_pasted_key_is_saved_in_the_file_and_used_at_once_and_later(bare: _Bare) -> None:
    path = bare.config / "keys.yaml"
    bare.script(Reply(text="Good day to you."))
    with _asked(bare) as person:
        _pasted(person, f"  {KEY} \n")
        person.wait("This is ANTHROPIC_API_KEY, a key of anthropic")
        person.decide("Where to save it", "")
        person.send("1")
        person.wait("Saved in ")
        _works(bare, person)
        _unseen(bare, person, besides=path)
    assert path.stat().st_mode & 0o7777 == 0o600
    assert read_key_file(path).values == {"ANTHROPIC_API_KEY": KEY}
    bare.script(Reply(text="Again."))
    assert "Again." in bare.run("run", "Greet me").out


def _name_variable(bare: _Bare) -> None:
    (bare.config / "config.yaml").write_text(
        f"providers: {{anthropic: {{base_url: '{bare.server.url}', api_key_env: MINE_API_KEY}}}}\n",
        encoding="utf-8",
    )


@pytest.mark.parametrize("key", [KEY, "0123456789abcdef-0123456789"])
def test_a_missing_key_of_a_named_model_is_asked_for_and_saved_under_its_variable(bare: _Bare, key: str) -> None:
    _name_variable(bare)
    bare.script(Reply(text="Good day to you."))
    with Person(bare, "-m", "anthropic/claude-test", columns=200, is_awaited=False, is_warm=False) as person:
        person.wait("MINE_API_KEY, the variable for the key of anthropic")
        person.wait(ASKED)
        _pasted(person, key)
        person.wait("This is MINE_API_KEY, a key of anthropic")
        person.decide("Where to save it", "")
        assert "it is a key of another" not in person.text
        person.send("1")
        person.wait("Saved in ")
        person.wait("/help for commands")
        person.ask("Greet me")
        (request,) = bare.server.requests
        assert request.headers["x-api-key"] == key
        person.leave()
    assert read_key_file(bare.config / "keys.yaml").values == {"MINE_API_KEY": key}


def test_a_missing_key_of_a_named_model_is_an_error_without_a_terminal(bare: _Bare) -> None:
    _name_variable(bare)
    for line in (["run", "-m", "anthropic/claude-test", "x"], ["-m", "anthropic/claude-test", "x"]):
        done = bare.run(*line)
        assert (done.code, done.out) == (3, "") and "Paste an API key" not in done.err
        assert "MINE_API_KEY, the variable for the key of anthropic" in done.err and "keys.yaml" in done.err


def test_a_key_for_this_start_alone_is_saved_nowhere(bare: _Bare) -> None:
    bare.script(Reply(text="Good day to you."))
    with _asked(bare) as person:
        person.type(KEY)
        person.send("\r")
        person.decide("Where to save it", "")
        person.send("2")
        _works(bare, person)
        _unseen(bare, person)
    assert not (bare.config / "keys.yaml").exists()
    assert bare.run("run", "x").code == 3


def test_a_key_saved_in_the_keyring(bare: _Bare) -> None:
    modules = bare.home / "modules"
    modules.mkdir()
    (modules / "keyring.py").write_text(KEYRING.format(priority=5), encoding="utf-8")
    bare.more = {"PYTHONPATH": str(modules)}
    bare.script(Reply(text="Good day to you."))
    with _asked(bare) as person:
        _pasted(person, KEY)
        person.decide("Where to save it", "")
        assert "1  the system's keyring" in person.text
        person.send("1")
        person.wait("Saved in the keyring")
        _works(bare, person)
        _unseen(bare, person, besides=modules / "ring.json")
    assert json.loads((modules / "ring.json").read_bytes()) == ["agent-cli", "ANTHROPIC_API_KEY", KEY]
    path = bare.config / "keys.yaml"
    assert path.read_text(encoding="utf-8") == "ANTHROPIC_API_KEY: {keyring: agent-cli/ANTHROPIC_API_KEY}\n"


def test_a_keyring_that_cannot_store_is_not_offered(bare: _Bare) -> None:
    modules = bare.home / "modules"
    modules.mkdir()
    (modules / "keyring.py").write_text(KEYRING.format(priority=0), encoding="utf-8")
    bare.more = {"PYTHONPATH": str(modules)}
    with _asked(bare) as person:
        _pasted(person, KEY)
        person.wait("Where to save it")
        assert "system's keyring" not in person.text and "keys.yaml" in person.text
        person.send("\x1b")
        assert person.finish() == 3


@pytest.mark.parametrize("key", ["\r", "\x03", "\x04", "\x1b"], ids=["enter", "ctrl-c", "ctrl-d", "esc"])
def test_quitting_exits_with_3(bare: _Bare, key: str) -> None:
    with _asked(bare) as person:
        if key != "\r":
            person.type(KEY)
        person.send(key)
        assert person.finish() == 3
        _unseen(bare, person)
    assert not (bare.config / "keys.yaml").exists() and "Traceback" not in person.text


def test_a_wrong_paste_is_asked_for_once_more(bare: _Bare) -> None:
    with _asked(bare) as person:
        _pasted(person, KEY[:20])
        person.wait("it begins like a key of anthropic, but is cut off")
        person.wait(rf"(?s){ASKED}.*{ASKED}")
        _pasted(person, "   ")
        person.wait("nothing was pasted but blanks")
        assert person.finish() == 3
        _unseen(bare, person, KEY[:20])


def test_a_key_of_unknown_shape_asks_for_its_provider(bare: _Bare) -> None:
    key = "Zq8LmW3xR5tYv7Bn1Kc9Hd2F"
    with _asked(bare) as person:
        _pasted(person, key)
        person.wait("Which provider is the key of")
        person.type("7")
        person.wait("❯ 7 mistral +MISTRAL_API_KEY")
        person.send("\r")
        person.wait("This is MISTRAL_API_KEY, a key of mistral")
        person.decide("Where to save it", "")
        person.send("3")
        person.wait("Which provider is the key of")
        person.send("\x1b")
        assert person.finish() == 3
        _unseen(bare, person, key)


def test_a_key_file_that_is_a_link_is_refused(bare: _Bare) -> None:
    target, path = bare.home / "keys", bare.config / "keys.yaml"
    target.write_text("# mine\n", encoding="utf-8")
    target.chmod(0o600)
    path.symlink_to(target)
    with _asked(bare) as person:
        _pasted(person, KEY)
        person.decide("Where to save it", "")
        person.send("1")
        person.wait("not saved: .*keys.yaml: a link")
        person.wait(r"(?s)not saved.*Where to save it")
        person.send("\x03")
        assert person.finish() == 3
        _unseen(bare, person)
    assert path.is_symlink() and target.read_text(encoding="utf-8") == "# mine\n"


@pytest.mark.parametrize("arguments", [("run", "a task"), ("-",), ("a prompt",)])
def test_without_a_terminal_nobody_is_asked(bare: _Bare, arguments: tuple[str, ...]) -> None:
    done = bare.run(*arguments, text="data\n")
    assert (done.code, done.out) == (3, "") and "Paste an API key" not in done.err


def test_piped_data_beside_a_terminal_asks_nobody(bare: _Bare) -> None:
    with Person(bare, is_awaited=False, piped="echo data") as person:
        assert person.finish() == 3
        assert "Three ways" in person.text and "Paste an API key" not in person.text


def test_saving_leaves_the_other_lines_of_a_key_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "keys.yaml"
    save_key(path, "A_KEY", "k: 'x' # \"y\\")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert read_key_file(path).values == {"A_KEY": "k: 'x' # \"y\\"}
    path.write_text("# work\nA_KEY: old  # since May\nB_KEY: {keyring: a/b}\n", encoding="utf-8")
    save_key(path, "C_KEY", KEY)
    save_key(path, "A_KEY", "12")
    text = f'# work\nA_KEY: "12"  # since May\nB_KEY: {{keyring: a/b}}\nC_KEY: "{KEY}"\n'
    assert path.read_text(encoding="utf-8") == text
    assert path.stat().st_mode & 0o7777 == 0o600


def test_a_key_file_that_others_may_read_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text("A_KEY: a\n", encoding="utf-8")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others may open it") as caught:
        save_key(path, "B_KEY", KEY)
    assert KEY not in str(caught.value) and path.read_text(encoding="utf-8") == "A_KEY: a\n"


@each_row(
    ("key", "provider"),
    [
        (KEY, "anthropic"),
        ("sk-or-v1-" + "0a1b2c3d" * 8, "openrouter"),
        ("sk-proj-" + "aB3_dE5-" * 16, "openai"),
        ("sk-" + "aB3dE5fG" * 6, "openai"),
        ("AIza" + "aB3dE5f" * 5, "gemini"),
        ("gsk_" + "aB3dE5fG" * 6, "groq"),
        ("xai-" + "aB3dE5fG" * 10, "xai"),
        ("csk-" + "a1b2c3d4" * 6, "cerebras"),
        ("0123456789abcdef0123456789abcdef", ""),
    ],
)
def test_the_shape_of_a_key_names_its_provider(key: str, provider: str) -> None:
    assert (provider_of(key), problem_of(key)) == (provider, "")


@each_row("key", ["", "k-4711", "sk-ant-cut-off-here", "two words in a key", "clé-0123456789abcdef"])
def test_what_can_be_no_key(key: str) -> None:
    assert problem_of(key) and (not key or key not in problem_of(key))


@pytest.mark.parametrize("words", [("setup",), ("acp", "setup")])
def test_the_login_of_an_editor_asks_for_a_key_and_ends_well(bare: _Bare, words: tuple[str, ...]) -> None:
    with Person(bare, *words, columns=200, is_awaited=False) as person:
        person.wait(ASKED)
        _pasted(person, KEY)
        person.decide("Where to save it", "")
        person.send("1")
        person.wait("Saved in ")
        assert person.finish() == 0
        _unseen(bare, person, besides=bare.config / "keys.yaml")
    done = bare.run(*words)
    assert done.out == "A model can be used: nothing to set up.\n"
    assert "To add a key of another provider, start `agent -m PROVIDER/MODEL`." in done.err
