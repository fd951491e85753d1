"""What was masked once stays masked: in a session that goes on where its variables are gone, in forks, exports and
imports, and when the same value comes up anew."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World
from tests.model.server import Call, Reply
from tests.redaction.secrets import ALNUM, some

SECRET, KEY = some(ALNUM, 28, "app"), some(ALNUM, 40, "provider")
ENV = {"MY_APP_SECRET": SECRET, "OPENAI_API_KEY": KEY}
LATER = {"OPENAI_API_KEY": some(ALNUM, 40, "new provider")}


def _read(path: str) -> Reply:
    return Reply(calls=(Call("read_file", {"path": path}, id=f"call_{path}"),))


def _forms(value: str) -> tuple[str, ...]:
    return value, base64.b64encode(value.encode()).decode()[:-4], value.encode().hex()


def _begin(world: World) -> None:
    """A session whose model has read both secrets, masked."""
    (world.work / "notes.txt").write_text(f"app: {SECRET}\nprovider: {KEY}\n", encoding="utf-8")
    (world.work / "later.txt").write_text(
        f"again {SECRET}, {KEY}\n{base64.b64encode(f'x={SECRET}'.encode()).decode()}\n", encoding="utf-8"
    )
    world.script(_read("notes.txt"), Reply(text="Read."))
    world.run("run", "read the notes", env=ENV)
    assert "[masked: MY_APP_SECRET]" in world.messages(1, "tool")[0]


def _written(world: World) -> str:
    """Everything on disk that the program wrote."""
    return "".join(path.read_text("utf-8", "replace") for path in world.state.rglob("*") if path.is_file())


def _no_secret(text: str) -> None:
    assert not [form for value in (SECRET, KEY) for form in _forms(value) if form in text]


def test_a_session_resumed_without_the_variables_sends_the_same_bytes(world: World) -> None:
    _begin(world)
    before = world.bodies()[1]["messages"]
    world.script(Reply(text="Next."))
    world.run("run", "-c", "next", env=LATER)
    after = world.bodies()[2]["messages"]
    assert json.dumps(after[: len(before)]) == json.dumps(before)
    _no_secret(json.dumps(world.bodies()))


@pytest.mark.parametrize("again", [("-c",), ("-c", "--fork")], ids=["resumed", "forked"])
def test_a_value_that_comes_up_anew_is_masked_with_its_name(world: World, again: tuple[str, ...]) -> None:
    _begin(world)
    world.script(_read("later.txt"), Reply(text=f"It is {SECRET}."))
    done = world.run("run", *again, "read more", "--debug", "--output-format", "stream-json", env=LATER)
    result = world.messages(-1, "tool")[-1]
    assert "again [masked: MY_APP_SECRET], [masked: OPENAI_API_KEY]" in result
    assert result.count("[masked: MY_APP_SECRET]") == 2, "in base64 too"
    assert done.result["text"] == "It is [masked: MY_APP_SECRET]."
    _no_secret(json.dumps(world.bodies()) + done.out + done.err)
    _no_secret("".join(path.read_text() for path in (world.state / "logs").iterdir()))


def test_another_session_masks_it_too(world: World) -> None:
    _begin(world)
    world.script(_read("later.txt"), Reply(text="Read."))
    world.run("run", "a new session", env=LATER)
    _no_secret(json.dumps(world.bodies()))


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_exports_elsewhere_mask_it(world: World, form: str) -> None:
    _begin(world)
    world.script(Reply(calls=(Call("shell", {"command": f"echo {SECRET}"}),)), Reply(text=f"It is {KEY}."))
    world.run("run", "-c", "echo it", "--mode", "yolo", env=ENV)
    identifier = _identifier(world)
    told = [world.run("sessions", "export", identifier, "--format", form, env=LATER)]
    told.append(world.run("sessions", "show", identifier, env=LATER))
    told += [world.run("sessions", "search", "It is", *json_, env=LATER) for json_ in ((), ("--json",))]
    for done in told:
        assert done.code == 0, done
        _no_secret(done.out + done.err)


def _identifier(world: World) -> str:
    return world.sessions()[0].stem.rpartition("-")[2]


def test_an_import_elsewhere_holds_none(world: World, tmp_path: Path) -> None:
    _begin(world)
    file = tmp_path / "export.json"
    assert world.run("sessions", "export", _identifier(world), "-o", str(file), env=LATER).code == 0
    elsewhere: dict[str, str | None] = {**LATER, "AGENT_STATE_DIR": str(tmp_path / "other")}
    assert world.run("sessions", "import", str(file), env=elsewhere).code == 0
    world.script(Reply(text="Next."))
    assert world.run("run", "-c", "next", env=elsewhere).code == 0
    assert "[masked: MY_APP_SECRET]" in "".join(world.messages(-1, "tool"))
    _no_secret(json.dumps(world.bodies()) + file.read_text())


def test_no_secret_is_kept_to_know_it_again(world: World) -> None:
    _begin(world)
    _no_secret(_written(world))
    kept = world.state / "known-secrets.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    names = [each["name"] for each in json.loads(kept.read_text())["secrets"]]
    assert "MY_APP_SECRET" in names and "OPENAI_API_KEY" in names


def test_a_variable_that_was_renamed_keeps_its_first_name(world: World) -> None:
    _begin(world)
    world.script(Reply(text="Next."))
    world.run("run", "-c", "next", env={**LATER, "A_PASSWORD": SECRET})
    assert "[masked: MY_APP_SECRET]" in world.messages(-1, "tool")[0]
    before: list[Any] = world.bodies()[1]["messages"]
    assert world.bodies()[2]["messages"][: len(before)] == before


def test_a_session_from_before_is_masked_by_what_the_environment_knows(world: World) -> None:
    """As a version wrote it that masked on the way out alone."""
    _begin(world)
    [path] = world.sessions()
    path.write_text(path.read_text().replace("[masked: MY_APP_SECRET]", SECRET), encoding="utf-8")
    (world.state / "known-secrets.json").unlink()
    world.script(Reply(text="Next."))
    world.run("run", "-c", "next", env=ENV)
    assert "[masked: MY_APP_SECRET]" in world.messages(-1, "tool")[0]
    _no_secret(json.dumps(world.bodies()))


def test_the_file_of_a_long_output_holds_no_secret(world: World) -> None:
    (world.work / "notes.txt").write_text(f"app: {SECRET}\n" + "line\n" * 10_000 + SECRET, encoding="utf-8")
    world.script(Reply(calls=(Call("shell", {"command": "cat notes.txt"}),)), Reply(text="Read."))
    world.run("run", "read the notes", "--mode", "yolo", env=ENV)
    (spilled,) = world.state.glob("spill/*/*.txt")
    assert spilled.read_text(encoding="utf-8").startswith("app: [masked: MY_APP_SECRET]\nline\n")
    _no_secret(_written(world))
