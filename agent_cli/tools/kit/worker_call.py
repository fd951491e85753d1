"""Process untrusted files in a child process, which can be stopped, has a memory limit, and does not block the
event loop. It runs `agent_cli.workspace.<module>.work(request) -> answer` on bytes."""

import sys
from pathlib import Path

from agent_cli.sandbox.process.runner import ProcessError

from .base import ToolContext, ToolError

_PACKAGES = str(Path(__file__).parents[3])
_MAX_ANSWER_BYTES = 200_000_000


async def run_in_worker(
    context: ToolContext, module: str, request: bytes, *, timeout_s: float, memory_bytes: int = 1_500_000_000
) -> bytes:
    """Run `module` in a child process and return its answer to a request.

    Raises:
        ToolError: it could not start, took longer than `timeout_s`, or crashed.
    """
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]; from agent_cli.workspace.documents.worker import main; main()"
    )
    argv = [sys.executable, "-I", "-c", code, _PACKAGES, module, str(memory_bytes), str(int(timeout_s) + 5)]
    try:
        done = await context.processes.run(
            argv,
            cwd=context.workspace.root,
            input=request,
            timeout_s=timeout_s,
            max_output_bytes=_MAX_ANSWER_BYTES,
        )
    except ProcessError as error:
        raise ToolError(f"Python could not be started for it: {error}") from error
    except TimeoutError as error:
        raise ToolError(f"It took longer than {timeout_s:g} s and was stopped") from error
    if done.exit_code or done.cut:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:300]
        raise ToolError(f"Reading it failed: {last or f'exit code {done.exit_code}'}")
    return done.stdout
