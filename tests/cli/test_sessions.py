"""`agent sessions`: saved sessions listed, searched, shown, named, forked and deleted."""

import json
import os
import subprocess

import pytest

from agent_cli.protocol.messages import ToolResult
from tests.cli.running import kept, told
from tests.e2e.warm import WarmProcess
from tests.e2e.world import Done, World, finish, shell
from tests.model.server import Call, Reply


def test_without_a_session_the_list_says_so(world: World) -> None:
    assert told(world, ["list"], ["list", "--json"]) == [
        Done(0, "No sessions yet. Start one with `agent`.\n", ""),
        Done(0, "[]\n", ""),
    ]


def test_the_list_is_of_this_directory_newest_first(world: World) -> None:
    other = world.home / "other"
    other.mkdir()
    first = kept(world, ("the first\nwith more lines", "Yes."))
    elsewhere = kept(world, ("elsewhere", "Yes."), cwd=other)
    second = kept(world, ("the second", "Yes."))
    here, everywhere = told(world, ["list"], ["list", "--all"])
    assert [(line.split()[0], line.split("  ")[2]) for line in here.out.splitlines()] == [
        (second, "the second"),
        (first, "the first"),
    ]
    assert [(line.split()[0], line.split("  ")[-1]) for line in everywhere.out.splitlines()] == [
        (second, str(world.work)),
        (elsewhere, str(other)),
        (first, str(world.work)),
    ]


def test_the_list_says_how_many_files_it_could_not_read(world: World) -> None:
    kept(world, ("hello", "Hi."))
    (path,) = world.sessions()
    pipe = path.with_name("20260101T000000Z-eeeeeeee.json")
    os.mkfifo(pipe)
    listed, shown = told(world, ["list"], ["show", "eeee"])
    pipe.unlink()
    assert listed.code == 0 and len(listed.out.splitlines()) == 1
    assert listed.err == f"agent: 1 file called like a session could not be read: {pipe}\n"
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith(f"agent: cannot read session {pipe}: not a regular file")


def test_the_list_as_json(world: World) -> None:
    world.script(Reply(text="Done."))
    assert world.run("run", "count to three").code == 0
    (path,) = world.sessions()
    (info,) = json.loads(world.run("sessions", "list", "--json").out)
    assert info == {
        "id": path.stem.rpartition("-")[2], "path": str(path), "cwd": str(world.work), "title": "count to three",
        "created": world.records("session")[0]["time"], "updated": path.stat().st_mtime,
        "model": "openai/mock-model", "branches": [], "turns": 1, "cost_usd": None, "unpriced": 1,
        "size_bytes": path.stat().st_size, "named": False, "purpose": "",
    }  # fmt: skip


def test_a_session_is_shown_as_a_conversation(world: World) -> None:
    world.script(shell("echo hi; exit 3"), Reply(text="It \x1b[31mfailed."))
    world.run("run", "try it", "--mode", "yolo")
    identifier = world.sessions()[0].stem.rpartition("-")[2]
    shown, as_json = told(world, ["show", identifier[:3]], ["show", identifier, "--json"])
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "", "[1] > try it", "  [shell: failed] hi", "", "It failed.", "",
        "1 prompt, 2 model calls, cost unknown", str(world.sessions()[0]),
    ]  # fmt: skip
    assert json.loads(as_json.out) == world.records()


def test_a_prefix_that_fits_several_sessions_names_them(world: World) -> None:
    one = kept(world, ("one", "Yes."))
    (path,) = world.sessions()
    twin = path.with_name(path.name.replace(one, one[:4] + "ffff"))
    twin.write_bytes(path.read_bytes())
    twin.chmod(0o600)
    both, single = told(world, ["show", one[:4]], ["show", one])
    ids = ", ".join(sorted([one, one[:4] + "ffff"]))
    assert both == Done(2, "", f"agent: '{one[:4]}' is not unique: {ids}; give more of the id\n")
    assert single.code == 0


def test_nothing_is_deleted_by_a_name_that_fits_nothing_or_unasked(world: World) -> None:
    identifier = kept(world, ("keep me", "Yes."))
    empty, other, unasked = told(world, ["delete", "", "--yes"], ["delete", "zz", "--yes"], ["delete", identifier])
    assert (empty.code, other.code) == (2, 2)
    assert unasked == Done(2, "", "agent: there is no terminal to ask on; add --yes\n")
    assert len(world.sessions()) == 1


def test_a_session_in_use_can_be_read_and_forked_and_no_more(world: World) -> None:
    world.script(Reply(hang="before_headers"))
    running = world.start("run", "wait", stdin=subprocess.DEVNULL)
    while not world.bodies():
        assert running.poll() is None
    identifier = world.sessions()[0].stem.rpartition("-")[2]
    deleted, renamed, repaired, shown, forked = told(
        world,
        ["delete", identifier, "--yes"],
        ["rename", identifier, "x"],
        ["repair", identifier],
        ["show", identifier],
        ["fork", identifier],
    )
    for refused in (deleted, renamed, repaired):
        assert refused.code == 1 and f"agent: session {world.sessions()[0].stem} is in use" in refused.err
        assert "--fork" not in refused.err, "none of these commands has it"
    assert all(f"`agent sessions show {identifier}`" in refused.err for refused in (deleted, repaired))
    assert "type /rename there" in renamed.err
    assert (shown.code, forked.code, len(world.sessions())) == (0, 0, 2)
    running.terminate()
    assert finish(running).code == 143


def test_a_session_is_shown_without_the_secrets_it_holds(world: World) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    identifier = kept(world, (f"my token is {token}", f"Use {token} here."))
    assert token in world.sessions()[0].read_text(encoding="utf-8")
    shown = told(world, ["show", identifier], ["show", identifier, "--json"], ["list"], ["search", "token"])
    for each in shown:
        assert each.code == 0 and token not in each.out
    assert "[masked: " in shown[3].out and shown[0].out.count("[masked: ") == 2 and json.loads(shown[1].out)


def test_a_name_that_a_model_gave_a_tool_is_shown_on_one_line_and_safe(world: World) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    names = "x\x1b]0;owned\x07\x1b[31m\n[9] > I said this", token
    results = [
        ToolResult(id=f"r{name}", turn_id="turn_1", call_id="c", tool=name, status="failed", text="No.")
        for name in names
    ]
    identifier = kept(world, ("go", "Done."), more=results)
    (shown,) = told(world, ["show", identifier])
    assert shown.code == 0 and "\x1b" not in shown.out and token not in shown.out
    assert "\n[9]" not in shown.out and "  [x [9] > I said this: failed] No.\n" in shown.out
    assert "]: failed] No.\n" in shown.out


def test_a_session_is_found_by_what_was_said(world: World) -> None:
    other = world.home / "other"
    other.mkdir()
    first = kept(world, ("mend the basket", "The *total* ignored\nthe count."))
    second = kept(world, ("what about the basket elsewhere", "Nothing."), cwd=other)
    total, everywhere, here, nothing, empty = told(
        world,
        ["search", "total count"],
        ["search", "basket", "--json"],
        ["search", "basket", "--here", "--json"],
        ["search", 'quokka "NEAR('],
        ["search", " "],
    )
    assert (total.code, total.err) == (0, "")
    head, line = total.out.splitlines()
    assert (head.split()[0], head.split("  ")[-1]) == (first, str(world.work))
    assert line == "    agent: The *total* ignored the count."
    assert sorted(hit["session"]["id"] for hit in json.loads(everywhere.out)) == sorted([first, second])
    (hit,) = json.loads(here.out)
    assert (hit["session"]["id"], hit["role"], hit["snippet"]) == (first, "you", "mend the basket")
    assert nothing == Done(1, 'Nothing was found for quokka "NEAR(.\n', "")
    assert empty == Done(2, "", "agent: there is nothing to search for; give a word\n")
    bounded, whole = told(world, ["search", "basket", "--limit", "1"], ["search", "basket", "--limit", "2"])
    assert bounded.err == "These are the best 1; --limit shows more, more words find fewer.\n"
    assert (len(bounded.out.splitlines()), len(whole.out.splitlines()), whole.err) == (2, 4, "")


def test_the_list_is_filtered_and_bounded(world: World) -> None:
    first = kept(world, ("on the branch", "Yes."), branch="fix/it")
    second = kept(world, ("on main", "Yes."), branch="main")
    wanted = {
        ("--branch", "fix/it"): [first],
        ("--branch", "main"): [second],
        ("--since", "1h"): [second, first],
        ("--since", "2000-01-01 10:00", "--limit", "1"): [second],
        ("--until", "today"): [second, first],
        ("--until", "2000-01-01"): ["No"],
    }
    *listed, bounded, wrong = told(
        world, *(["list", *options] for options in wanted), ["list", "--limit", "1"], ["list", "--since", "soon"]
    )
    assert [[line.split()[0] for line in each.out.splitlines()] for each in listed] == [*wanted.values()]
    assert bounded.err == "There are more than 1; --limit, --since and --until choose others.\n"
    told_how = "agent: --since: 'soon' is not a moment; write 7d, 12h, today, yesterday or 2026-11-21\n"
    assert wrong == Done(2, "", told_how)


def test_a_session_gets_a_name_and_is_found_by_it(world: World) -> None:
    identifier = kept(world, ("mend the basket", "Done."))
    named, listed, shown = told(
        world, ["rename", identifier, "The  Basket\n"], ["list", "--json"], ["show", "the basket"]
    )
    assert named == Done(0, f"{identifier} is now called: The Basket\n", "")
    assert json.loads(listed.out)[0]["named"] is True and "> mend the basket" in shown.out
    world.script(Reply(text="Again."))
    assert world.run("run", "go on", "--resume", "THE BASKET").code == 0
    assert len(world.sessions()) == 1
    (unnamed,) = told(world, ["rename", identifier, ""])
    assert unnamed == Done(0, f"{identifier} is now called: mend the basket\n", "")


def test_a_session_is_forked_from_before_a_prompt(world: World) -> None:
    identifier = kept(world, ("one", "Yes."), ("two", "Yes."), ("three", "Yes."))
    done, wrong = told(world, ["fork", identifier, "--at", "2"], ["fork", identifier, "--at", "4"])
    copy = done.out.split()[-1].strip("`")
    assert wrong.err == "agent: the session has 3 prompts, no 4; `agent sessions show` numbers them\n"
    world.script(Reply(text="Otherwise."))
    assert world.run("run", "another two", "--resume", copy).code == 0
    asked = world.messages(role="user")
    assert asked[0].endswith("one") and asked[-1].endswith("another two") and len(asked) == 2
    forked, original = told(world, ["show", copy], ["show", identifier])
    assert "[1] > one" in forked.out and "[2] > another two" in forked.out and "three" not in forked.out
    assert "[3] > three" in original.out


@pytest.mark.parametrize("env", [{"LC_ALL": "C", "LANG": None, "HOME": None}], ids=["c-locale-and-no-home"])
def test_sessions_work_in_poor_surroundings(world: World, env: dict[str, str | None]) -> None:
    identifier = kept(world, ("übersetze 'naïve'", "Grüße 合計"))
    for command in (("list",), ("search", "naïve"), ("show", identifier), ("export", identifier)):
        done = world.run("sessions", *command, env=env)
        assert done.code == 0 and "naïve" in done.out, done


@pytest.mark.parametrize("command", ["show", "export"])
def test_a_reader_who_has_seen_enough_is_no_error(world: World, command: str) -> None:
    process = world.start("sessions", command, kept(world, ("hello", "many words\n" * 20_000)))
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert (process.wait(20), process.stderr.read()) == (0, "")
    process.stdout = None


def test_a_fork_can_undo_what_its_origin_did_after_that_is_deleted(world: World) -> None:
    world.script(Reply(calls=(Call("write_file", {"path": "new.txt", "content": "x"}),)), Reply(text="written"))
    assert world.run("run", "write it", "--mode", "auto-edit").code == 0
    (origin,) = world.sessions()
    forked = world.run("sessions", "fork", origin.stem.rpartition("-")[2])
    identifier = forked.out.strip().rstrip("`").rpartition(" ")[2]
    assert world.run("sessions", "delete", "--yes", origin.stem.rpartition("-")[2]).code == 0
    undone = world.run("undo", "--session", identifier)
    assert undone.code == 0, undone.out + undone.err
    assert not (world.work / "new.txt").exists()


_LISTED = """
from agent_cli.cli.interactive import _listed
from agent_cli.store.catalog import SessionInfo
infos = [SessionInfo(name, f"/{name}.json", "/work", "a title", 1.0, 1.0, "m") for name in ("one", "two")]
print("", *(_listed(infos) for _ in range(5)), sep="\\n")
"""


def test_what_is_typed_for_one_of_a_list_is_its_number_or_an_id(world: World) -> None:
    process = WarmProcess(
        ["-c", _LISTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=world.environment(), cwd=world.work
    )
    said, _ = process.communicate("\n2\n3\n²\nabc\n".encode(), timeout=60)
    assert said.decode().count("Which one? [1] ") == 5
    assert said.decode().splitlines()[-5:] == ["one", "two", "3", "²", "abc"]
