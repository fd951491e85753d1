"""The events of a batch for progress displays."""

import msgspec

from ..attempt import AttemptResult
from ..task import Task


class BatchBegan(msgspec.Struct, frozen=True, tag="batch_began", tag_field="type"):
    """The batch starts or resumes."""

    id: str
    folder: str
    tasks: int
    waiting: int
    """Number of attempts to be made in this run."""
    done: int
    """Number of recorded attempts that count."""


class AttemptBegan(msgspec.Struct, frozen=True, tag="attempt_began", tag_field="type"):
    """An attempt was submitted to the engine, or taken by a worker (`host`)."""

    id: str
    attempt: int
    host: str = ""


class AttemptProgressed(msgspec.Struct, frozen=True, tag="attempt_progressed", tag_field="type"):
    """An event of an agent."""

    id: str
    attempt: int
    event: msgspec.Raw


class AttemptEnded(msgspec.Struct, frozen=True, tag="attempt_ended", tag_field="type"):
    """An attempt is recorded."""

    result: AttemptResult
    will_repeat: bool = False


class BatchPaused(msgspec.Struct, frozen=True, tag="batch_paused", tag_field="type"):
    """A provider requests a pause: no attempt with it starts until then."""

    provider: str
    seconds: float
    running: int
    slots: int


class BatchWaiting(msgspec.Struct, frozen=True, tag="batch_waiting", tag_field="type"):
    """No worker is left: attempts start when one joins."""


class BatchStopping(msgspec.Struct, frozen=True, tag="batch_stopping", tag_field="type"):
    """No further attempt starts; `why` is the reason."""

    why: str


BatchEvent = (
    BatchBegan | AttemptBegan | AttemptProgressed | AttemptEnded | BatchPaused | BatchWaiting | BatchStopping
)


class BatchEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a batch run."""

    tasks: tuple[Task, ...]
    results: tuple[AttemptResult, ...]
    """All results that count, including earlier runs."""
    exit_code: int
    stopped: str = ""
    """Why it ended early; empty if everything was run."""
    spent_usd: float = 0.0
    waited_s: float = 0.0
    """Seconds for which starts were paused by rate limits."""
