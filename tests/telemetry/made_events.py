"""Sessions made up for tests: events and ledger entries on a clock of their own, with what each millisecond was."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from agent_cli.protocol import events as ev
from agent_cli.protocol.records import ModelCalled
from agent_cli.protocol.usage import Totals, Usage

BEGAN = 1_700_000_000.0
SHARES = ("streaming", "first_token", "tool", "hook", "waiting", "retry")
SESSION = ev.SessionStarted(
    seq=1, time=BEGAN, session_id="s1", model="openai/m", cwd="/w", mode="ask", sandbox="none", version="1"
)


class MadeTool(msgspec.Struct, frozen=True):
    """A tool call, in milliseconds."""

    queue: int = 0
    approval: int | None = None
    run: int = 10
    agent: "tuple[MadeStep, ...]" = ()
    """The steps of a sub-agent, if it starts one; then it runs as long as that."""
    status: str = "ok"


class MadeStep(msgspec.Struct, frozen=True):
    """A model call and its tools, in milliseconds."""

    failures: tuple[tuple[int, int], ...] = ()
    """How long each failed attempt took, and the pause behind it."""
    first: int = 5
    stream: int = 20
    idle: int = 0
    """Behind the answer, before its tools."""
    tools: tuple[MadeTool, ...] = ()
    together: bool = False


class MadeSession:
    """Plays turns, and notes what each millisecond was."""

    def __init__(self, lag: int = 0) -> None:
        self.lag = lag
        """By how many milliseconds events of sub-agents arrive late."""
        self.said: list[tuple[int, int, ev.AnyEvent | ModelCalled]] = []
        self.truth: list[tuple[int, int, str]] = []
        self.totals = Totals()
        self.now = 0
        self._count = 0

    def turn(self, steps: tuple[MadeStep, ...], **end: Any) -> None:
        """Play a turn; `end` are fields of its last event."""
        submission = self._id("sub")
        self._say(self.now, ev.TurnStarted(turn_id=self._id("turn"), text="", submission_id=submission))
        self.now = self._steps(self.now + 1, steps, "")
        self.now += 1
        made = {"stop_reason": "end_turn", "text": "", "steps": len(steps), "duration_s": 0.0, **end}
        self._say(self.now, ev.TurnCompleted(submission_id=submission, **made))

    def delivered(self) -> list[ev.AnyEvent | ModelCalled]:
        """Return all in the order of arrival, numbered."""
        ordered = [each for *_, each in sorted(self.said, key=lambda said: said[:2])]
        return [SESSION, *ordered]

    def expected_ms(self) -> dict[str, int]:
        """Return how many milliseconds count for what: of all that was done at once the first of `SHARES`."""
        ranks = [len(SHARES)] * self.now
        for start, end, share in self.truth:
            for at in range(start, end):
                ranks[at] = min(ranks[at], SHARES.index(share))
        return {share: ranks.count(rank) for rank, share in enumerate(SHARES)}

    def _steps(self, at: int, steps: tuple[MadeStep, ...], agent: str) -> int:
        for number, step in enumerate(steps, start=1):
            at = self._model(at, number, step, agent) + step.idle
            ids = [self._id("call") for _ in step.tools]
            for call in ids:
                self._say(at, ev.ToolCallRequested(call_id=call, tool="shell", title="", arguments="{}"), agent)
            requested, ends = at, [at]
            for call, tool in zip(ids, step.tools, strict=True):
                ends.append(self._tool(requested, requested if step.together else ends[-1], call, tool, agent))
            at = max(ends) + 1
        return at

    def _model(self, at: int, number: int, step: MadeStep, agent: str) -> int:
        self._say(at, ev.StepStarted(step=number, model="openai/m"), agent)
        for attempt, (failed, pause) in enumerate(step.failures, start=2):
            self._note(at, at + failed, "first_token")
            at += failed
            self._book(at, failed, "overloaded", None, agent)
            error = ev.ErrorInfo("overloaded", "CANARY")
            self._say(at, ev.RetryScheduled(attempt=attempt, delay_s=pause / 1000, error=error), agent)
            self._note(at, at + pause, "retry")
            at += pause
        self._note(at, at + step.first, "first_token")
        self._note(at + step.first, at + step.first + step.stream, "streaming")
        at += step.first + step.stream
        usage = Usage(input=10 + number, output=5, cache_read=7, cache_write=None, reasoning=2)
        entry = self._book(at, step.first + step.stream, "stop", usage, agent, step.first / 1000)
        answer = ev.AnswerCompleted(
            message_id="m", text="CANARY", finish="stop", calls=len(step.tools), usage=usage,
            cost_usd=entry.cost_usd, duration_s=0.0,
        )  # fmt: skip
        self._say(at, answer, agent)
        return at

    def _tool(self, requested: int, free: int, call: str, tool: MadeTool, agent: str) -> int:
        at = free + tool.queue
        if tool.approval is not None:
            item = ev.ApprovalItem(call, "shell", "CANARY", "CANARY", "text", "CANARY", "mode ask", "", "{}", "")
            request = self._id("ask")
            name = f"explore-{agent}" if agent else ""
            self._plain(at, ev.ApprovalRequested(request_id=request, items=(item,), agent_name=name))
            self._note(at, at + tool.approval, "waiting")
            self._note_tool(requested, at)
            at += tool.approval
            self._plain(at, ev.ApprovalResolved(request_id=request, outcome="answered"))
        else:
            self._note_tool(requested, at)
        self._say(at, ev.ToolCallStarted(call_id=call, tool="shell", title="CANARY"), agent)
        end = self._agent(at, call, tool, agent) if tool.agent else at + tool.run
        if not tool.agent:
            self._note(at, end, "tool")
        finished = ev.ToolCallFinished(
            call_id=call, tool="shell", title="CANARY", status=tool.status, text="CANARY", command="CANARY"
        )
        self._say(end, finished, agent)
        return end

    def _note_tool(self, start: int, end: int) -> None:
        """A queue too short for a span of its own is the tool's time."""
        if end - start < 2:
            self._note(start, end, "tool")

    def _agent(self, at: int, call: str, tool: MadeTool, above: str) -> int:
        agent = self._id("agent")

        def changed(state: Any) -> ev.AgentChanged:
            return ev.AgentChanged(
                agent_id=agent, agent_name=f"explore-{agent}", agent_type="explore", state=state, task="CANARY",
                call_id=call, parent_id=above,
            )  # fmt: skip

        self._plain(at, changed("running"))
        self._say(at, ev.TurnStarted(turn_id="t", text="CANARY"), agent)
        end = self._steps(at, tool.agent, agent)
        self._say(end, ev.TurnCompleted(stop_reason="end_turn", text="", steps=1, duration_s=0.0), agent)
        end += self.lag
        self._plain(end, changed("done"))
        return end

    def _book(
        self, at: int, took: int, outcome: str, usage: Usage | None, agent: str, first_s: float | None = None
    ) -> ModelCalled:
        cost = 0.0 if usage is None else 0.25
        entry = ModelCalled(
            id="c", kind="subagent" if agent else "main", model="openai/m", outcome=outcome, usage=usage,
            cost_usd=cost, duration_s=took / 1000, first_token_s=first_s, agent=agent, time=_seconds(at),
        )  # fmt: skip
        self.totals = self.totals.plus(usage, cost)
        self._put(at, entry)
        return entry

    def _say(self, at: int, event: ev.AnyEvent, agent: str = "") -> None:
        event = msgspec.structs.replace(event, time=_seconds(at))
        if agent:
            late = at + self.lag
            wrapped = ev.AgentEvent(agent_id=agent, agent_name=agent, event=event, time=_seconds(late))
            self._put(late, wrapped)
        else:
            self._put(at, event)

    def _plain(self, at: int, event: ev.AnyEvent) -> None:
        self._put(at, msgspec.structs.replace(event, time=_seconds(at)))

    def _put(self, at: int, value: ev.AnyEvent | ModelCalled) -> None:
        self._count += 1
        self.said.append((at, self._count, value))

    def _note(self, start: int, end: int, share: str) -> None:
        self.truth.append((start, end, share))

    def _id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"


def _seconds(ms: int) -> float:
    return BEGAN + ms / 1000


def _tools(agents: st.SearchStrategy[tuple[MadeStep, ...]]) -> st.SearchStrategy[MadeTool]:
    return st.builds(
        MadeTool,
        queue=st.integers(0, 30),
        approval=st.none() | st.integers(1, 60),
        run=st.integers(1, 80),
        agent=agents,
        status=st.sampled_from(["ok", "failed", "denied"]),
    )


def steps(depth: int = 2) -> st.SearchStrategy[tuple[MadeStep, ...]]:
    """Return a strategy for the steps of a turn, whose tools may start sub-agents so many levels deep."""
    agents = st.just(()) if depth == 0 else st.just(()) | steps(depth - 1)
    step = st.builds(
        MadeStep,
        failures=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 50)), max_size=2).map(tuple),
        first=st.integers(1, 30),
        stream=st.integers(1, 60),
        idle=st.integers(0, 10),
        tools=st.lists(_tools(agents), max_size=3).map(tuple),
        together=st.booleans(),
    )
    return st.lists(step, min_size=1, max_size=3).map(tuple)
