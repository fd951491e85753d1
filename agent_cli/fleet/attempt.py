"""The result of an attempt at a task: a line of `results.jsonl`, and `result.json` in its folder."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from agent_cli.protocol.usage import UsageTotals

Outcome = Literal[
    "solved", "done", "unsolved", "limit", "stuck", "tampered", "refused",
    "auth", "provider", "setup", "crash", "lost", "verify_error", "cancelled",
]  # fmt: skip
"""How an attempt ended. `done`: the task has no `verify` that could tell whether it is right."""

INVALID: frozenset[Outcome] = frozenset(
    ("auth", "provider", "setup", "crash", "lost", "verify_error", "cancelled")
)
"""Outcomes that say nothing about the task: the same command runs it again."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


Amount = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
"""Dollars or seconds, of which sums and squares stay finite."""


def attempt_folder(out: Path, task_id: str, number: int) -> Path:
    """Return the folder of an attempt in the folder of a batch."""
    return out / "tasks" / task_id / str(number)


class Waited(msgspec.Struct, frozen=True):
    """Seconds that an attempt waited."""

    rate_limit: Amount = 0.0
    queue: Amount = 0.0
    setup: Amount = 0.0


class Patch(msgspec.Struct, frozen=True):
    """The changes of an attempt, saved as `patch.diff`."""

    sha256: str = ""
    added: int = 0
    removed: int = 0
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Contents of the tree that no patch can express, such as repositories inside it; the tree is kept for
    them."""


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed."""

    kind: str
    message: str = ""


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt. Unknown values are null."""

    id: str
    attempt: int
    """From 1; a repetition of an attempt without a valid outcome has a new number."""
    spec_hash: str
    outcome: Outcome
    exit_code: int | None = None
    stop_reason: str = ""
    verified: bool | None = None
    picked: bool = False
    cost_usd: Amount | None = None
    cost_is_partial: bool = False
    """Some requests have no known cost: `cost_usd` is a lower bound."""
    usage: UsageTotals = UsageTotals()
    reserved_usd: Amount | None = None
    """The amount reserved in the budget; counted if `cost_usd` is unknown or partial."""
    turns: int | None = None
    duration_s: Amount | None = None
    waited_s: Waited = Waited()
    host: str = ""
    agent_version: str = ""
    model: str = ""
    base_commit: str = ""
    patch: Patch | None = None
    """Null if there was no tree yet."""
    error: Failure | None = None
    session_id: str = ""
    started: Amount = 0.0
    """Seconds since the epoch, like `finished`."""
    finished: Amount = 0.0
    notes: tuple[str, ...] = ()
    """Features that were unavailable on its machine."""
    tree: str = ""
    """Path of the kept tree; empty if it was removed."""

    @property
    def spent_usd(self) -> float:
        """The amount counted against a budget: never less than what may have been spent."""
        known = self.cost_usd or 0.0
        unsure = self.cost_usd is None or self.cost_is_partial
        return max(known, self.reserved_usd or 0.0) if unsure else known

    @property
    def is_good(self) -> bool:
        """True if the task is solved, or the attempt ended well and nothing checks it."""
        return self.outcome in ("solved", "done")

    @property
    def is_valid(self) -> bool:
        """True if the outcome says something about the task."""
        return self.outcome not in INVALID
