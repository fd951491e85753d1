"""Approvals and questions that the program answers, and callbacks that fail."""

import asyncio
import os
import pwd
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_cli import Allow, ApprovalCall, Deny, Question
from agent_cli.events import ApprovalRequested, Notice, ToolCallFinished
from tests.model.server import Call, Received, Reply
from tests.sdk.conftest import Machine

WRITE = Reply(calls=(Call("write_file", {"path": "a.txt", "content": "x\n"}),))
ECHO = Reply(calls=(Call("shell", {"command": "touch made"}),))
DONE = Reply(text="done")


async def events(machine: Machine, *replies: Reply, **options: Any) -> list[Any]:
    machine.script(*replies)
    async with machine.agent(**{"mode": "ask", **options}) as agent:
        return [event async for event in agent.stream("go")]


def calls(seen: list[Any]) -> list[str]:
    return [each.status for each in seen if isinstance(each, ToolCallFinished)]


async def test_the_program_sees_a_call_and_allows_it(machine: Machine) -> None:
    asked: list[ApprovalCall] = []

    async def approve(call: ApprovalCall) -> Allow | Deny:
        asked.append(call)
        return Allow()

    assert calls(await events(machine, WRITE, DONE, approve=approve)) == ["ok"]
    (call,) = asked
    assert call.tool == "write_file" and call.arguments == {"path": "a.txt", "content": "x\n"}
    assert "+x" in call.preview and call.reason
    assert "ask_user" not in machine.tools()


@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
async def test_a_file_that_is_shown_to_the_model_only_is_not_shown_to_the_user(
    machine: Machine, mode: str
) -> None:
    (machine.work / "a.txt").write_text("old\n")
    seen = await events(machine, WRITE, DONE, mode=mode, approve=lambda call: Allow())
    (failed,) = (each for each in seen if isinstance(each, ToolCallFinished))
    assert (failed.status, failed.text.endswith(":\nold\n")) == ("failed", True)
    assert failed.display == "a.txt exists and you have not read it. Nothing was written."


async def test_a_refusal_reaches_the_model_with_its_reason(machine: Machine) -> None:
    seen = await events(machine, WRITE, DONE, approve=lambda call: Deny("Only tests may be written."))
    assert calls(seen) == ["denied"]
    assert "Only tests may be written." in str(machine.server.requests[1].body["messages"])


@pytest.mark.parametrize("allows", [True, False])
async def test_a_command_that_the_sandbox_blocked_runs_again_from_where_it_began(
    machine: Machine, allows: bool
) -> None:
    outside = Path(pwd.getpwuid(os.getuid()).pw_dir) / f"agent-test-{os.getpid()}"
    (machine.work / "src").mkdir()
    line = f'cd src && echo run >> log && seq 9 && python3 -c \'print("y" * 400, flush=True); open("{outside}", "x")\''
    replies = (Reply(calls=(Call("shell", {"command": each}),)) for each in (line, "pwd"))
    asked: list[ApprovalCall] = []

    def approve(call: ApprovalCall) -> Allow | Deny:
        asked.append(call)
        return Allow() if allows else Deny("Not there.")

    try:
        seen = await events(machine, *replies, DONE, mode="auto-edit", approve=approve)
        assert outside.exists() == allows
    finally:
        outside.unlink(missing_ok=True)
    (call,) = asked
    assert call.reach == "outside" and str(outside) in call.reason and "already ran will run again" in call.reason
    (question,) = (each for each in seen if isinstance(each, ApprovalRequested))
    shown = question.items[0].output.split("\n")
    assert len(shown) == 6 and "y" * 300 in shown and str(outside) in shown[-1], shown
    first, second = (each for each in seen if isinstance(each, ToolCallFinished))
    assert first.status == ("ok" if allows else "failed") and ("second run" in first.text) == allows, first
    assert ("already run ran again" in first.text) == allows
    assert (machine.work / "src/log").read_text(encoding="utf-8") == "run\n" * (1 + allows)
    assert second.text.startswith(f"{machine.work / 'src'}\n"), "the command's own `cd` lasts, and once"


async def test_secrets_in_what_a_blocked_command_printed_are_masked_whole(machine: Machine) -> None:
    outside = Path(pwd.getpwuid(os.getuid()).pw_dir) / f"agent-test-{os.getpid()}"
    body = "\\n".join(f"{each}Zk3vQ9xLm2PqR7sT" for each in "ABCDEFGHIJ")
    key = f"-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----"
    for printed in ("x " * 145 + "ghp_" + "Ab1Cd2Ef3G" * 4, "DB_PASSWORD=hunter2hunter3", key):
        machine.script(
            *shells(f"printf '{printed}\\n'; python3 -c 'open(\"{outside}\", \"x\")' 2>&1 | tail -n 1"), DONE
        )
        async with machine.agent(mode="auto-edit", approve=lambda call: Deny("")) as agent:
            seen = [event async for event in agent.stream("go")]
        (question,) = (each for each in seen if isinstance(each, ApprovalRequested))
        output = question.items[0].output
        assert str(outside) in output and not any(part in output for part in ("ghp_", "hunter2", "Zk3vQ")), output


GIT = "git -c user.name=n -c user.email=e@e"


def shells(*lines: str) -> list[Reply]:
    return [Reply(calls=(Call("shell", {"command": each}),)) for each in lines]


async def approved(machine: Machine, *lines: str) -> tuple[list[str], list[str]]:
    """Run commands in auto-edit, all approved: how far the questions would let them reach, and the results."""
    asked: list[str] = []

    def approve(call: ApprovalCall) -> Allow:
        asked.append(call.reach)
        assert "run again" not in call.reason, "it has one command that may change something"
        return Allow()

    seen = await events(machine, *shells(*lines), DONE, mode="auto-edit", approve=approve)
    return asked, [each.text for each in seen if isinstance(each, ToolCallFinished)]


def git(folder: Path, *words: str) -> str:
    done = subprocess.run([*GIT.split(), *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def cloned(machine: Machine) -> Path:
    """Make the workspace a clone of a repository with a second branch, and return that repository."""
    origin = machine.work.with_name("origin.git")
    git(machine.work, "init", "-q", "-b", "main")
    git(machine.work, "commit", "-q", "--allow-empty", "-m", "one")
    git(machine.work, "init", "-q", "--bare", str(origin))
    git(machine.work, "remote", "add", "origin", str(origin))
    git(machine.work, "push", "-q", "origin", "main", "main:topic")
    git(machine.work, "fetch", "-q")
    return origin


async def test_a_pipe_in_which_the_sandbox_blocked_something_is_asked_about_too(machine: Machine) -> None:
    outside = Path(pwd.getpwuid(os.getuid()).pw_dir) / f"agent-test-{os.getpid()}"
    try:
        asked, _ = await approved(machine, f'python3 -c \'open("{outside}", "x")\' 2>&1 | tail -3')
        assert outside.exists() and asked == ["outside"]
    finally:
        outside.unlink(missing_ok=True)
    (machine.work / ".env").write_text("KEY=v", encoding="utf-8")
    asked, (text,) = await approved(machine, "grep -r KEY . | head -3")
    assert asked == [] and "a part of it may have failed" in text and f"reading {machine.work}/.env" in text
    asked, _ = await approved(machine, "python3 -c 'open(\".env\")' 2>&1 | tail -3")
    assert asked == ["outside"]


async def test_a_command_that_needs_the_network_and_then_more_is_asked_about_each(machine: Machine) -> None:
    outside = Path(pwd.getpwuid(os.getuid()).pw_dir) / f"agent-test-{os.getpid()}"
    (machine.work / "deploy.py").write_text(
        f"""import os
if os.readlink("/proc/self/ns/net") != {os.readlink("/proc/self/ns/net")!r}:
    raise SystemExit("could not resolve host: registry.example.org")
open({str(outside)!r}, "x")
""",
        encoding="utf-8",
    )
    try:
        asked, (text,) = await approved(machine, "python3 deploy.py")
        assert outside.exists() and asked == ["network", "outside"]
    finally:
        outside.unlink(missing_ok=True)
    assert "run 3: in those before, the sandbox blocked the network registry.example.org and writing" in text


async def test_a_commit_that_is_pushed_is_asked_about_and_made_once(machine: Machine) -> None:
    origin = cloned(machine)
    line = f"echo a > a && git add a && {GIT} commit -qm two && git push -u origin main"
    asked, (text,) = await approved(machine, line)
    assert asked == ["outside"] and "second run" not in text
    assert git(origin, "log", "--format=%s", "main") == "two\none"
    assert git(machine.work, "rev-parse", "--abbrev-ref", "@{u}") == "origin/main"


async def test_git_that_cannot_write_its_settings_does_all_or_says_what_it_lacks(machine: Machine) -> None:
    cloned(machine)
    asked, (text,) = await approved(machine, "git switch topic")
    assert asked == [] and f"the sandbox blocked writing {machine.work}/.git/config" in text
    asked, _ = await approved(machine, "git branch -u origin/topic", "git branch -m topic renamed")
    assert asked == ["outside", "outside"]
    assert git(machine.work, "rev-parse", "--abbrev-ref", "renamed@{u}") == "origin/topic"
    asked, (text,) = await approved(machine, "git worktree add w -b w && git -C w status")
    assert asked == ["outside"] and "second run" not in text and (machine.work / "w").is_dir()


async def test_a_remembered_rule_allows_the_next_call(machine: Machine) -> None:
    asked: list[str] = []

    def approve(call: ApprovalCall) -> Allow:
        asked.append(call.title)
        return Allow(remember="shell(touch *)")

    assert calls(await events(machine, ECHO, ECHO, DONE, approve=approve, sandbox="off")) == ["ok", "ok"]
    assert len(asked) == 1


async def raises(call: ApprovalCall) -> Allow:
    raise RuntimeError("it broke")


async def hangs(call: ApprovalCall) -> Allow:
    await asyncio.Event().wait()
    return Allow()


def sleeps(call: ApprovalCall) -> Allow:
    time.sleep(1)
    return Allow()


def answers_nonsense(call: ApprovalCall) -> Any:
    return True


def remembers_nonsense(call: ApprovalCall) -> Allow:
    return Allow(remember="((")


async def is_cancelled_by_itself(call: ApprovalCall) -> Allow:
    raise asyncio.CancelledError


async def cancels_its_task(call: ApprovalCall) -> Allow:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return Allow()


def exits(call: ApprovalCall) -> Allow:
    sys.exit("no")


async def exits_in_the_loop(call: ApprovalCall) -> Allow:
    sys.exit("no")


def ends_an_iteration(call: ApprovalCall) -> Allow:
    raise StopIteration


def remembers_a_number(call: ApprovalCall) -> Allow:
    return Allow(remember=5)  # type: ignore[arg-type]


def misspells_the_scope(call: ApprovalCall) -> Allow:
    return Allow(remember=call.grant, scope="projct")  # type: ignore[arg-type]


def gives_a_number_as_reason(call: ApprovalCall) -> Deny:
    return Deny(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("approve", "why"),
    [
        (is_cancelled_by_itself, "CancelledError"),
        (cancels_its_task, "CancelledError"),
        (exits, "SystemExit: no"),
        (exits_in_the_loop, "SystemExit: no"),
        (ends_an_iteration, "StopIteration"),
        (remembers_a_number, "Expected `str`, got `int` - at `$.remember`"),
        (misspells_the_scope, "Invalid enum value 'projct' - at `$.scope`"),
        (gives_a_number_as_reason, "Expected `str`, got `int` - at `$.message`"),
        (raises, "it broke"),
        (hangs, "longer than 0.1 s"),
        (sleeps, "longer than 0.1 s"),
        (answers_nonsense, "bool"),
        (remembers_nonsense, "remember"),
    ],
)
async def test_a_callback_that_fails_is_a_refusal_and_a_notice(machine: Machine, approve: Any, why: str) -> None:
    async with asyncio.timeout(60):
        seen = await events(machine, WRITE, DONE, approve=approve, approve_timeout=0.1)
    assert calls(seen) == ["denied"] and not (machine.work / "a.txt").exists()
    assert [why in each.text for each in seen if isinstance(each, Notice)] == [True]


async def test_a_denying_rule_holds_whatever_the_program_answers(machine: Machine) -> None:
    (machine.config / "config.yaml").write_text('permissions:\n  deny: ["edit(a.txt)"]\n')
    seen = await events(machine, WRITE, DONE, approve=lambda call: Allow())
    assert calls(seen) == ["denied"]


ASK = Reply(calls=(Call("ask_user", {"question": "Which?", "options": ["red", "blue"]}),))


async def test_the_program_answers_questions(machine: Machine) -> None:
    asked: list[Question] = []

    def answer(question: Question) -> str:
        asked.append(question)
        return "blue"

    seen = await events(machine, ASK, DONE, answer=answer)
    assert [(each.text, each.options) for each in asked] == [("Which?", ("red", "blue"))]
    assert "blue" in str(machine.server.requests[1].body["messages"]) and calls(seen) == ["ok"]


async def test_an_answer_that_fails_is_a_notice_and_the_model_decides(machine: Machine) -> None:
    async def answer(question: Question) -> str:
        raise RuntimeError("it broke")

    seen = await events(machine, ASK, DONE, answer=answer)
    assert ["it broke" in each.text for each in seen if isinstance(each, Notice)] == [True]
    assert "No user is here" in str(machine.server.requests[1].body["messages"])


@pytest.mark.parametrize("allows", [True, False])
async def test_the_workspace_is_saved_while_the_user_decides(machine: Machine, allows: bool) -> None:
    mine = machine.work / "mine.txt"
    mine.write_text("before\n")

    async def approve(call: ApprovalCall) -> Allow | Deny:
        async with asyncio.timeout(60):
            while not list(machine.state.rglob("checkpoints/refs/sessions/*")):
                await asyncio.sleep(0.01)
        mine.write_text("while asked\n")
        return Allow() if allows else Deny()

    machine.script(WRITE, DONE)
    async with machine.agent(mode="ask", approve=approve) as agent:
        await agent.run("go")
        assert (machine.work / "a.txt").exists() is allows
        if allows:
            await agent.undo()
    assert mine.read_text() == "while asked\n" and not (machine.work / "a.txt").exists()


@pytest.mark.parametrize(("mode", "is_saved"), [("auto-edit", True), ("ask", False)])
async def test_the_workspace_is_saved_while_the_model_reads_if_no_question_will_follow(
    machine: Machine, mode: str, is_saved: bool
) -> None:
    machine.script(Reply(calls=(Call("list_dir", {"path": "."}),)), Reply(hang="before_headers"))
    async with machine.agent(mode=mode) as agent, asyncio.timeout(50):
        async for event in agent.stream("go"):
            if isinstance(event, ToolCallFinished):
                break
        while is_saved and not list(machine.state.rglob("checkpoints/refs/sessions/*")):
            await asyncio.sleep(0.01)
    assert bool(list(machine.state.rglob("checkpoints/refs"))) == is_saved


async def test_while_the_user_decides_on_calls_of_sub_agents_the_workspace_is_saved_once(machine: Machine) -> None:
    saved: list[str] = []

    def answer(request: Received) -> Reply:
        messages = request.body["messages"]
        if messages[-1]["role"] == "tool":
            return DONE
        return WRITE if "Task" in str(messages[1]["content"]) else agents

    async def approve(call: ApprovalCall) -> Deny:
        async with asyncio.timeout(60):
            while not (found := list(machine.state.rglob("checkpoints/refs/sessions/*"))):
                await asyncio.sleep(0.01)
        saved.extend(file.name for file in found)
        return Deny()

    agents = Reply(calls=tuple(Call("agent", {"task": f"Task {number}"}) for number in range(3)))
    machine.server.answer = answer
    async with machine.agent(mode="ask", approve=approve) as agent:
        await agent.run("go")
        assert saved == [agent.session_id] * 3


async def test_nothing_is_written_where_the_workspace_was_before_the_user_renamed_it(machine: Machine) -> None:
    async def approve(call: ApprovalCall) -> Allow:
        machine.work.rename(machine.home / "renamed")
        return Allow()

    assert calls(await events(machine, WRITE, DONE, approve=approve)) == ["failed"]
    assert "was moved or replaced" in str(machine.server.requests[1].body["messages"])
    assert not machine.work.exists() and not any((machine.home / "renamed").iterdir())
