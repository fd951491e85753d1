"""The parts of the Harbor agent that do not need Harbor: its command line in a container, error names, and figures
and trajectories from the log folder. Pure, except for reading these files."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..attempts.outcome import RunEnd, read_result
from .folder import trajectory_of_file

STREAM_FILE, STATE_FOLDER, TRAJECTORY_FILE = "stream.jsonl", "state", "trajectory.json"
_JUDGED = (5, 6, 7, 8)
"""Exit codes after which the work is judged: a limit, a denied call, stuck or refused, its own check failed."""
_BY_KIND = {
    "rate_limit": "ApiRateLimitError",
    "overloaded": "ApiOverloadedError",
    "server": "ApiInternalServerError",
    "connection": "NetworkConnectionError",
    "stalled": "ApiResponseStalledError",
    "timeout": "ApiResponseStalledError",
    "truncated": "ApiConnectionClosedError",
    "quota": "ApiUsageLimitError",
    "bad_model": "ModelNotFoundError",
}


class RunFigures(msgspec.Struct, frozen=True):
    """Tokens and cost as Harbor counts them: input includes cache reads and writes. Unknown values are None."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    cost_usd: float | None = None
    stop_reason: str = ""
    turns: int | None = None


def run_command(instruction: str, model: str, options: Sequence[str], logs: str, *, resume: bool = False) -> str:
    """Return the shell line that runs the agent; its events go to a file while it runs, the last one to standard
    output.

    The shell has `pipefail`, as Harbor sets it. Exit codes after which the work is judged count as success.
    """
    words = "agent run - --mode yolo --sandbox off --quiet --output-format stream-json".split()
    words += ["--model", model] if model else []
    words += ["--continue"] if resume else []
    folder = shlex.quote(logs)
    return (
        f"mkdir -p {folder}; export AGENT_STATE_DIR={folder}/{STATE_FOLDER}; "
        f"printf %s {shlex.quote(instruction)} | {shlex.join([*words, *options])} | "
        f"tee -a {folder}/{STREAM_FILE} | tail -n 1; "
        f"code=$?; case $code in {'|'.join(map(str, _JUDGED))}) exit 0 ;; *) exit $code ;; esac"
    )


def error_name(exit_code: int, output: str) -> str:
    """Return the name of Harbor's exception for the end of a run. Only the result line is read, never text of a
    model."""
    result = _result(output)
    kind = result.error.kind if result and result.error else ""
    if exit_code == 3:
        return "AgentAuthenticationError"
    if exit_code in (2, 4):
        return _BY_KIND.get(kind, "UnknownApiError" if exit_code == 4 else "NonZeroAgentExitCodeError")
    return "NonZeroAgentExitCodeError"


def figures(logs: Path) -> RunFigures:
    """Return the figures reported by the last run; empty if it was killed."""
    try:
        result = _result((logs / STREAM_FILE).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        result = None
    if result is None:
        return RunFigures()
    used = result.usage
    return RunFigures(used.sent, used.cache_read, used.output, result.cost_usd, result.stop_reason, result.turns)


def trajectory_of_logs(logs: Path) -> dict[str, Any] | None:
    """Return the trajectory of the newest session in the log folder; None if there is none."""
    for path in sorted((logs / STATE_FOLDER).glob("sessions/*/*.json"), key=lambda each: -each.stat().st_mtime):
        if made := trajectory_of_file(path):
            return made
    return None


def _result(output: str) -> RunEnd | None:
    """Return the last result line of an output; None if there is none."""
    results = (line for line in reversed(output.splitlines()) if line.startswith('{"type":"result"'))
    return next(filter(None, (read_result(line.encode()) for line in results)), None)
