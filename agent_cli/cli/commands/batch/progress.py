"""Show a running batch: a table on a terminal, plain lines elsewhere, JSON on request."""

import sys
import time

import msgspec

from agent_cli.fleet.attempt import AttemptResult
from agent_cli.fleet.batch import events
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.sanitize import clean
from agent_cli.ui.text.lines import dollars, number, one_line, seconds

TOTALS_EVERY_S = 60.0


class Watcher:
    """A front end of a batch."""

    def watch(self, event: events.BatchEvent) -> None:
        """Handle an event."""

    def tick(self) -> None:
        """Show changes that depend only on time; called every second."""

    def close(self) -> None:
        """Restore the screen."""


class Step(msgspec.Struct):
    """Current activity of a running attempt."""

    attempt: int
    since: float
    steps: int = 0
    last: str = ""
    cost_usd: float = 0.0
    host: str = ""


class _Seen(msgspec.Struct):
    """The displayed fields of an agent's event."""

    type: str = ""
    tool: str = ""
    title: str = ""
    cost_usd: float | None = None
    delay_s: float = 0.0


class Tally:
    """The running totals of a batch, shared by all front ends."""

    def __init__(self) -> None:
        self.running: dict[str, Step] = {}
        self.began: events.BatchBegan | None = None
        self.ended: list[AttemptResult] = []
        self.repeats = 0
        self.cost_usd = 0.0
        self.pauses: dict[str, float] = {}
        self.waits_for_workers = False
        self.slots = 0
        self.stopping = ""
        self._since = time.monotonic()

    def take(self, event: events.BatchEvent) -> None:
        """Count an event."""
        match event:
            case events.BatchBegan():
                self.began = event
            case events.AttemptBegan():
                step = self.running.setdefault(_key(event), Step(event.attempt, time.monotonic()))
                step.host = event.host or step.host
                self.waits_for_workers = False
            case events.AttemptProgressed():
                self._progress(event)
            case events.AttemptEnded(result=result):
                self.running.pop(f"{result.id} {result.attempt}", None)
                self.ended.append(result)
                self.repeats += event.will_repeat
                self.cost_usd += result.cost_usd or 0.0
            case events.BatchPaused():
                self.pauses[event.provider] = time.monotonic() + event.seconds
                self.slots = event.slots
            case events.BatchWaiting():
                self.waits_for_workers = True
            case events.BatchStopping():
                self.stopping = event.why

    def _progress(self, event: events.AttemptProgressed) -> None:
        step = self.running.get(_key(event))
        if step is None:
            return
        try:
            seen = decode_json(event.event, type=_Seen)
        except msgspec.DecodeError:
            return
        match seen.type:
            case "tool_call_started":
                step.last = one_line(f"{seen.tool} {seen.title}", 60)
            case "answer_completed":
                step.steps += 1
                step.cost_usd += seen.cost_usd or 0.0
            case "retry_scheduled":
                step.last = f"waits {seconds(seen.delay_s)}"

    def totals(self) -> str:
        """Return a line of totals: finished attempts by outcome, cost, and estimated time left."""
        began = self.began
        if began is None:
            return ""
        done, waiting = len(self.ended) - self.repeats, began.waiting
        outcomes: dict[str, int] = {}
        for result in self.ended:
            outcomes[result.outcome] = outcomes.get(result.outcome, 0) + 1
        parts = [f"{done} of {waiting} done"]
        if began.done:
            parts.append(f"{began.done} from before")
        parts += [f"{count} {name}" for name, count in sorted(outcomes.items(), key=lambda pair: -pair[1])]
        parts.append(f"{len(self.running)} running")
        if cost := self.cost_usd + sum(step.cost_usd for step in self.running.values()):
            parts.append(dollars(cost))
        if 0 < done < waiting and not self.stopping:  # an estimate from the attempts that have ended
            parts.append(f"~{seconds((time.monotonic() - self._since) / done * (waiting - done))} left")
        return " · ".join(parts)

    def pause(self) -> str:
        """Return why nothing more starts now: no worker, or the pause that a provider requests; empty if
        neither."""
        if self.waits_for_workers:
            return "waiting: no worker is left; attempts start when one joins"
        now = time.monotonic()
        for provider, until in self.pauses.items():
            if until > now:
                who = clean(provider) or "the provider"
                return f"{len(self.running)} of {self.slots} running: {who} asks to wait {seconds(until - now)}"
        return ""


def _key(event: events.AttemptBegan | events.AttemptProgressed) -> str:
    return f"{event.id} {event.attempt}"


def _numbered(attempt: int) -> str:
    return f" (attempt {attempt})" if attempt > 1 else ""


def ended_line(event: events.AttemptEnded) -> str:
    """Return the line of an attempt that has ended."""
    result = event.result
    parts = [f"{result.outcome:<9} {result.id}{_numbered(result.attempt)}"]
    if result.duration_s is not None:
        parts.append(seconds(result.duration_s))
    if result.cost_usd is not None:
        parts.append(dollars(result.cost_usd))
    if result.patch and result.patch.files:
        parts.append(f"+{result.patch.added} −{result.patch.removed} in {number(len(result.patch.files), 'file')}")
    if result.error:
        parts.append(one_line(result.error.message, 200))
    elif result.outcome == "limit":
        parts.append(result.stop_reason.replace("_", " "))
    if event.will_repeat:
        parts.append("will be repeated")
    return "  ".join(parts)


class JsonLines(Watcher):
    """Prints events as JSON lines on standard output, flushed one by one."""

    def watch(self, event: events.BatchEvent) -> None:
        """Print an event."""
        sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
        sys.stdout.flush()


class PlainLines(Watcher):
    """Prints a line for each start and end, and the totals every minute."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._due = time.monotonic() + TOTALS_EVERY_S

    def watch(self, event: events.BatchEvent) -> None:
        """Print the line of an event, if it has one."""
        self._tally.take(event)
        match event:
            case events.BatchBegan():
                print(began_line(event), flush=True)
            case events.AttemptBegan(host=""):
                print(f"start     {event.id}{_numbered(event.attempt)}", flush=True)
            case events.AttemptEnded():
                print(ended_line(event), flush=True)
            case events.BatchPaused() | events.BatchWaiting():
                print(self._tally.pause(), flush=True)
            case events.BatchStopping():
                print(f"stopping: {clean(event.why)}", flush=True)

    def tick(self) -> None:
        """Print the totals once a minute."""
        if time.monotonic() >= self._due:
            self._due += TOTALS_EVERY_S
            print(self._tally.totals(), flush=True)


def began_line(event: events.BatchBegan) -> str:
    """Return the line for the start of a batch."""
    before = f", {event.done} done before" if event.done else ""
    return (
        f"{number(event.tasks, 'task')}, {number(event.waiting, 'attempt')} to run{before} → {clean(event.folder)}"
    )
