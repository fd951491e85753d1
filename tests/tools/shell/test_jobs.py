"""Commands that go on in the background."""

import asyncio
import os
from pathlib import Path

import pytest

from agent_cli.protocol.records import JobStateChanged
from agent_cli.sandbox.probe import measure
from agent_cli.sandbox.process.running import Running
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.kit.output import OutputLog
from tests.tools.calls import call


async def eventually(context: ToolContext, wanted: str, job: str = "1") -> str:
    """Everything read from a job until `wanted` has come."""
    text = ""
    for _ in range(40):
        text += (await call(context, "jobs", action="read", job=job, wait_s=0.5)).text
        if wanted in text:
            return text
    raise AssertionError(text)


async def test_a_background_command_returns_at_once_and_is_read_later(context: ToolContext) -> None:
    outcome = await call(context, "shell", command="echo up; sleep 1.3; echo more; sleep 300", background=True)
    assert outcome.ok and outcome.text.startswith("up\n") and "it continues as job 1" in outcome.text
    text = await eventually(context, "more")
    assert "up" not in text and "[job 1: running" in text
    assert "more" not in (await call(context, "jobs", action="read", job="1")).text


async def test_what_fails_at_once_is_no_job(context: ToolContext) -> None:
    outcome = await call(context, "shell", command="echo no such port; exit 3", background=True)
    assert not outcome.ok and outcome.exit_code == 3 and "job" not in outcome.text
    assert (await call(context, "jobs", action="list")).text == "There are no jobs."


async def test_a_command_that_takes_too_long_goes_on_as_a_job(context: ToolContext) -> None:
    outcome = await call(context, "shell", command="echo one; sleep 1.5; echo two; exit 5", timeout_s=1)
    assert outcome.ok and outcome.exit_code is None and outcome.job == "1"
    assert "still running after 1." in outcome.text and "it continues as job 1" in outcome.text
    assert "it may wait for input" in outcome.text
    assert "[job 1: exit code 5" in await eventually(context, "exit code 5")


async def test_input_is_sent_to_a_background_command(context: ToolContext) -> None:
    await call(context, "shell", command='while read -r line; do echo "got $line"; done', background=True)
    outcome = await call(context, "jobs", action="send", job="1", text="hello\n")
    assert "got hello" in outcome.text


async def test_a_command_that_takes_no_input_says_so(context: ToolContext) -> None:
    await call(context, "shell", command="sleep 30", timeout_s=1)
    with pytest.raises(ToolError, match="background"):
        await call(context, "jobs", action="send", job="1", text="x\n")


async def test_stop_ends_the_whole_tree(context: ToolContext) -> None:
    await call(context, "shell", command="sleep 300 & sleep 300 & wait", background=True)
    outcome = await call(context, "jobs", action="stop", job="1")
    assert outcome.text.startswith("Stopped job 1")
    assert not next(iter(context.jobs)).is_running
    assert "had ended already" in (await call(context, "jobs", action="stop", job="job 1")).text


async def test_a_child_left_behind_is_a_job_as_well(context: ToolContext) -> None:
    outcome = await call(context, "shell", command="(sleep 1; echo late; sleep 20) & echo now")
    assert (
        outcome.ok and outcome.exit_code == 0 and "a process it started is still running as job 1" in outcome.text
    )
    assert "late" in await eventually(context, "late")


async def test_reading_waits_for_output_but_not_beyond(context: ToolContext) -> None:
    await call(context, "shell", command="sleep 1.6; echo ready; sleep 300", background=True)
    assert "ready" in (await call(context, "jobs", action="read", job="1", wait_s=20)).text
    assert next(iter(context.jobs)).is_running
    assert "(no new output)" in (await call(context, "jobs", action="read", job="1", wait_s=0.3)).text
    assert next(iter(context.jobs)).is_running


async def test_a_flood_is_bounded_and_kept_in_a_file(context: ToolContext) -> None:
    await call(context, "shell", command="sleep 1.2; seq 1 60000; echo END; sleep 20", background=True)
    await asyncio.sleep(0.7)
    text = await eventually(context, "END")
    assert len(text) < 40_000 and "left out here" in text
    assert str(context.spill_dir) in text


async def test_an_unknown_job_is_told_with_those_there_are(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="no job '7'"):
        await call(context, "jobs", action="read", job="7")


async def test_the_end_of_a_job_is_told_once_unless_it_was_seen(context: ToolContext) -> None:
    gates = [context.workspace.root / f"gate{number}" for number in range(2)]
    for gate in gates:  # a command that reads one ends when it is opened here
        os.mkfifo(gate)
    await call(context, "shell", command="cat gate0", background=True)
    await call(context, "shell", command="sleep 300", background=True)
    await asyncio.to_thread(gates[0].write_bytes, b"")
    await eventually(context, "exit code 0")
    await call(context, "jobs", action="stop", job="2")
    assert context.jobs.take_news() == []
    await call(context, "shell", command="cat gate1", background=True)
    await asyncio.to_thread(gates[1].write_bytes, b"")
    for _ in range(600):
        if news := context.jobs.take_news():
            break
        await asyncio.sleep(0.1)
    assert news == ["Job 3 (`cat gate1`) has ended: exit code 0. See jobs."]
    assert context.jobs.take_news() == []


async def test_a_kept_job_outlives_the_agent(context: ToolContext) -> None:
    await call(context, "shell", command="echo begun; sleep 1.5; echo still; sleep 2", background=True)
    job = next(iter(context.jobs))
    log = job.keep()
    assert log is not None and job.state == "kept"
    await context.processes.aclose()
    for _ in range(60):
        if "still" in log.read_text(encoding="utf-8"):
            break
        await asyncio.sleep(0.1)
    assert log.read_text(encoding="utf-8").startswith("begun\n") and "still" in log.read_text(encoding="utf-8")


async def test_too_many_jobs_are_refused(context: ToolContext) -> None:
    for _ in range(16):
        context.jobs.add("sleep", *await _sleeper(context), 0.0)
    with pytest.raises(ToolError, match="16 jobs are running"):
        await call(context, "shell", command="sleep 9", background=True)
    outcome = await call(context, "shell", command="sleep 9", timeout_s=1)
    assert not outcome.ok and "stopped after 1." in outcome.text and len(list(context.jobs)) == 16


async def test_a_stopped_job_is_called_stopped_and_its_time_counts_from_its_start(context: ToolContext) -> None:
    await call(context, "shell", command="sleep 30", timeout_s=1)
    await call(context, "jobs", action="stop", job="1")
    (state,) = context.jobs.states()
    assert state.state == "stopped" and 1 <= state.runtime_s < 5


async def test_who_leaves_is_told_what_ends_and_what_goes_on(context: ToolContext) -> None:
    for _ in range(2):
        await call(context, "shell", command="sleep 30", background=True)
    first, second = context.jobs
    second.keep()
    ended, goes_on = context.jobs.last_words()
    assert ended == "Ended with the session: job 1 (`sleep 30`)."
    assert goes_on.startswith(
        f"Job 2 (`sleep 30`) keeps running as process {second.running.pid}; its output is in "
    )
    await first.stop()
    await second.stop()
    assert context.jobs.last_words() == []


async def test_a_resumed_session_counts_on_and_tells_that_its_jobs_are_gone(context: ToolContext) -> None:
    context.jobs.take_over(3, ())
    assert context.jobs.take_news() == ["Jobs up to 3 ended with the last run of the program."]
    outcome = await call(context, "shell", command="sleep 30", background=True)
    assert outcome.job == "4" and context.jobs.take_news() == []
    assert context.jobs.get("-4") is None and context.jobs.get("Job #4") is not None


async def test_a_job_that_an_earlier_run_was_asked_to_keep_is_said_to_be_out_of_reach(
    context: ToolContext,
) -> None:
    kept = JobStateChanged(id="r", job="2", command="serve", state="kept", log="/spill/x", pid=77)
    context.jobs.take_over(2, (kept,))
    (told,) = context.jobs.take_news()
    assert told.endswith("but for 2, which the user left running: the tool jobs does not reach it.")
    with pytest.raises(ToolError, match="kept by an earlier run as process 77"):
        await call(context, "jobs", action="stop", job="2")
    with pytest.raises(ToolError, match="There is no job '3'"):
        await call(context, "jobs", action="stop", job="3")


async def test_who_keeps_a_server_in_the_sandbox_is_told_that_nothing_connects_to_it(
    context: ToolContext, tmp_path: Path
) -> None:
    """Where commands share no network of their own, it is open to all, and nobody is told so."""
    shares = (await measure(context.processes, tmp_path)).shares_network
    server = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); s.accept()"
    confined = Confinement(writable=(str(context.workspace.root),), tmp=str(tmp_path))
    started = await _started(context, ["python3", "-c", server], confined if shares else None)
    job = context.jobs.add("serve", *started, 0.0)
    async with asyncio.timeout(60):
        while not (port := job.log.unread().strip()):
            await asyncio.sleep(0.01)
    job.keep()
    (said,) = context.jobs.last_words()
    closed = f"ends it. Nothing can connect to port {port} then, which is open in the sandbox only."
    assert said.endswith(closed) is shares
    await job.stop()


async def _sleeper(context: ToolContext):  # type: ignore[no-untyped-def]
    return await _started(context, ["sleep", "30"], None)


async def _started(
    context: ToolContext, argv: list[str], confinement: Confinement | None
) -> tuple[Running, OutputLog]:
    log = OutputLog(context.spill_dir, "started", print)
    running = await context.processes.start(
        argv, cwd=context.workspace.root, env=context.shell.env, on_output=log.feed, confinement=confinement
    )
    return running, log
