"""shell: streamed, bounded, told in full how it ended."""

import asyncio
import json
import os
import re
from pathlib import Path

import msgspec
import pytest

from agent_cli.protocol.actions import RunCommand
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.new_context import new_context
from agent_cli.workspace.paths import Workspace
from tests.tools.calls import REGISTRY, call


async def test_output_exit_code_and_duration(context: ToolContext, root: Path) -> None:
    outcome = await call(context, "shell", command="pwd; echo oops >&2; exit 3")
    assert re.fullmatch(rf"{root}\noops\n\[exit code 3, \d\.\d s\]", outcome.text)
    assert (outcome.ok, outcome.exit_code, outcome.command) == (False, 3, "pwd; echo oops >&2; exit 3")
    silent = await call(context, "shell", command="true")
    assert silent.ok and silent.text.startswith("(no output)\n[exit code 0")


async def test_commands_have_the_given_environment_without_provider_keys(context: ToolContext, root: Path) -> None:
    os.environ["FAKE_API_KEY"] = "secret"
    try:
        own = new_context(Workspace(root), context.processes, context.spill_dir, shell_env={"EXTRA": "yes"})
    finally:
        del os.environ["FAKE_API_KEY"]
    outcome = await call(own, "shell", command="echo $PWD $EXTRA $AGENT $FAKE_API_KEY $GIT_PAGER")
    assert outcome.text.startswith(f"{root} yes agent-cli cat\n")


async def test_head_and_tail_are_kept_and_the_whole_is_spilled(context: ToolContext) -> None:
    outcome = await call(context, "shell", command="seq 1 50000")
    assert outcome.text.startswith("1\n2\n3\n") and "\n50000\n[exit code 0" in outcome.text
    assert 29_000 < len(outcome.text) < 30_500
    path = context.spill_dir / "call_1.txt"
    assert f"the whole output is in {path}" in outcome.text
    assert path.read_text(encoding="utf-8") == "".join(f"{n}\n" for n in range(1, 50001))
    assert (path.stat().st_mode & 0o777, context.spill_dir.stat().st_mode & 0o777) == (0o600, 0o700)
    kept = [int(line) for line in outcome.text.splitlines() if line.isdigit()]
    head = next(at for at, number in enumerate(kept) if number != at + 1)
    assert 0.15 < sum(len(str(number)) + 1 for number in kept[:head]) / 30_000 < 0.25
    omitted = int(outcome.text.split("[… ")[1].split()[0])
    assert omitted + len(kept) == 50_000


async def test_a_spilled_file_is_never_overwritten(context: ToolContext) -> None:
    for _ in range(2):
        await call(context, "shell", command="seq 1 20000")
    assert len(list(context.spill_dir.glob("*.txt"))) == 2


async def test_output_that_cannot_be_spilled_is_still_told(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way", encoding="utf-8")
    outcome = await call(context, "shell", command="seq 1 50000")
    assert outcome.ok and "could not be kept" in outcome.text and "50000" in outcome.text


async def test_terminal_control_is_removed_and_progress_folded(context: ToolContext) -> None:
    command = r"printf '\033[31mred\033[0m\n10%%\r50%%\r100%%\ndone\xff\n\033]0;title\007'"
    outcome = await call(context, "shell", command=command)
    assert "\x1b" not in outcome.text and "\r" not in outcome.text and "50%" not in outcome.text
    assert outcome.text.startswith("red\n") and "100%\ndone\ufffd\n" in outcome.text


async def test_output_is_shown_while_it_comes(context: ToolContext, root: Path) -> None:
    """The command waits for a file that is made when its first line has been shown."""
    shown: list[str] = []

    def show(text: str) -> None:
        shown.append(text)
        (root / "seen").touch()

    command = "echo a; while [ ! -e seen ]; do sleep 0.01; done; echo b"
    outcome = await call(context.for_call("call_2", emit=show), "shell", command=command, timeout_s=60)
    assert outcome.exit_code == 0 and "".join(shown) == "a\nb\n"


async def test_a_flood_is_shown_thinly(context: ToolContext) -> None:
    shown: list[str] = []
    await call(context.for_call("c", emit=shown.append), "shell", command="timeout 0.5 yes")
    assert 1 <= len(shown) < 20 and sum(map(len, shown)) < 100_000


async def test_a_time_out_is_told_with_its_likely_cause(context: ToolContext) -> None:
    outcome = await call(context, "shell", command="echo 'Password: '; sleep 50", timeout_s=1)
    assert outcome.exit_code is None and outcome.ok and outcome.job == "1"
    assert "cd and export in it do not count" in outcome.text and "exit" not in outcome.display
    assert outcome.text.startswith("Password: \n[still running after 1.")
    assert "may wait for input" in outcome.text
    busy = await call(context, "shell", command="while true; do echo x; sleep 0.05; done", timeout_s=1)
    assert "it continues as job 2" in busy.text and "wait for input" not in busy.text


async def test_the_time_limit_is_clamped_and_has_a_default(context: ToolContext) -> None:
    outcome = await call(context, "shell", command="sleep 0.3; echo done", timeout_s=-5)
    assert outcome.ok
    context = msgspec.structs.replace(context, shell_timeout_s=1.0)
    assert "[still running after " in (await call(context, "shell", command="sleep 300")).text


async def test_a_background_process_is_told_and_its_output_goes_on(context: ToolContext, root: Path) -> None:
    outcome = await call(context, "shell", command="(sleep 0.5; echo later; touch done) & echo now")
    assert outcome.ok and outcome.text.startswith("now\n[exit code 0")
    path = context.spill_dir / "call_1.txt"
    assert "is still running as job 1, until it is stopped or the session ends: see jobs" in outcome.text
    for _ in range(200):
        if (root / "done").exists() and "later" in path.read_text(encoding="utf-8"):
            break
        await asyncio.sleep(0.01)
    assert path.read_text(encoding="utf-8") == "now\nlater\n"
    quiet = await call(context, "shell", command="sleep 5 >/dev/null 2>&1 &")
    assert "is still running as job 2" in quiet.text


async def test_a_cancelled_command_is_dead(context: ToolContext, root: Path) -> None:
    task = asyncio.create_task(call(context, "shell", command="echo $$ > pid; sleep 77"))
    while not (root / "pid").exists() or not (root / "pid").read_text(encoding="utf-8"):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Path(f"/proc/{(root / 'pid').read_text(encoding='utf-8').strip()}").exists()


@pytest.mark.parametrize(
    "command",
    [
        "python3",
        "cat",
        "git commit",
        "sudo -n true",
        'read x; echo "[$x]"',
        "less /etc/passwd",
        "yes | head -3",
        "cat <<EOF",
    ],
)
async def test_programs_that_would_wait_for_a_person_return(
    context: ToolContext, root: Path, command: str
) -> None:
    outcome = await call(context, "shell", command=f"git init -q . ; {command}", timeout_s=60)
    assert not outcome.job and outcome.exit_code is not None


async def test_the_title_is_the_first_line(context: ToolContext, root: Path) -> None:
    tool, params = REGISTRY.parse("shell", '{"command": "\\necho a\\necho b", "description": "Says"}')
    assert tool.title(params) == "echo a …" and tool.editable == "command"
    assert tool.actions(params, context) == (RunCommand(params.command, str(root)),)
    preview = await tool.preview(params, context)
    assert (preview.text, preview.kind) == (params.command, "command")
    with pytest.raises(ToolError, match="empty"):
        await call(context, "shell", command=" ")


async def test_the_longest_command_runs_and_a_longer_one_is_refused_before_anybody_is_asked(
    context: ToolContext,
) -> None:
    longest = "echo é" + "x" * (131_071 - 7)
    assert (await call(context, "shell", command=longest)).ok
    tool, params = REGISTRY.parse("shell", json.dumps({"command": f"{longest}x"}))
    with pytest.raises(ToolError, match=r"131,072 bytes.*write_file"):
        tool.actions(params, context)


async def test_a_command_with_the_placeholder_of_a_secret_is_refused_before_it_replaces_the_secret(
    context: ToolContext, root: Path
) -> None:
    (root / ".env").write_text("TOKEN=real")
    with pytest.raises(ToolError, match=r"holds \[masked: GitHub token\], which stands for a secret"):
        await call(context, "shell", command="cat > .env <<'END'\nTOKEN=[masked: GitHub token]\nEND")
    assert (root / ".env").read_text() == "TOKEN=real"
    assert (await call(context, "shell", command="grep -c 'masked: ' .env || true")).ok


async def test_a_command_that_cannot_start_is_an_error(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="NUL character"):
        await call(context, "shell", command="echo \0")


@pytest.mark.parametrize("line", ["cd sub && apply_patch <<'E'\n{}\nE", "true; apply_patch '{}'"])
async def test_a_patch_behind_other_commands_is_answered_with_the_tool(context: ToolContext, line: str) -> None:
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
    with pytest.raises(ToolError, match="Call the tool apply_patch"):
        await call(context, "shell", command=line.format(patch))
    assert (await call(context, "shell", command="echo apply_patch; grep -r apply_patch . | cat")).ok
