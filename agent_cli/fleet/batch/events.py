"""What a batch tells whoever shows its progress."""

import msgspec

from ..attempt import AttemptResult
from ..task import Task


class BatchBegan(msgspec.Struct, frozen=True, tag="batch_began", tag_field="type"):
    """The batch starts or goes on."""

    id: str
    folder: str
    tasks: int
    waiting: int
    """Attempts to be made in this run."""
    done: int
    """Attempts on record that count."""


class AttemptBegan(msgspec.Struct, frozen=True, tag="attempt_began", tag_field="type"):
    """An attempt was given to the engine, or a worker has taken it (`host`)."""

    id: str
    attempt: int
    host: str = ""


class AttemptProgressed(msgspec.Struct, frozen=True, tag="attempt_progressed", tag_field="type"):
    """An agent did something."""

    id: str
    attempt: int
    event: msgspec.Raw


class AttemptEnded(msgspec.Struct, frozen=True, tag="attempt_ended", tag_field="type"):
    """An attempt is on record."""

    result: AttemptResult
    will_repeat: bool = False


class BatchPaused(msgspec.Struct, frozen=True, tag="batch_paused", tag_field="type"):
    """A provider asks to wait: nothing of it starts until then."""

    provider: str
    seconds: float
    running: int
    slots: int


class BatchStopping(msgspec.Struct, frozen=True, tag="batch_stopping", tag_field="type"):
    """Nothing new starts; `why` says why."""

    why: str


BatchEvent = BatchBegan | AttemptBegan | AttemptProgressed | AttemptEnded | BatchPaused | BatchStopping


class BatchEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a run of a batch ended."""

    tasks: tuple[Task, ...]
    results: tuple[AttemptResult, ...]
    """All that count, those of earlier runs too."""
    exit_code: int
    stopped: str = ""
    """Why it ended early; empty where everything was run."""
    spent_usd: float = 0.0
    waited_s: float = 0.0
    """Seconds in which starts were paused for rate limits."""
