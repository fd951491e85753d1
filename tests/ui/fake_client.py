"""A recording front end's engine: scripted events out, operations in, nothing real behind."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from agent_cli.extensions.expansion import expand
from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import AgentType
from agent_cli.protocol.client import (
    AgentTranscript,
    ContextItem,
    ContextPart,
    ContextPicture,
    RewindPoint,
    ServerStatus,
    Snapshot,
    WaitingInput,
)
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import (
    ApprovalAnswer,
    AttachedText,
    ChangeSettings,
    Interrupt,
    Operation,
    Rewind,
    Shutdown,
    Steer,
    TakeBack,
    UserInput,
)
from agent_cli.protocol.usage import Totals
from agent_cli.ui.services import (
    CommandEnd,
    ConfigLine,
    HookLine,
    MemoryLine,
    ModelLine,
    OwnCommand,
    OwnPrompt,
    PluginLine,
    RuleLine,
    SearchHit,
    SessionLine,
    SkillLine,
    ToolLine,
    TracedSpan,
    TracedTurn,
)

SNAPSHOT = Snapshot(
    session_id="abc123",
    title="fix the parser",
    session_path="/state/abc123.json",
    cwd="/work/project",
    model="test/model",
    mode="ask",
    effort="",
    sandbox="workspace-write",
    busy=False,
    compacting=False,
    waiting=(),
    open_calls=0,
    context_tokens=1200,
    context_window=10_000,
    context_parts=(),
    context_source="estimate",
    totals=Totals(),
    costs=(),
    standing_in="",
    spent_today_usd=None,
    cached_share=None,
    jobs=(),
    unsent=(),
    plan=(),
    turns=1,
    stopped="",
    last_prompt="",
    last_answer="",
    answered=True,
    unfinished=False,
)
STARTED = ev.SessionStarted(
    session_id="abc123", model="test/model", cwd="/work/project", mode="ask", sandbox="none", version="9.9"
)
PICTURE = ContextPicture(
    window=10_000,
    budget=8_000,
    compact_at=6_000,
    tokens=3_000,
    source="estimate",
    parts=(ContextPart("tools", 1_000), ContextPart("tool results", 2_000)),
    can_go=(ContextPart("a summary", 1_500),),
    items=(
        ContextItem("m1", "your messages", "fix the parser", 20, 1),
        ContextItem("r1", "tool results", "shell make test", 1_900, 1),
        ContextItem("m2", "your messages", "always use tabs", 10, 0, "pinned"),
    ),
)
POINTS = (
    RewindPoint("t1", 1, "fix the parser", 1_000.0, ("a.py", "b.py"), True),
    RewindPoint("t2", 3, "and the lexer", 2_000.0, (), False, "unchanged"),
)
Script = Callable[["FakeClient", str, UserInput], "asyncio.Future[None] | None"]


class FakeClient:
    """Answers each prompt with `script`, a coroutine function that emits events."""

    def __init__(self, script: Callable[["FakeClient", str, str], object] | None = None, **state: object) -> None:
        self.state = msgspec.structs.replace(SNAPSHOT, **state)
        self.points: tuple[RewindPoint, ...] = POINTS
        self.submitted: list[tuple[float, Operation]] = []
        self.past: list[tuple[ev.AnyEvent, ...]] = []
        """The events of earlier turns, the first one first."""
        self.last_words: tuple[str, ...] = ()
        """What is said while the session closes."""
        self.answers: asyncio.Queue[Operation] = asyncio.Queue()
        self._script = script
        self._queue: asyncio.Queue[ev.AnyEvent | None] = asyncio.Queue()
        self._seq = itertools.count(1)
        self._ids = itertools.count(1)
        self._turn: asyncio.Task[None] | None = None
        self.emit(STARTED)

    def emit(self, event: ev.AnyEvent, submission: str = "") -> None:
        """Put an event on the queue, numbered."""
        self._queue.put_nowait(
            msgspec.structs.replace(event, seq=next(self._seq), submission_id=submission, time=time.time())
        )

    def close(self) -> None:
        """End the stream of events."""
        self._queue.put_nowait(None)

    async def submit(self, operation: Operation) -> str:
        """Record the operation and react as an engine would."""
        submission = f"s{next(self._ids)}"
        self.submitted.append((time.monotonic(), operation))
        match operation:
            case UserInput() if self._turn and not self._turn.done():
                self._wait("prompt", operation.text)
            case UserInput() if self._script:
                self._turn = asyncio.ensure_future(self._run(submission, operation.text))
            case Interrupt():
                self._return(self.state.waiting, submission)
                if self._turn and not self._turn.done():
                    self._turn.cancel()
                self.emit(ev.OperationCompleted(operation="interrupt"), submission)
            case ChangeSettings():
                if operation.mode:
                    self.state = msgspec.structs.replace(self.state, mode=operation.mode)
                now = self.state
                self.emit(ev.SettingsChanged(model=now.model, mode=now.mode, effort=now.effort))
                self.emit(ev.OperationCompleted(operation="settings"), submission)
            case Steer():
                self._wait("steer", operation.text)
                self.emit(ev.OperationCompleted(operation="steer"), submission)
            case TakeBack():
                self._return(self.state.waiting[-1:], submission)
                self.emit(ev.OperationCompleted(operation="takeback"), submission)
            case ApprovalAnswer():
                self.emit(ev.ApprovalResolved(request_id=operation.request_id, outcome="answered"))
                self.emit(ev.OperationCompleted(operation="approval"), submission)
                self.answers.put_nowait(operation)
            case Rewind(turn_id=turn_id, what=what):
                (point,) = [each for each in POINTS if each.turn_id == turn_id]
                done = ev.Restored(
                    kind="rewind", turns=1, prompt=point.prompt, report=ev.RestoreReport(), what=what
                )
                self.emit(done, submission)
                self.emit(ev.OperationCompleted(operation="rewind"), submission)
            case Shutdown():
                if self._turn and not self._turn.done():
                    self._turn.cancel()
                for text in self.last_words:
                    self.emit(ev.Notice(level="info", text=text))
                self.emit(ev.OperationCompleted(operation="shutdown"), submission)
                self.emit(ev.SessionClosed(session_id="abc123"))
                self.close()
            case _:
                self.emit(ev.OperationCompleted(operation=type(operation).__name__.lower()), submission)
                self.answers.put_nowait(operation)
        return submission

    def _wait(self, kind: Literal["steer", "prompt"], text: str) -> None:
        self.state = msgspec.structs.replace(self.state, waiting=(*self.state.waiting, WaitingInput(kind, text)))

    def _return(self, some: tuple[WaitingInput, ...], submission: str) -> None:
        left = tuple(each for each in self.state.waiting if each not in some)
        self.state = msgspec.structs.replace(self.state, waiting=left)
        if some:
            self.emit(ev.InputReturned(texts=tuple(each.text for each in some)), submission)

    async def _run(self, submission: str, text: str) -> None:
        self.state = msgspec.structs.replace(self.state, busy=True)
        self.emit(ev.TurnStarted(turn_id="t1", text=text), submission)
        end: ev.AnyEvent = ev.TurnCompleted(stop_reason="end_turn", text="done", steps=1, duration_s=0.1)
        try:
            assert self._script
            end = await self._script(self, submission, text) or end  # type: ignore[misc]
        except asyncio.CancelledError:
            end = ev.TurnAborted(stop_reason="interrupted", text="so far")
        self.state = msgspec.structs.replace(self.state, busy=False)
        self.emit(end, submission)
        if self.state.waiting:
            first, *rest = self.state.waiting
            self.state = msgspec.structs.replace(self.state, waiting=tuple(rest))
            self._turn = asyncio.ensure_future(self._run(submission, first.text))

    async def events(self) -> AsyncIterator[ev.AnyEvent]:
        """All events until `close`."""
        while (event := await self._queue.get()) is not None:
            yield event

    def snapshot(self) -> Snapshot:
        """The scripted state."""
        return self.state

    def context(self) -> ContextPicture:
        """A window with two messages."""
        return PICTURE

    def replay(self) -> Iterator[tuple[ev.AnyEvent, ...]]:
        """The earlier turns, the newest first."""
        return reversed(self.past)

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        """Two prompts, unless told otherwise."""
        return self.points

    async def diff(self) -> str:
        """A small diff."""
        return "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"

    def operations(self, kind: type) -> list[Operation]:
        """What was submitted of one kind."""
        return [operation for _, operation in self.submitted if isinstance(operation, kind)]


class FakeHost:
    """Lists of one or two things; commands echo themselves."""

    def __init__(self, clipboard: str = "", **own: OwnPrompt) -> None:
        """`clipboard` is the program that takes what is copied, `own` the user's own commands."""
        self.clipboard, self.own = clipboard, own
        self.may_end_review = asyncio.Event()
        self.may_end_review.set()
        self.copied: list[str] = []
        self.agreed: list[OwnPrompt] = []
        self.known_skills: tuple[SkillLine, ...] = ()
        self.known_hooks: tuple[HookLine, ...] = ()
        self.plugin_lines: tuple[PluginLine, ...] = ()
        self.awaited: list[str] = []
        self.turned_hooks: list[tuple[str, bool]] = []
        self.known_servers: tuple[ServerStatus, ...] = ()
        self.server_notes: tuple[str, ...] = ()
        self.server_changes: list[tuple[str, str]] = []

    def agent_types(self) -> tuple[AgentType, ...]:
        """One that is built in, and one of the user's."""
        own = AgentType(name="docs", description="Writes docs.", source="~/.agents/docs.md", origin="user")
        return (AgentType(name="explore", description="Finds things out."), own)

    async def agent_diff(self, agent: str) -> str:
        return f"--- a/{agent}\n+++ b/{agent}\n@@ -1 +1 @@\n-one\n+two\n"

    def agent_transcript(self, path: str) -> AgentTranscript:
        """Three turns."""
        turns = [
            (ev.TurnStarted(turn_id=f"t{n}", text=f"task {n}"), ev.TextDelta(text=f"Answer {n} of {path}."))
            for n in (3, 2, 1)
        ]
        return AgentTranscript(iter(turns), 3)

    def sessions(self) -> tuple[SessionLine, ...]:
        return (
            SessionLine(
                "abc123", "fix the parser", "2 h ago", "/work/project", 3, Totals(requests=3, cost_usd=0.25)
            ),
        )

    async def find_session(self, name: str) -> tuple[str, str]:
        """One that is listed, and one of another directory."""
        known = {"abc123": "fix the parser", "def456": "elsewhere"}
        found = [key for key, title in known.items() if key.startswith(name) or title == name]
        return (
            (found[0], "") if found else ("", f"there is no session with the ID or name {name!r}; look elsewhere")
        )

    async def search(self, query: str) -> tuple[SearchHit, ...]:
        said, answered = f"about {query}", f"more about {query}"
        session = ("abc123", "fix the parser", "2 h ago")
        return (SearchHit(*session, "you", said), SearchHit(*session, "agent", answered))

    async def traced(self) -> tuple[TracedTurn, ...] | str:
        """Two turns, the second with tools."""
        spans = (
            TracedSpan("model", "openai/m", 0.0, 6.0, first_s=2.0),
            TracedSpan("tool", "shell", 6.0, 16.0, error="failed", waited_s=6.0),
            TracedSpan("approval", "shell", 6.0, 12.0, depth=1),
        )
        shares = {"first_token": 2.0, "streaming": 4.0, "tool": 4.0, "waiting": 6.0, "retry": 0.0, "overhead": 4.0}
        first = TracedTurn(1, "12:00:00", 1.0, {"streaming": 1.0}, (TracedSpan("model", "openai/m", 0.0, 1.0),))
        return (first, TracedTurn(2, "12:10:00", 20.0, shares, spans, ended=False))

    async def export(self, argument: str) -> str:
        return f"Exported to {argument or 'abc123.md'}"

    def memory(self) -> tuple[MemoryLine, ...]:
        return (MemoryLine("project", "tests: make test", 8_000, False, "/state/project.md"),)

    def add_note(self, scope: str, text: str) -> str:
        return f"Saved to memory ({scope}): {text}"

    def undo_note(self) -> str:
        return "Took the note back."

    async def picture(self) -> Image | str:
        return Image("image/png", "AAAA")

    async def copy(self, text: str) -> str:
        self.copied += [text] * bool(self.clipboard)
        return self.clipboard

    def paths(self, root: str) -> tuple[str, ...]:
        return ("src/", "src/parser.py", "notes with spaces.md")

    def paths_in(self, root: str, folder: str, begun: str) -> tuple[str, ...]:
        return tuple(path for path in self.paths(root) if path.rpartition("/")[0] == folder.rstrip("/"))

    def branch(self) -> str:
        return "main"

    def init_input(self, focus: str) -> UserInput:
        return UserInput(f"/init {focus}".strip(), brought=(AttachedText("of /init", "Write AGENTS.md."),))

    def permissions(self) -> tuple[RuleLine, ...]:
        saved = RuleLine("allow", "shell(make test)", "this session", is_saved=True)
        return (RuleLine("allow", "shell(git diff *)", "config.yaml:3"), saved)

    def models(self, query: str) -> tuple[ModelLine, ...]:
        known = (ModelLine("test/other", 200_000, 3.0, 15.0), ModelLine("test/model", has_key=False))
        return tuple(line for line in known if query in line.name)

    async def usual_models(self) -> tuple[ModelLine, ...]:
        return (ModelLine("test/served-mini"), *self.models(""))

    def tools(self) -> tuple[ToolLine, ...]:
        own = ToolLine("tickets", "Reads a ticket.", "this project, .agent/tools")
        long = "Read the full text of an earlier result or message that was shortened"
        return (ToolLine("shell", "Runs a command.", "built in"), ToolLine("recall", long, "built in"), own)

    def skills(self) -> tuple[tuple[SkillLine, ...], tuple[str, ...]]:
        return self.known_skills, ()

    def hooks(self) -> tuple[tuple[HookLine, ...], tuple[str, ...]]:
        return self.known_hooks, ()

    def plugins(self) -> tuple[PluginLine, ...]:
        return self.plugin_lines

    def turn_hook(self, name: str, *, on: bool) -> None:
        self.turned_hooks.append((name, on))

    def notify_turn_ended(self, text: str) -> None:
        self.awaited.append(text)

    def servers(self) -> tuple[tuple[ServerStatus, ...], tuple[str, ...]]:
        return self.known_servers, self.server_notes

    async def change_server(self, name: str, change: str) -> str:
        self.server_changes.append((name, change))
        return f"{name}: {change}"

    def config(self) -> tuple[ConfigLine, ...]:
        return (
            ConfigLine("mode", '"plan"', "/config.yaml:3", is_default=False),
            ConfigLine("ui.theme", '"auto"', "built-in default", is_default=True),
            ConfigLine("ui.plain", "false", "built-in default", is_default=True),
            ConfigLine("mcp_servers", "{}", "built-in default", is_default=True),
        )

    async def bug(self, facts: Mapping[str, str]) -> str:
        return f"Report written, nothing sent: /state/bug.zip {dict(facts)}"

    async def doctor(self, width: int) -> AsyncGenerator[str, None]:
        yield "ok    git: git version 2"
        yield "A task could run here."

    async def review(self, argument: str) -> AsyncGenerator[str, None]:
        yield f"reviewing {argument}".strip()
        await self.may_end_review.wait()
        yield "No findings."

    def own_commands(self) -> tuple[OwnCommand, ...]:
        return tuple(
            OwnCommand(name, f"about {name}", "[WORDS]", prompt.place, prompt.problem)
            for name, prompt in self.own.items()
        )

    async def server_prompt(self, name: str, words: Sequence[str]) -> OwnPrompt | None:
        return None

    def own_prompt(self, name: str, argument: str) -> OwnPrompt | None:
        if (prompt := self.own.get(name)) is None:
            return None
        text = expand(prompt.text, argument, "agent").text
        return msgspec.structs.replace(prompt, input=UserInput(text))

    def agree(self, prompt: OwnPrompt) -> None:
        self.agreed.append(prompt)

    async def run_command(
        self, command: str, emit: Callable[[str], None], background: asyncio.Event | None = None
    ) -> CommandEnd:
        emit(f"ran {command}\n")
        return CommandEnd()
