"""Sub-agents on the screen: the activity of the running ones, and a line for each that has ended."""

from collections.abc import Iterable

from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import ENDED, AgentState
from agent_cli.protocol.client import AgentLine

from ..text import lines
from ..text.theme import Role, Theme

_MOST = 8
"""Maximum number of sub-agents with their own line."""
_KEEP_CHARS = 2000
_TASK_COLUMNS = 36
"""Width of a task before the current activity."""
_MARKS: dict[AgentState, tuple[str, Role]] = {
    "queued": ("○", "muted"),
    "running": ("●", "accent"),
    "waiting": ("?", "warning"),
    "done": ("●", "ok"),
    "failed": ("✗", "error"),
    "stopped": ("■", "warning"),
    "over_budget": ("⊘", "warning"),
}
_STATES: dict[AgentState, str] = {"waiting": "waiting for you", "over_budget": "over budget"}


def state_words(state: AgentState) -> str:
    """Return the words for a state."""
    return _STATES.get(state, state)


def agent_mark(state: AgentState, theme: Theme) -> str:
    """Return the mark of a state, in its colour."""
    mark, role = _MARKS[state]
    return theme.paint(role, mark)


def agent_usage(agent: ev.AgentChanged | AgentLine) -> list[str]:
    """Return the usage of a sub-agent so far: `3 steps`, `$0.02`."""
    cost = [] if agent.cost_usd is None else [lines.dollars(agent.cost_usd)]
    return [lines.number(agent.steps, "step"), *cost]


class WatchedAgent:
    """A sub-agent during one task."""

    def __init__(self, now: ev.AgentChanged) -> None:
        self.now = now
        """Its last announced state."""
        self.answer = ""
        self._call = ""
        self._text = ""
        self._is_answer_over = False

    def follow(self, event: ev.AnyEvent) -> None:
        """Process an event of its session."""
        match event:
            case ev.ToolCallRequested() | ev.ToolCallStarted():
                self._call = f"{event.label or event.tool} {lines.call_title(event.tool, event.title, 200)}"
            case ev.TextDelta():
                before = "" if self._is_answer_over and event.text.strip() else self._text
                self._text = (before + event.text)[-_KEEP_CHARS:]
                self._is_answer_over = self._is_answer_over and not event.text.strip()
            case ev.AnswerCompleted():
                if event.text.strip():
                    self._text = event.text[-_KEEP_CHARS:]
                self._is_answer_over = True
            case ev.TurnCompleted() | ev.TurnAborted():
                self.answer = event.text

    def draw(self, theme: Theme, width: int) -> list[str]:
        """Return at most four lines: name, type and usage; the task; the current call; and the latest text."""
        now = self.now
        facts = (lines.one_line(now.agent_type, 40), state_words(now.state), *agent_usage(now))
        latest = next((line for line in reversed(self._text.split("\n")) if line.strip()), "")
        below = (now.task, self._call or now.line, latest)
        rows = [lines.one_line(text, width - 2) for text in below if text.strip()]
        return [self._head(theme, width, facts), *(f"  {theme.paint('muted', row)}" for row in rows)]

    def draw_short(self, theme: Theme, width: int) -> str:
        """Return one line: name, usage, task and current activity."""
        now = self.now
        state = () if now.state == "running" else (state_words(now.state),)
        task, does = lines.one_line(now.task), lines.one_line(self._call or now.line)
        about = f"{lines.truncate(task, _TASK_COLUMNS)} · {does}" if task and does else task or does
        return self._head(theme, width, (*state, *agent_usage(now), about))

    def _head(self, theme: Theme, width: int, facts: Iterable[str]) -> str:
        name = lines.one_line(self.now.agent_name, min(40, width - 2))
        room = width - lines.cells(name) - 4
        shown = f"  {theme.paint('muted', lines.truncate('  '.join(facts), room))}" if room > 0 else ""
        return f"{agent_mark(self.now.state, theme)} {theme.paint('strong', name)}{shown}"


class AgentsView:
    """The running sub-agents, oldest first."""

    def __init__(self) -> None:
        self._at_work: dict[str, WatchedAgent] = {}
        self._ended: dict[str, AgentState] = {}

    def change(self, event: ev.AgentChanged) -> tuple[AgentState | None, WatchedAgent]:
        """Process a state change; return the state before, None for a new sub-agent, and the sub-agent."""
        found = self._at_work.get(event.agent_id)
        before = found.now.state if found else self._ended.pop(event.agent_id, None)
        watched = found or WatchedAgent(event)
        watched.now = event
        if event.state in ENDED:
            self._at_work.pop(event.agent_id, None)
            self._ended[event.agent_id] = event.state
        else:
            self._at_work[event.agent_id] = watched
        return before, watched

    def follow(self, event: ev.AgentEvent) -> None:
        """Process an event of a sub-agent's session."""
        if watched := self._at_work.get(event.agent_id):
            watched.follow(event.event)

    def calls(self) -> set[str]:
        """Return the ids of the tool calls that started them."""
        return {watched.now.call_id for watched in self._at_work.values()}

    def draw(self, theme: Theme, width: int) -> list[str]:
        """Return the lines of the live region: up to four for a single sub-agent, one each for several, the rest
        counted."""
        shown = [*self._at_work.values()]
        if len(shown) == 1:
            return shown[0].draw(theme, width)
        rows = [watched.draw_short(theme, width) for watched in shown[:_MOST]]
        if len(shown) > _MOST:
            rows.append(theme.paint("muted", f"  … and {lines.number(len(shown) - _MOST, 'more sub-agent')}"))
        return rows


def change_line(event: ev.AgentChanged) -> str:
    """Return a state change as one plain line."""
    name = f"{lines.one_line(event.agent_name, 40)} ({lines.one_line(event.agent_type, 40)})"
    if event.state in ENDED:
        return f"{name} {', '.join((state_words(event.state), *agent_usage(event)))}"
    task = f": {lines.one_line(event.task)}" if event.state != "waiting" else ""
    return f"{name} {state_words(event.state)}{task}"


def end_row(event: ev.AgentChanged, theme: Theme, width: int) -> str:
    """Return the line of a sub-agent that has ended, in the style of a tool call."""
    name = lines.one_line(event.agent_name, 40)
    head = f"{agent_mark(event.state, theme)} {theme.paint('strong', 'Agent')} {name}"
    facts = "  ".join((*agent_usage(event), state_words(event.state)))
    room = width - len("● Agent ") - lines.cells(name) - len(facts) - 4
    said = f"  {theme.paint('output', lines.one_line(event.line, room))}" if room > 8 and event.line else ""
    return f"{head}  {theme.paint('muted', facts)}{said}"
