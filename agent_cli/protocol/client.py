"""A front end's interface to the engine: submissions in, events out, and a snapshot of the state to show."""

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
    """One part of the context window, in estimated tokens."""

    name: str
    tokens: int


class ContextItem(msgspec.Struct, frozen=True):
    """One message or tool result in the context window."""

    message_id: str
    kind: str
    """Name of the `ContextPart` that the item belongs to."""
    label: str
    """The beginning of the text, or the call that a result answers."""
    tokens: int
    age: int
    """Number of prompts since then."""
    mark: Mark = ""


class ContextPicture(msgspec.Struct, frozen=True):
    """Contents of the context window, in estimated tokens."""

    window: int | None
    budget: int
    """Maximum size of a request: the window minus the reserved output and a margin."""
    compact_at: int
    """Size at which the conversation is compacted."""
    tokens: int
    source: str
    parts: tuple[ContextPart, ...]
    can_go: tuple[ContextPart, ...]
    """Tokens that each kind of reduction would free."""
    items: tuple[ContextItem, ...]
    """All messages in the next request, oldest first."""


class RewindPoint(msgspec.Struct, frozen=True):
    """A prompt that the session can be rewound to, to the state before it was sent."""

    turn_id: str
    number: int
    """Number of the prompt among all prompts of the session, undone ones included, from 1; `agent sessions show`
    uses the same numbers."""
    prompt: str
    time: float
    """Seconds since the epoch."""
    changed: tuple[str, ...]
    """Files that the prompt's turn changed, as far as its records show."""
    has_checkpoint: bool
    files: Literal["changed", "unchanged", "undone"] = "changed"
    """What became of the files: an undo of the files alone keeps the prompt."""


class ServerStatus(msgspec.Struct, frozen=True):
    """State of an MCP server."""

    name: str
    state: str
    """`idle`, `starting`, `ready`, `failed`, `login needed`, `off`, `untrusted` or `broken`."""
    address: str
    source: str
    """The file that defines it."""
    tools: tuple[str, ...] = ()
    tokens: int = 0
    """Estimated size of the definitions of all its tools in a request."""
    error: str = ""
    server: str = ""
    """Name, version and protocol revision that it reports."""
    prompts: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    """Its last lines on stderr."""


class JobState(msgspec.Struct, frozen=True):
    """A background command, running or ended."""

    id: str
    command: str
    state: str
    """`running`, `kept` (it outlives the agent), `stopped` or an exit code such as `exit code 1`."""
    runtime_s: float
    log: str = ""
    """File with the command's output; empty when there is none."""


class WaitingInput(msgspec.Struct, frozen=True):
    """Submitted input that has not begun to run."""

    kind: Literal["steer", "prompt", "command"]
    """Guidance for the running turn, a prompt to run after it, or a command queued like a prompt."""
    text: str
    """The text as typed."""


class AgentLine(msgspec.Struct, frozen=True):
    """A sub-agent and its progress."""

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
    """Current activity, or the beginning of its answer."""
    session_path: str
    """Empty when the sub-agent's session is not saved."""
    worktree: str = ""
    """Its private worktree with unmerged changes; empty if it has none."""


class Snapshot(msgspec.Struct, frozen=True):
    """The state shown in the status line and by `/status`."""

    session_id: str
    title: str
    session_path: str
    """Empty when the session is not saved."""
    cwd: str
    model: str
    standing_in: str
    """The fallback model that answers in place of `model` for the rest of this input; empty when none does."""
    mode: Mode
    effort: str
    sandbox: str
    busy: bool
    compacting: bool
    """The model writes a summary of the conversation, or it is being compacted between turns; an interrupt stops
    that."""
    waiting: tuple[WaitingInput, ...]
    """Input that has not begun to run or reached the model, oldest first."""
    open_calls: int
    """Calls of a crashed turn that still have no result; `UserInput("")` continues with them."""
    context_tokens: int
    context_window: int | None
    context_parts: tuple[ContextPart, ...]
    context_source: str
    """Source of the count, such as `last response + estimate`."""
    totals: Totals
    costs: tuple[CostLine, ...]
    """`totals` by cause and model, the most expensive first."""
    spent_today_usd: float | None
    """Cost of all sessions of this user on this machine since midnight; None when it is not recorded."""
    cached_share: float | None
    """Share of the last request that was read from the provider's cache, 0 to 1."""
    plan: tuple[PlanItem, ...]
    jobs: tuple[JobState, ...]
    unsent: tuple[str, ...]
    """Prompts that were queued when the program last ended and have not been sent since."""
    stopped: str
    """`terminated` when the last turn was stopped because the program ended, otherwise empty."""
    turns: int
    last_prompt: str
    last_answer: str
    answered: bool
    """True if the last answer is newer than the last prompt."""
    agents: tuple[AgentLine, ...] = ()
    """The sub-agents of this session, oldest first."""
    unfinished: bool = True
    """True if `UserInput("")` has something to continue: the last turn that counts did not end normally."""
    hook: str = ""
    """The hook that the turn has been waiting on for over half a second: its status text, or its name."""

    @property
    def queued(self) -> tuple[str, ...]:
        """Prompts and commands queued behind the running turn."""
        return tuple(each.text for each in self.waiting if each.kind != "steer")


class AgentTranscript(msgspec.Struct, frozen=True):
    """Turns of a sub-agent's session so far."""

    turns: Iterator[Sequence[AnyEvent]]
    """Newest first, each as the events that it emitted."""
    count: int


class Client(Protocol):
    """One consumer's end of the engine's queue pair."""

    async def submit(self, operation: Operation) -> str:
        """Submit an operation. Return the submission's id immediately, before the operation runs."""

    def events(self) -> AsyncIterator[AnyEvent]:
        """Yield all events in order and end after `SessionClosed`. Supports one consumer only."""

    def snapshot(self) -> Snapshot:
        """Return the current state without blocking."""

    def context(self) -> ContextPicture:
        """Return the current contents of the context window."""

    def replay(self) -> Iterator[tuple[AnyEvent, ...]]:
        """Yield the turns that count, newest first, each as the events it emitted, as far as the session has
        recorded them. Turns are read lazily."""

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        """Return the prompts that count, oldest first."""

    async def diff(self) -> str:
        """Return a unified diff of the workspace against its state before the session's first change."""
