"""The one road: order, answers to bad calls, approvals, refusals."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.protocol.actions import Mode, ReadPath, RunCommand
from agent_cli.protocol.events import (
    ApprovalRequested,
    ApprovalResolved,
    Notice,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
    TurnCompleted,
)
from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.operations import ApprovalAnswer, ChangeSettings, Decision
from agent_cli.tools.kit.base import Preview, ToolContext, ToolOutcome
from agent_cli.tools.registry import Registry, default_registry
from tests.engine.harness import approve_all, engine, refuse_all
from tests.model.scripted import Call, call, say


def statuses(it: object) -> list[str]:
    return [event.status for event in it.of(ToolCallFinished)]  # type: ignore[attr-defined]


async def test_bad_calls_are_answered_with_the_reason_and_never_run(tmp_path: Path) -> None:
    bad = say(
        Call("shell", "[1]"),
        Call("shell", '{"command": "touch x"'),
        Call("shell", '{"comand": "touch x"}'),
        Call("shell", '{"command": 3.5}'),
        Call("shel", '{"command": "touch x"}'),
        Call("shell", ""),
    )
    async with engine(tmp_path, bad, say("sorry"), mode="yolo") as it:
        await it.prompt("go")
        assert statuses(it) == ["failed"] * 6
        assert not (it.root / "x").exists()
        texts = [event.text for event in it.of(ToolCallFinished)]
        assert "shell" in texts[4], "an unknown tool is answered with the nearest names"
        assert not it.of(ToolCallStarted)


async def test_empty_and_repeated_ids_are_made_unique(tmp_path: Path) -> None:
    twice = say(Call("list_dir", "{}", id="same"), Call("list_dir", "{}", id="same"))
    async with engine(tmp_path, twice, say(Call("list_dir", '{"path":"."}', id="same")), say("ok")) as it:
        await it.prompt("go")
        ids = [event.call_id for event in it.of(ToolCallFinished)]
        assert len(set(ids)) == 3
        it.model.check()


class _Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    n: int = 0


class _Probe:
    """A tool that notes when it runs."""

    Params = _Params
    editable = ""
    result_kind = "text"
    label = counted = ""

    def __init__(
        self, name: str, log: list[str], *, reads: bool, fails: bool = False, wait_s: float = 0.02
    ) -> None:
        self.name = name
        self._log, self._reads, self._fails, self._wait_s = log, reads, fails, wait_s
        self.looks = 0
        """How often it was asked what a call would do."""

    def title(self, params: _Params) -> str:
        return f"{self.name} {params.n}"

    def actions(self, params: _Params, context: ToolContext) -> tuple[ReadPath | RunCommand, ...]:
        self.looks += 1
        root = str(context.workspace.root)
        return (ReadPath(root, "."),) if self._reads else (RunCommand("make", root),)

    async def preview(self, params: _Params, context: ToolContext) -> Preview:
        return Preview("make", "command")

    async def run(self, params: _Params, context: ToolContext) -> ToolOutcome:
        self._log.append(f"+{self.name}{params.n}")
        await asyncio.sleep(self._wait_s / (params.n + 1))
        if self._fails:
            raise RuntimeError("boom")
        self._log.append(f"-{self.name}{params.n}")
        return ToolOutcome(f"{self.name} {params.n} done")


def probes(log: list[str], **options: bool) -> Registry:
    tools = [_Probe("read", log, reads=True), _Probe("do", log, reads=False)]
    tools += [_Probe("bad", log, reads=True, fails=True)]
    return only(*tools)


def only(*tools: Any) -> Registry:
    registry = Registry(tools)
    registry.specs = lambda: ()  # type: ignore[method-assign]
    return registry


async def test_neighbouring_readers_run_together_and_the_rest_alone_in_order(tmp_path: Path) -> None:
    log: list[str] = []
    calls = say(*(call(name, n=n) for name, n in [("read", 1), ("read", 2), ("do", 3), ("read", 4), ("do", 5)]))
    async with engine(tmp_path, calls, say("ok"), registry=probes(log), mode="yolo") as it:
        await it.prompt("go")
        assert log[:2] == ["+read1", "+read2"] and sorted(log[2:4]) == ["-read1", "-read2"]
        assert log[4:] == ["+do3", "-do3", "+read4", "-read4", "+do5", "-do5"]
        assert [e.title for e in it.of(ToolCallFinished)] == ["read 1", "read 2", "do 3", "read 4", "do 5"]
        assert len(it.of(ToolCallRequested)) == 5


@pytest.mark.parametrize("mode", ["ask", "yolo"])
async def test_a_call_is_judged_once_and_compared_once(tmp_path: Path, mode: Mode) -> None:
    tool = _Probe("do", [], reads=False)
    async with engine(tmp_path, say(call("do", n=1)), say("ok"), registry=only(tool), mode=mode) as it:
        it.answer = approve_all
        await it.prompt("go")
        assert statuses(it) == ["ok"] and tool.looks == 2


async def test_a_tool_that_raises_answers_its_own_call_only(tmp_path: Path) -> None:
    log: list[str] = []
    calls = say(call("read", n=1), call("bad", n=2), call("read", n=3))
    async with engine(tmp_path, calls, say("ok"), registry=probes(log)) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted)
        assert statuses(it) == ["ok", "failed", "ok"]
        assert "boom" in it.of(ToolCallFinished)[1].text


async def test_an_edit_is_shown_as_a_diff_and_runs_when_approved(tmp_path: Path) -> None:
    edit = call("edit_file", path="a.py", edits=[{"old": "1", "new": "2"}])
    async with engine(tmp_path, say(edit), say("ok")) as it:
        it.answer = approve_all
        (it.root / "a.py").write_text("x = 1\n", encoding="utf-8")
        await it.prompt("go")
        item = it.of(ApprovalRequested)[0].items[0]
        assert item.preview_kind == "diff" and "-x = 1" in item.preview and "+x = 2" in item.preview
        assert (it.root / "a.py").read_text(encoding="utf-8") == "x = 2\n"
        assert it.of(ApprovalResolved)[0].outcome == "answered"


async def test_an_approval_lapses_when_an_earlier_call_changes_what_a_command_does(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "build").mkdir(parents=True)
    calls = say(call("shell", command=f"touch a; cd {outside}"), call("shell", command="rm -r build"))

    def inside_only(request: ApprovalRequested) -> ApprovalAnswer:
        decisions = (Decision(item.call_id, allow=item.folder == ".") for item in request.items)
        return ApprovalAnswer(request.request_id, tuple(decisions))

    async with engine(tmp_path, calls, say("ok")) as it:
        it.answer = inside_only
        await it.prompt("go")
        first, again = it.of(ApprovalRequested)
        assert [item.folder for item in first.items] == [".", "."], "both are asked about at once"
        (item,) = again.items
        assert item.folder == str(outside) and "asked again" in item.reason and "outside" in item.reason
        assert statuses(it) == ["ok", "denied"]
        assert (outside / "build").exists()


async def test_chosen_hunks_apply_to_nothing_but_what_was_shown(tmp_path: Path) -> None:
    path = tmp_path / "work" / "docs" / "a.py"
    lines = [f"{n} = 1" for n in range(30)]
    edits = [{"old": "0 = 1\n1 = 1", "new": "0 = 2\n1 = 1"}, {"old": "29 = 1", "new": "29 = 2"}]
    calls = say(
        call("shell", command="mv docs old; cp -r old new; ln -s new docs"),
        call("edit_file", path="docs/a.py", edits=edits),
    )

    def first_hunk(request: ApprovalRequested) -> ApprovalAnswer:
        chosen = {"edit_file": (1,)}
        decisions = (Decision(item.call_id, allow=True, hunks=chosen.get(item.tool)) for item in request.items)
        return ApprovalAnswer(request.request_id, tuple(decisions))

    async with engine(tmp_path, calls, say("ok"), rules=["allow write(new/**)"]) as it:
        path.parent.mkdir()
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        it.answer = first_hunk
        await it.prompt("go")
        assert len(it.of(ApprovalRequested)) == 1 and statuses(it) == ["ok", "failed"]
        assert (it.root / "new/a.py").read_text(encoding="utf-8").splitlines() == lines


async def test_words_of_a_refusal_reach_the_model_byte_for_byte(tmp_path: Path) -> None:
    words = "Nö — use `make` INSTEAD\n\tplease  "
    async with engine(tmp_path, say(call("shell", command="rm x")), say("ok")) as it:
        it.answer = refuse_all(words)
        await it.prompt("go")
        result = it.model.requests[1].messages[-1]
        assert isinstance(result, ToolResult) and result.status == "denied" and words in result.text


async def test_calls_that_need_a_person_are_asked_as_one_batch(tmp_path: Path) -> None:
    calls = say(*(call("shell", command=f"touch {name}") for name in "abc"))
    async with engine(tmp_path, calls, say("ok")) as it:

        def some(request: ApprovalRequested) -> ApprovalAnswer:
            first, second, _ = request.items
            return ApprovalAnswer(
                request.request_id,
                (Decision(first.call_id, allow=True), Decision(second.call_id, allow=False, feedback="no b")),
            )

        it.answer = some
        await it.prompt("go")
        assert [len(request.items) for request in it.of(ApprovalRequested)] == [3]
        assert statuses(it) == ["ok", "denied", "denied"], "a call without a decision is refused"
        assert sorted(path.name for path in it.root.iterdir()) == ["a"]


async def test_two_edits_of_one_file_are_asked_one_after_the_other(tmp_path: Path) -> None:
    edits = [call("edit_file", path="f", edits=[{"old": str(n), "new": str(n + 1)}]) for n in (1, 2)]
    async with engine(tmp_path, say(*edits), say("ok")) as it:
        it.answer = approve_all
        (it.root / "f").write_text("1", encoding="utf-8")
        await it.prompt("go")
        assert [len(request.items) for request in it.of(ApprovalRequested)] == [1, 1]
        assert (it.root / "f").read_text(encoding="utf-8") == "3"


async def test_an_edit_that_cannot_work_is_answered_without_asking(tmp_path: Path) -> None:
    edit = call("edit_file", path="a.py", edits=[{"old": "not there", "new": "2"}])
    async with engine(tmp_path, say(edit), say("ok")) as it:
        it.answer = approve_all
        (it.root / "a.py").write_text("x = 1\n", encoding="utf-8")
        await it.prompt("go")
        assert not it.of(ApprovalRequested) and statuses(it) == ["failed"]


async def test_a_kept_rule_holds_at_once_and_after_a_restart(tmp_path: Path) -> None:
    def always(request: ApprovalRequested) -> ApprovalAnswer:
        item = request.items[0]
        return ApprovalAnswer(request.request_id, (Decision(item.call_id, allow=True, grant=item.grant),))

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "Makefile").write_text("t:\n\t@touch $(F)\n", encoding="utf-8")
    script = [say(call("shell", command=f"make t F={name}")) for name in ("one", "two")]
    async with engine(tmp_path, *script, say("ok")) as it:
        it.answer = always
        await it.prompt("go")
        assert len(it.of(ApprovalRequested)) == 1
    async with engine(tmp_path, say(call("shell", command="make t F=three")), say("ok")) as it:
        await it.prompt("go")
        assert not it.of(ApprovalRequested) and (it.root / "three").exists()


async def test_a_rule_kept_for_the_project_holds_in_another_session(tmp_path: Path) -> None:
    def always(request: ApprovalRequested) -> ApprovalAnswer:
        decision = Decision(request.items[0].call_id, allow=True, grant="shell(touch *)", scope="project")
        return ApprovalAnswer(request.request_id, (decision,))

    async with engine(tmp_path, say(call("shell", command="touch one")), say("ok")) as it:
        it.answer = always
        await it.prompt("go")
    (tmp_path / "session.json").unlink()
    async with engine(tmp_path, say(call("shell", command="touch two")), say("ok"), interactive=False) as it:
        await it.prompt("go")
        assert (it.root / "two").exists()


async def test_no_rule_is_kept_for_a_call_that_is_asked_about_each_time(tmp_path: Path) -> None:
    seen: list[str] = []

    def always(request: ApprovalRequested) -> ApprovalAnswer:
        item = request.items[0]
        seen.append(item.grant)
        decision = Decision(item.call_id, allow=len(seen) == 1, grant="shell" if len(seen) == 1 else "")
        return ApprovalAnswer(request.request_id, (decision,))

    async with engine(tmp_path, say(call("shell", command="rm -rf ../other")), say("ok")) as it:
        (tmp_path / "other").mkdir()
        it.answer = always
        await it.prompt("go")
        assert seen == ["", ""] and (tmp_path / "other").exists()
        assert any("no rule can be saved" in notice.text for notice in it.of(Notice))


async def test_an_edited_call_runs_as_edited_and_the_model_is_told(tmp_path: Path) -> None:
    def edited(request: ApprovalRequested) -> ApprovalAnswer:
        decision = Decision(request.items[0].call_id, allow=True, arguments='{"command": "touch safe"}')
        return ApprovalAnswer(request.request_id, (decision,))

    async with engine(tmp_path, say(call("shell", command="touch other")), say("ok")) as it:
        it.answer = edited
        await it.prompt("go")
        assert sorted(path.name for path in it.root.iterdir()) == ["safe"]
        assert "edited" in it.of(ToolCallFinished)[0].text


async def test_an_edit_to_something_denied_is_still_denied(tmp_path: Path) -> None:
    def edited(request: ApprovalRequested) -> ApprovalAnswer:
        decision = Decision(request.items[0].call_id, allow=True, arguments='{"command": "touch denied"}')
        return ApprovalAnswer(request.request_id, (decision,))

    async with engine(
        tmp_path, say(call("shell", command="touch x")), say("ok"), rules=["deny shell(touch denied)"]
    ) as it:
        it.answer = edited
        await it.prompt("go")
        assert statuses(it) == ["denied"] and not (it.root / "denied").exists()


async def test_an_edit_that_another_rule_asks_about_is_asked_about_again(tmp_path: Path) -> None:
    """And what is asked then is the edited call: its rule, its arguments, the rule that would allow it."""
    calls = say(call("shell", command="touch other"), call("shell", command="touch last"))

    def answers(request: ApprovalRequested) -> ApprovalAnswer:
        first = len(it.of(ApprovalRequested)) == 1
        arguments = '{"command": "touch asked"}' if first else None
        decisions = (
            Decision(item.call_id, allow=True, arguments=arguments if at == 0 else None)
            for at, item in enumerate(request.items)
        )
        return ApprovalAnswer(request.request_id, tuple(decisions))

    async with engine(tmp_path, calls, say("ok"), rules=["ask shell(touch asked)"]) as it:
        it.answer = answers
        await it.prompt("go")
        first, second = it.of(ApprovalRequested)
        assert [item.title for item in first.items] == ["touch other", "touch last"]
        (asked,) = second.items
        assert (asked.title, asked.preview) == ("touch asked", "touch asked")
        assert asked.rule == "ask shell(touch asked) (test)" and json.loads(asked.arguments) == {
            "command": "touch asked"
        }
        assert sorted(path.name for path in it.root.iterdir()) == ["asked", "last"]


async def test_an_answer_to_a_closed_request_changes_nothing(tmp_path: Path) -> None:
    async with engine(tmp_path, say(call("shell", command="touch x")), say("ok")) as it:
        it.answer = approve_all
        await it.prompt("go")
        again = await it.do(approve_all(it.of(ApprovalRequested)[0]))
        assert type(again).__name__ == "OperationFailed"


async def test_unattended_calls_are_denied_with_the_way_to_allow_them(tmp_path: Path) -> None:
    script = [say(call("shell", command="touch x"), call("list_dir", path=".")), say("could not")]
    async with engine(tmp_path, *script, interactive=False) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and statuses(it) == ["denied", "ok"]
        assert "shell(touch x)" in it.of(ToolCallFinished)[0].text
        assert it.of(ToolCallFinished)[0].rule == "mode ask"


async def test_a_change_of_mode_holds_for_the_next_call(tmp_path: Path) -> None:
    calls = say(call("write_file", path="a", content="1"), call("write_file", path="b", content="2"))
    async with engine(tmp_path, calls, say("ok"), mode="ask") as it:

        async def to_plan() -> None:
            request = await it.until_type(ApprovalRequested)
            await it.do(ChangeSettings(mode="plan"))
            await it.submit(approve_all(request))

        helper = asyncio.create_task(to_plan())
        await it.prompt("go")
        await helper
        assert statuses(it)[1] == "denied", "plan mode denies even what was approved before"


async def test_plan_mode_changes_nothing_whatever_the_model_tries(tmp_path: Path) -> None:
    calls = say(
        call("write_file", path="a", content="1"),
        call("shell", command="touch b"),
        call("shell", command="cat f > c"),
        call("shell", command="ls"),
    )
    async with engine(tmp_path, calls, say("ok"), mode="plan", rules=["allow shell", "allow write"]) as it:
        (it.root / "f").write_text("x", encoding="utf-8")
        await it.prompt("go")
        assert statuses(it) == ["denied", "denied", "denied", "ok"]
        assert [path.name for path in it.root.iterdir()] == ["f"]


async def test_a_link_made_by_an_earlier_call_is_judged_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("not yours", encoding="utf-8")
    calls = say(call("shell", command="ln -s ../outside link"), call("read_file", path="link"))
    async with engine(tmp_path, calls, say("ok"), rules=["allow shell(ln *)"], interactive=False) as it:
        await it.prompt("go")
        assert statuses(it) == ["ok", "denied"]
        assert "not yours" not in it.of(ToolCallFinished)[1].text


async def test_a_search_keeps_back_what_the_rules_deny(tmp_path: Path) -> None:
    calls = say(call("grep", pattern="KEY"), call("grep", pattern="KEY", files_only=True))
    async with engine(tmp_path, calls, say("ok"), rules=["deny read(private/**)"], mode="yolo") as it:
        (it.root / "private").mkdir()
        for name in ("private/x", ".env", "open"):
            (it.root / name).write_text(f"KEY={name}\n", encoding="utf-8")
        await it.prompt("go")
        for event in it.of(ToolCallFinished):
            assert "open" in event.text and "private" not in event.text and ".env" not in event.text
            assert "2 files are kept back" in event.text


def test_the_default_registry_asks_the_user_only_where_one_is_there() -> None:
    assert "ask_user" in default_registry(interactive=True).names
    assert "ask_user" not in default_registry(interactive=False).names


async def test_a_call_whose_actions_cannot_be_determined_is_shown_with_its_title(tmp_path: Path) -> None:
    script = say(call("web_fetch", url="http://localhost:1/a")), say("done")
    async with engine(tmp_path, *script) as it:
        await it.prompt("go")
        (finished,) = it.of(ToolCallFinished)
        assert (finished.status, finished.title) == ("failed", "http://localhost:1/a")


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_the_model_is_told_that_no_part_of_a_denied_line_ran(tmp_path: Path, mode: Mode) -> None:
    script = say(call("shell", command="touch first && curl http://198.51.100.7")), say("done")
    async with engine(tmp_path, *script, mode=mode, interactive=False) as it:
        await it.prompt("go")
        (finished,) = it.of(ToolCallFinished)
        assert finished.status == "denied" and "Nothing was run." in finished.text
        assert "Nothing was run." not in finished.display and not (it.root / "first").exists()
