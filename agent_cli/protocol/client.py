"""What a front end holds of the engine: submissions in, events out, and a few facts to show."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from .actions import Mode
from .agent_types import AgentState
from .events import AnyEvent
from .messages import PlanItem
from .operations import Mark, Operation
from .usage import CostLine, Totals

SHUTDOWN_S = 8.0
"""How long a front end waits for the engine to end and to send its last events."""


class ContextPart(msgspec.Struct, frozen=True):
    """One share of the context window, in estimated tokens."""

    name: str
    tokens: int


class ContextItem(msgspec.Struct, frozen=True):
    """One message or result in the window."""

    message_id: str
    kind: str
    """The `ContextPart` it belongs to."""
    label: str
    """The beginning of its text, or the call it answers."""
    tokens: int
    age: int
    """How many prompts ago."""
    mark: Mark = ""


class ContextPicture(msgspec.Struct, frozen=True):
    """What fills the window, in estimated tokens."""

    window: int | None
    budget: int
    """What a request may have: the window less reserved output and a margin."""
    compact_at: int
    """The size at which the conversation is reduced."""
    tokens: int
    source: str
    parts: tuple[ContextPart, ...]
    can_go: tuple[ContextPart, ...]
    """What each kind of reduction would free."""
    items: tuple[ContextItem, ...]
    """All messages that are sent, oldest first."""


class RewindPoint(msgspec.Struct, frozen=True):
    """A prompt that one can go back to before."""

    turn_id: str
    number: int
    """Of the prompt among all of the session, undone ones included, from 1, as `agent sessions show` counts."""
    prompt: str
    time: float
    """Seconds since the epoch."""
    changed: tuple[str, ...]
    """Files that its turn changed, as far as its records say."""
    has_checkpoint: bool


class JobState(msgspec.Struct, frozen=True):
    """A command that continues in the background, or has gone on."""

    id: str
    command: str
    state: str
    """`running`, `kept` (it outlives the agent), `stopped` or `exit code 1`."""
    runtime_s: float
    log: str = ""
    """The file with its output; empty when it has none."""


class WaitingInput(msgspec.Struct, frozen=True):
    """Something that was handed in and has not begun."""

    kind: Literal["steer", "prompt", "command"]
    """Guidance for the running turn, a prompt for afterwards, or a command that waits as a prompt does."""
    text: str
    """As it was typed."""


class AgentLine(msgspec.Struct, frozen=True):
    """A sub-agent."""

    id: str
    name: str
    type: str
    state: AgentState
    task: str
    background: bool
    steps: int
    cost_usd: float | None
    runtime_s: float
    line: str
    """What it does right now, or the beginning of its answer."""
    session_path: str
    """Empty when it is not saved."""
    worktree: str = ""
    """The folder of its own that it works in, whose changes are not merged; empty for none."""


class Snapshot(msgspec.Struct, frozen=True):
    """The state a status line or `/status` shows."""

    session_id: str
    title: str
    session_path: str
    """Empty when the session is not saved."""
    cwd: str
    model: str
    standing_in: str
    """The fallback that answers in its place for the rest of this input; empty when none does."""
    mode: Mode
    effort: str
    sandbox: str
    busy: bool
    compacting: bool
    """The conversation is being reduced between turns; an interrupt stops it."""
    waiting: tuple[WaitingInput, ...]
    """What was handed in and has not begun or reached the model, oldest first."""
    open_calls: int
    """Calls of a crashed turn that still have no result; `UserInput("")` carries on with them."""
    context_tokens: int
    context_window: int | None
    context_parts: tuple[ContextPart, ...]
    context_source: str
    """Where the count comes from, such as `last response + estimate`."""
    totals: Totals
    costs: tuple[CostLine, ...]
    """`totals` by cause and model, the most expensive first."""
    spent_today_usd: float | None
    """By all sessions of this machine's user since midnight; None when it is not recorded."""
    cached_share: float | None
    """Share of the last request that was read from the provider's cache, 0 to 1."""
    plan: tuple[PlanItem, ...]
    jobs: tuple[JobState, ...]
    unsent: tuple[str, ...]
    """Prompts that were queued when the program ended and have not been sent since."""
    stopped: str
    """`terminated` when the last turn was stopped because the program was ended, else empty."""
    turns: int
    last_prompt: str
    last_answer: str
    answered: bool
    """Whether the last answer came after the last prompt."""
    agents: tuple[AgentLine, ...] = ()
    """The sub-agents of this session, oldest first."""
    hook: str = ""
    """The hook that the turn has waited for longer than half a second: what it says it does, or its name."""

    @property
    def queued(self) -> tuple[str, ...]:
        """Prompts and commands that wait for the running turn."""
        return tuple(each.text for each in self.waiting if each.kind != "steer")


class AgentTranscript(msgspec.Struct, frozen=True):
    """Turns of a sub-agent's session so far."""

    turns: Iterator[Sequence[AnyEvent]]
    """Newest first, each as the events that it emitted."""
    count: int


class Client(Protocol):
    """One consumer's end of the engine's queue pair."""

    async def submit(self, operation: Operation) -> str:
        """Hand in an operation; returns the submission's id at once, before anything happens."""
        ...

    def events(self) -> AsyncIterator[AnyEvent]:
        """Yield all events in order; ends after `SessionClosed`. One consumer only."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the state right now; never blocks."""
        ...

    def context(self) -> ContextPicture:
        """Return what fills the window right now."""
        ...

    def replay(self) -> Iterator[tuple[AnyEvent, ...]]:
        """Yield the turns that count, newest first: each as the events it emitted, as far as the session has them.
        A turn is read when it is asked for."""
        ...

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        """Return the prompts that count, oldest first."""
        ...

    async def diff(self) -> str:
        """Unified diff of the workspace against its state before the session's first change."""
        ...
