"""Events become text: what is printed once, for good, and what is alive in `Live` until it ends.

The renderer owns no screen. A front end hands it events, prints what `take` returns and paints what
`frame` returns; so the same code serves the REPL, the plain REPL and the tests. Whatever fails in here
becomes a one-line notice and never reaches the loop.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Literal, assert_never

import msgspec

from ..config.schema import Ui
from ..protocol import events as ev
from ..protocol.client import Snapshot
from ..protocol.sanitize import Sanitizer, clean
from ..protocol.stop import StopReason
from ..protocol.usage import Totals
from . import lines, results
from .live import Live, RunningCall
from .markdown_stream import Blocks, MarkdownStream, PlainBlocks
from .theme import Theme

Kind = Literal["", "answer", "reasoning", "tool", "other"]

_PROMPT_LINES = 20


class Renderer:
    """One session's events as text. `width` and `snapshot` are asked when needed."""

    def __init__(
        self,
        theme: Theme,
        settings: Ui,
        width: Callable[[], int],
        snapshot: Callable[[], Snapshot],
        expand_hint: str = "Ctrl-O shows them",
    ) -> None:
        self.live = Live(theme)
        self.summary = ""
        """The summary of a compaction that was shown last."""
        self.live.shows_thoughts = settings.show_reasoning
        self._theme, self._settings, self._width, self._snapshot = theme, settings, width, snapshot
        self._hint = f" ({expand_hint})" if expand_hint else ""
        self._out: list[str] = []
        self._last: Kind = ""
        self._blocks: Blocks | None = None
        self._answer: MarkdownStream | None = None
        self._answered = False
        self._thoughts = Sanitizer()
        self._folded: deque[str] = deque(maxlen=20)
        self._before = Totals()
        self._previewed: dict[str, str] = {}
        """The diffs that approvals have shown, by call."""

    def handle(self, event: ev.AnyEvent) -> None:
        """Take in one event. Never raises."""
        try:
            self._show(event)
        except Exception as problem:
            self._out.append(f"(could not show {type(event).__name__}: {type(problem).__name__})\n")

    def take(self) -> str:
        """The text to print now, in whole lines; empty when there is nothing new."""
        try:
            if self._answer and (done := self._answer.take(self._width())):
                self._print("answer", done)
        except Exception as problem:
            self._out.append(f"(could not draw the answer: {type(problem).__name__})\n")
            self._answer, self._blocks = MarkdownStream(PlainBlocks()), PlainBlocks()
        text, self._out = "".join(self._out), []
        return clean(text, keep_sgr=True)  # whatever was forgotten above ends here

    def frame(self, queued: tuple[str, ...], rows: int) -> list[str]:
        """The live region's lines right now."""
        try:
            tail = self._answer.tail(self._width()) if self._answer else []
            drawn = self.live.draw(tail, queued, time.monotonic(), rows, self._width())
            return [clean(line, keep_sgr=True) for line in drawn]
        except Exception as problem:
            return [f"(could not draw: {type(problem).__name__})"]

    def typed(self, text: str) -> None:
        """Echo a command of the user's."""
        self._prompt(text)

    def notice(self, text: str, wrap: bool = True) -> None:
        """Print lines of our own, broken between words or, without `wrap`, as they are."""
        self._print("other", lines.wrapped(text, self._width()) if wrap else text.split("\n"))

    def expand(self) -> None:
        """Print in full what was folded last, then what was folded before it, and so on."""
        if self._folded:
            self._print("other", self._folded.pop().split("\n"))
        else:
            self.notice("Nothing is folded.")

    def _show(self, event: ev.AnyEvent) -> None:
        if not isinstance(event, ev.ToolOutput):
            self.live.silent_since = None
        match event:
            case ev.TextDelta():
                self._text(event.text)
            case ev.ReasoningDelta():
                self._reasoning(event.text)
            case ev.ToolOutput():
                if call := self.live.calls.get(event.call_id):
                    call.output(event.text)
            case ev.ToolSilent():
                self._tool_silent(event)
            case ev.StepStarted():
                self.live.retry = None
                self.live.answered(time.monotonic())
            case ev.AnswerCompleted():
                self._answer_done(event)
            case ev.RetryScheduled():
                self._retry(event)
            case ev.ToolCallRequested():
                self.live.calls[event.call_id] = RunningCall(event.tool, event.title, None)
            case ev.ToolCallStarted():
                self.live.calls[event.call_id] = RunningCall(event.tool, event.title, time.monotonic())
            case ev.ToolCallFinished():
                self._tool(event)
            case ev.ApprovalRequested():
                self._preview(event)
            case ev.ApprovalResolved():
                self.live.answered(time.monotonic(), event.request_id)
            case ev.QuestionAsked():
                self._question(event)
            case ev.TurnStarted():
                self._turn_started(event)
            case ev.TurnCompleted() | ev.TurnAborted():
                self._turn_over(event.stop_reason, event)
            case ev.TurnFailed():
                self._turn_over(event.stop_reason, event, event.error)
            case _:
                self._tell(event)

    def _tell(
        self,
        event: ev.SessionStarted | ev.PlanUpdated | ev.Steered | ev.Notice | ev.Compacted | ev.Restored
        | ev.SettingsChanged | ev.OperationCompleted | ev.OperationFailed | ev.SessionClosed | ev.StreamSilent
        | ev.FellBack | ev.Attached | ev.Renamed,
    ) -> None:  # fmt: skip
        """The events that are no more than a few lines of text."""
        match event:
            case ev.SessionStarted():
                self._banner(event)
            case ev.PlanUpdated():
                self._print("other", [self._theme.paint("strong", "Plan"), *lines.plan(event.items, self._theme)])
            case ev.Steered():
                self._prompt(event.text, "  (delivered)")
            case ev.Notice():
                mark = self._theme.paint("warning", "! ") if event.level == "warning" else "· "
                self._marked(mark, event.text)
            case ev.Compacted():
                self.summary = event.summary or self.summary
                self.notice("\n".join(results.compacted(event, self._theme)))
            case ev.Restored():
                self.notice(lines.report(event.kind, event.turns, event.prompt, event.report, self._theme))
                if any(conflict.decidable for conflict in event.report.conflicts):
                    self.notice("· /resolve mine, old or merge decides on them.")
            case ev.Attached():
                self.notice(lines.attached(event))
            case ev.Renamed():
                self.notice(f"· This session is now called “{lines.one_line(event.title)}”.")
            case ev.SettingsChanged():
                facts = [event.model, event.mode, event.effort]
                self.notice("· " + " · ".join(lines.one_line(fact, 80) for fact in facts if fact))
            case ev.OperationCompleted():
                if event.detail.strip():
                    self.notice(clean(event.detail).strip())
            case ev.OperationFailed():
                self._print("other", lines.error(event.error, self._theme, self._width()).split("\n"))
            case ev.SessionClosed():
                if event.error:
                    self._print("other", lines.error(event.error, self._theme, self._width()).split("\n"))
            case ev.StreamSilent():
                self._silent(event.silent_s)
            case ev.FellBack():
                self._void()
                text = f"! {event.error.message}\n! {event.model} takes over for the rest of this input"
                text += "; the answer starts afresh." if event.discarded_chars else "."
                self._warn(text)
            case _:
                assert_never(event)

    def _tool_silent(self, event: ev.ToolSilent) -> None:
        if (call := self.live.calls.get(event.call_id)) is None:
            return
        call.silent_since = time.monotonic() - event.silent_s
        if self._settings.plain:
            name = lines.one_line(f"{call.tool} {call.title}")
            self._print("other", [f"· {name}: no output for {lines.seconds(event.silent_s)}."])

    def _silent(self, silent_s: float) -> None:
        if silent_s and self._settings.plain:
            self._print("other", [f"· No data from the model for {lines.seconds(silent_s)}."])
        elif silent_s:
            self.live.silent_since = time.monotonic() - silent_s

    def _print(self, kind: Kind, text: list[str]) -> None:
        """Add lines for good; a blank line comes between things of different kinds."""
        if kind != self._last and self._last and text[0]:
            self._out.append("\n")
        self._last = kind
        self._out += [line + "\n" for line in text]

    def _marked(self, mark: str, text: str) -> None:
        """A text of others, broken between words, behind a mark of two columns."""
        first, *rest = lines.wrapped(clean(text).strip(), self._width() - 2)
        self._print("other", [mark + first, *("  " + row for row in rest)])

    def _banner(self, event: ev.SessionStarted) -> None:
        name = self._theme.paint("strong", f"agent {lines.one_line(event.version, 40)}")
        facts = f"{lines.one_line(event.model, 80)} · {event.mode} · sandbox {lines.one_line(event.sandbox, 40)}"
        resumed = f" · resumed {lines.one_line(event.session_id, 40)}" if event.resumed else ""
        where = self._theme.paint("muted", lines.one_line(event.cwd, 200))
        self.notice(f"{name}  {facts}{resumed}\n{where}  /help for commands")

    def _prompt(self, text: str, note: str = "") -> None:
        shown = clean(text).rstrip().split("\n")
        if len(shown) > _PROMPT_LINES:
            shown = [
                *shown[:_PROMPT_LINES],
                self._theme.paint("muted", f"… {len(shown) - _PROMPT_LINES} more lines"),
            ]
        mark = self._theme.paint("prompt", ">")
        first, *rest = shown
        body = [f"{mark} {first}{self._theme.paint('muted', note)}", *("  " + line for line in rest)]
        self._last = self._last and "other"
        self._print("answer", body)
        self._last = "tool"

    def _turn_started(self, event: ev.TurnStarted) -> None:
        self.live.busy_since, self.live.waited_s = time.monotonic(), 0.0
        self._before = self._snapshot().totals
        if event.text.strip():
            self._prompt(event.text)

    def _text(self, text: str) -> None:
        self._end_thoughts()
        if self._answer is None:
            self._answer = MarkdownStream(self._make_blocks())
        self._answered = True
        self._answer.feed(text)

    def _make_blocks(self) -> Blocks:
        if self._blocks is None:
            self._blocks = PlainBlocks()
            if self._settings.markdown and not self._settings.plain:
                from .rich_blocks import RichBlocks

                self._blocks = RichBlocks(self._theme)
        return self._blocks

    def _reasoning(self, text: str) -> None:
        self.live.thought += self._thoughts.feed(text)
        *whole, self.live.thought = self.live.thought.split("\n")
        self._print_thoughts(whole)

    def _print_thoughts(self, whole: list[str]) -> None:
        mark = "" if self._theme.colour else "~ "
        shown = [self._theme.paint("reasoning", mark + line) for line in whole]
        if shown and self._settings.show_reasoning:
            self._print("reasoning", shown)

    def _end_thoughts(self) -> None:
        rest = self.live.thought + self._thoughts.feed("", final=True)
        self.live.thought = ""
        self._thoughts = Sanitizer()
        if rest.strip():
            self._print_thoughts([rest])

    def _end_answer(self) -> None:
        self._end_thoughts()
        answer, self._answer = self._answer, None
        if answer and (done := answer.take(self._width(), final=True)):
            self._print("answer", done)

    def _answer_done(self, event: ev.AnswerCompleted) -> None:
        if not self._answered and event.text.strip():
            self._text(event.text)
        self._end_answer()
        self._answered = False

    def _retry(self, event: ev.RetryScheduled) -> None:
        void = self._void()
        why = lines.one_line(event.error.message) or lines.one_line(event.error.kind, 80)
        self.live.retry = (time.monotonic() + event.delay_s, why)
        why = why.rstrip(".")
        when = f"in {lines.seconds(event.delay_s)}"
        if event.parked:
            when += (
                f", at {time.strftime('%H:%M', time.localtime(time.time() + event.delay_s))}; Esc stops waiting"
            )
        text = f"↻ {why}: " + ("resting; goes on" if event.parked else f"attempt {event.attempt}") + f" {when}"
        if void or event.discarded_chars:
            text += "; the answer starts afresh"
        self._warn(text)

    def _void(self) -> bool:
        """What was shown of an answer stays; the next piece begins a new one. Whether anything was shown."""
        shown = self._answer is not None or bool(self.live.thought)
        self._end_answer()
        self._answer, self.live.thought, self._thoughts, self._answered = None, "", Sanitizer(), False
        return shown

    def _warn(self, text: str) -> None:
        """Lines in the colour of a warning, broken between words."""
        shown = [row for line in text.split("\n") for row in lines.wrapped(clean(line), self._width())]
        self._print("other", [self._theme.paint("warning", row) for row in shown])

    def _tool(self, event: ev.ToolCallFinished) -> None:
        self.live.calls.pop(event.call_id, None)
        asked = self.live.asks(event.call_id)
        if asked is not None:
            self.live.answered(time.monotonic(), asked)
        if event.tool == "finish" and event.status == "ok":
            self._text(event.text)
            self._end_answer()
            self._answered = False
            return
        if event.tool == "ask_user" and asked is not None:
            event = msgspec.structs.replace(event, title="")  # the question stands above
        self._print("tool", [lines.tool_line(event, self._theme, self._width())])
        previewed = self._previewed.pop(event.call_id, "")
        printed, whole = results.shown(event, previewed, self._theme, self._width(), self._hint)
        if whole:
            self._folded.append(whole)
        if printed:
            self._print("tool", printed)

    def _preview(self, event: ev.ApprovalRequested) -> None:
        """What asks for approval, in full and once: the bytes shown are the bytes that would run."""
        self.live.ask(event.request_id, tuple(item.call_id for item in event.items), time.monotonic())
        for item in event.items:
            if item.preview_kind == "diff":
                self._previewed[item.call_id] = item.preview
            self._print("tool", lines.preview(item, self._theme, self._width()))

    def _question(self, event: ev.QuestionAsked) -> None:
        """The model's question, once; a dialog adds no more than the answers."""
        calls = tuple(call_id for call_id, call in self.live.calls.items() if call.tool == "ask_user")
        self.live.ask(event.request_id, calls, time.monotonic())
        self._marked(self._theme.paint("strong", "? "), event.question)

    def _turn_over(
        self,
        reason: StopReason,
        event: ev.TurnCompleted | ev.TurnAborted | ev.TurnFailed,
        error: ev.ErrorInfo | None = None,
    ) -> None:
        self._end_answer()
        self._answered = False
        self.live.answered(time.monotonic())
        since, self.live.busy_since, self.live.retry = self.live.busy_since, None, None
        self.live.calls.clear()
        self._previewed.clear()
        if error:
            self._print("other", lines.error(error, self._theme, self._width()).split("\n"))
        elif lines.REASONS[reason]:
            self._warn(lines.REASONS[reason])
        spent = lines.since(self._before, self._snapshot().totals)
        facts = [lines.seconds(time.monotonic() - since - self.live.waited_s)] if since is not None else []
        if isinstance(event, ev.TurnCompleted):
            facts = [lines.seconds(event.duration_s), f"{event.steps} step{'s' * (event.steps != 1)}"]
        facts.append(lines.tokens(spent))
        facts.append(lines.money(spent))
        if event.changes:
            facts.append(lines.changes(event.changes))
        self._print("other", [self._theme.paint("muted", "— " + " · ".join(facts))])


def warm_up() -> None:
    """Import what the first answer will need, in a thread of its own; a failure is told when it is needed."""
    try:
        from . import rich_blocks as _rich_blocks  # noqa: F401
    except Exception:
        pass
