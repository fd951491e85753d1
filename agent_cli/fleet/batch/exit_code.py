"""The exit code of a batch."""

from collections.abc import Sequence

from agent_cli.protocol.stop_reason import EXIT_CODES, UNVERIFIED

from ..attempt import AttemptResult
from ..task import Task

INVALID_LEFT = 9
"""Some tasks have no valid outcome; the same command tries them again."""


def batch_exit_code(tasks: Sequence[Task], results: Sequence[AttemptResult], stop: str, stopped: str) -> int:
    """Return 130 or 143 if the batch was stopped, 3 if the provider refused the key, 5 if the budget ended it, 9
    if tasks lack a valid outcome, 8 if some were not solved, else 0."""
    if stop:
        return EXIT_CODES["interrupted" if stop == "interrupted" else "terminated"]
    last = results[-1] if results else None
    if stopped and last and last.error and last.error.kind in ("usage_error", "bad_model"):
        return EXIT_CODES["usage_error"]
    if stopped and last and last.outcome == "auth":
        return EXIT_CODES["auth_error"]
    if stopped.startswith("budget"):
        return EXIT_CODES["cost_limit"]
    valid: dict[str, list[AttemptResult]] = {}
    for result in results:
        if result.is_valid:
            valid.setdefault(result.id, []).append(result)
    if any(task.id not in valid for task in tasks):
        return INVALID_LEFT
    good = ("solved", "done")
    return 0 if all(any(each.outcome in good for each in found) for found in valid.values()) else UNVERIFIED
