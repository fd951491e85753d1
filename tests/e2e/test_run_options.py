"""Options of `agent run` that other programs start it with: an id for the session, `-p`, a very long input."""

import json

import pytest

from tests.e2e.world import World
from tests.model.server import Reply

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.mark.parametrize("given", [UUID, "00c0ffee"])
def test_a_session_has_the_id_that_it_is_given(world: World, given: str) -> None:
    world.script(Reply(text="one"), Reply(text="two"), Reply(text="three"))
    done = world.run("run", "first", "--session-id", given, "--output-format", "json")
    assert (done.code, done.result["session_id"]) == (0, given), done.err
    (path,) = world.sessions()
    assert path.name.endswith(f"Z-{given}.json") and world.records("session")[0]["session_id"] == given
    assert world.run("run", "second", "--resume", given).out == "two\n"
    assert world.run("run", "third", "--resume", given.upper()[:6]).out == "three\n"
    (listed,) = json.loads(world.run("sessions", "list", "--json").out)
    assert listed["id"] == given and listed["turns"] == 3
    assert "second" in world.run("sessions", "show", given).out
    assert world.run("sessions", "delete", "--yes", given).code == 0 and not world.sessions()


def test_a_whole_id_is_that_session_though_a_longer_one_begins_so(world: World) -> None:
    world.script(*(Reply(text=word) for word in ("long", "short", "again")))
    assert world.run("run", "a", "--session-id", UUID).code == 0
    assert world.run("run", "b", "--session-id", UUID[:8]).code == 0
    assert world.run("run", "c", "--resume", UUID[:8]).out == "again\n"
    assert "b" in world.messages(role="user")[0]


def test_an_id_is_refused_where_it_cannot_be_that_of_a_new_session(world: World) -> None:
    world.script(Reply(text="one"), Reply(text="two"))
    assert world.run("run", "first", "--session-id", UUID.upper()).code == 0
    for options, why in (
        (["--session-id", UUID], f"`agent run --resume {UUID}` continues that session"),
        (["--session-id", "../../x"], "write a UUID, or 8 hexadecimal digits"),
        (["--session-id", ""], "write a UUID, or 8 hexadecimal digits"),
        (["--session-id", "00c0ffee", "--continue"], "add --fork to continue a copy under that id"),
    ):
        done = world.run("run", "again", "--output-format", "json", *options)
        assert (done.code, done.result["stop_reason"]) == (2, "usage_error") and why in done.err, done.err
    assert len(world.sessions()) == 1 and len(world.bodies()) == 1
    assert world.run("run", "copy", "--continue", "--fork", "--session-id", "00c0ffee").out == "two\n"
    assert {path.stem[17:] for path in world.sessions()} == {UUID, "00c0ffee"}


@pytest.mark.parametrize(
    "line",
    [
        ("run", "-p", "the task", "-q"),
        ("run", "the task", "--print", "-q"),
        ("-p", "the task", "-q"),
        ("-q", "--print", "the task"),
        ("-q", "the task", "-p", "--output-format", "text"),
    ],
)
def test_print_runs_one_task_as_run_does(world: World, line: tuple[str, ...]) -> None:
    world.script(Reply(text="done"))
    done = world.run(*line)
    assert (done.code, done.out, done.err) == (0, "done\n", "")
    assert world.messages(role="user")[-1].endswith("the task")


def test_print_reads_the_task_from_standard_input(world: World) -> None:
    world.script(Reply(text="done"))
    assert world.run("-p", "-q", text="the task").out == "done\n"
    assert world.messages(role="user")[-1].endswith("the task")


def test_print_behind_a_double_dash_is_a_prompt(world: World) -> None:
    world.script(Reply(text="done"))
    assert world.run("run", "-q", "--", "-p").out == "done\n"
    assert world.messages(role="user")[-1].endswith("-p")


def test_megabytes_are_sent_whole(world: World) -> None:
    world.script(Reply(text="done"))
    text = "word " * 1_000_000
    done = world.run("run", "--output-format", "json", text=text)
    assert done.code == 0 and world.messages(role="user")[-1].endswith(text), done.err


def test_a_task_beyond_the_window_ends_with_a_clear_error(world: World) -> None:
    window = ("--set", "providers.openai.models.mock-model.context_window=128000")
    done = world.run("run", "--output-format", "json", *window, text="word " * 400_000)
    assert (done.code, done.result["stop_reason"]) == (5, "context_limit"), done.err
    assert "128" in done.result["error"]["message"] and not world.bodies()
