"""Render events as text: permanent output, and in `Live` the part that changes until it ends.

The renderer owns no screen. A front end passes it events, prints the text of `take` and paints the lines of
`frame`; so the same code serves the REPL, the plain REPL and the tests. Any failure in here becomes a one-line
notice and never reaches the loop.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.sanitize import clean
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.protocol.usage import Totals

from ..markdown.splitter import Blocks, MarkdownStream, PlainBlocks
from ..text import lines
from ..text.theme import NONE, Theme
from . import notices
from .live import Kind, Live, RunningCall
from .marks import note, option_rows, prompt_rows, question_rows, warning, without_bar
from .reasoning import ReasoningView, thought_rows

if TYPE_CHECKING:
    from ..markdown.blocks import StyledBlocks
    from ..text.retries import RetryProgress
    from .tool_results import RenderedResult, Whole

    _Folded = tuple[str, Whole]
    """The title of a folded text, and a function that draws it."""

_FROM_ELSEWHERE = (ev.ToolOutput, ev.AgentEvent, ev.AgentChanged)
"""Events that do not show that the model's server is sending."""
_GOT_THROUGH = (ev.TextDelta, ev.ReasoningDelta, ev.AnswerCompleted, ev.Compacted)
"""Events of a model call that show that an attempt got through."""
_ATTEMPT_ENDED = (ev.AnswerCompleted, ev.Compacted)
_PROMPT_LINES = 20
_EARLIER_ROWS = 1_000
"""Approximate number of rows of earlier turns drawn at once."""
_ERROR_CELLS = 3 * 80
"""Maximum size of a provider's error message, in cells; at least three rows, if the advice leaves room."""
_FOLDED = 20
"""Maximum number of folded texts that can be shown in full later."""


class Renderer:
    """Renders one session's events. `width` and `snapshot` are called when needed."""

    def __init__(
        self,
        theme: Theme,
        settings: Ui,
        width: Callable[[], int],
        snapshot: Callable[[], Snapshot],
        expand_key: str = "Ctrl-O",
        is_replay: bool = False,
    ) -> None:
        """With `is_replay`, events of earlier turns are shown, without anything that needs a clock."""
        self.live = Live(theme)
        self.summary = ""
        """The compaction summary shown last."""
        self._theme, self._settings, self._width, self._snapshot = theme, settings, width, snapshot
        self._expand_key, self._is_replay = expand_key, is_replay
        self._hint = f" ({expand_key} shows them)" if expand_key else ""
        self._out: list[str] = []
        self._last: Kind = ""
        self._drawn: StyledBlocks | None = None
        self._answer: MarkdownStream | None = None
        self._answered = False
        self._echoed = ""
        """A user command, as long as nothing has happened since its echo: its turn is not to print it again."""
        self._thoughts = ReasoningView(keeps=not settings.show_reasoning)
        self._folded: deque[_Folded] = deque(maxlen=_FOLDED)
        self._goes_back = False
        """True if the text folded last has already been shown in full."""
        self._before = Totals()
        self._chosen = ("", "")
        """Model and effort shown last."""
        self._previewed: dict[str, str] = {}
        """The diffs shown by approvals, by call."""
        self._reads: list[ev.ToolCallFinished] = []
        """Finished read-only calls: held back until something else is printed, then shown as one row."""

    def use(self, theme: Theme) -> None:
        """Use other colours from now on; printed text stays as it is."""
        self._theme = theme
        self.live.use(theme)
        if self._drawn:
            self._drawn.theme = theme
        if self._answer:
            self._answer.redraw()

    def handle(self, event: ev.AnyEvent) -> None:
        """Process an event. Never raises."""
        try:
            self._show(event)
        except Exception as problem:
            self._out.append(f"(could not show {type(event).__name__}: {type(problem).__name__})\n")
        self._echoed = ""

    def take(self, final: bool = False) -> str:
        """Return the text to print now, in whole lines; empty if there is nothing new. With `final`, include what
        is held back to be shown together with later output."""
        if final:
            self._print_reads()
        try:
            if self._answer and (done := self._answer.take(self._width())):
                self._print("answer", [*map(without_bar, done)])
        except Exception as problem:
            self._out.append(f"(could not draw the answer: {type(problem).__name__})\n")
            self._answer = MarkdownStream(PlainBlocks())
        text, self._out = "".join(self._out), []
        return clean(text, keep_sgr=True, keep_links=self._theme.links)  # for text not sanitized above

    def frame(self, queued: tuple[str, ...], rows: int, works: bool = False) -> list[str]:
        """Return the current lines of the live region; `works` is True if anything is running, a turn or not."""
        try:
            self.live.set_working(works, time.monotonic())
            tail = [*map(without_bar, self._answer.tail(self._width()))] if self._answer else self._thinking()
            reads = self._render_reads(self._reads).rows if self._reads else []
            shown, above = self._below("tool", reads, self._last)
            more, above = self._below("answer" if self._answer else "reasoning", tail, above)
            drawn = self.live.draw([*shown, *more], queued, time.monotonic(), rows, self._width(), above)
            return clean("\n".join(drawn), keep_sgr=True).split("\n") if drawn else []
        except Exception as problem:
            return [f"(could not draw: {type(problem).__name__})"]

    def _below(self, kind: Kind, rows: list[str], above: Kind) -> tuple[list[str], Kind]:
        """Return rows that are not permanent yet with the blank row before them that they will have when
        they are printed, so that nothing moves then; and the kind of the last row."""
        if not rows:
            return rows, above
        return ["", *rows] if rows[0] and above not in ("", kind) else rows, kind

    def echo(self, text: str) -> None:
        """Echo a user command."""
        self._prompt(text)
        self._echoed = text.strip()

    def notice(self, text: str, wrap: bool = True) -> None:
        """Print the program's own lines, wrapped between words or, without `wrap`, unchanged."""
        self._print("other", lines.wrap(text, self._width()) if wrap else text.split("\n"))

    def replay(self, turns: Iterator[Sequence[ev.AnyEvent]], count: int, rows: int) -> None:
        """Print the last of `count` earlier turns, given newest first: as many as fill `rows` rows, at least one.
        The turns before them are folded, and drawn when they are expanded."""
        text, folded, earlier = self._replayed(turns, count, rows)
        self._folded += [*earlier, *folded[1 - _FOLDED :]]
        if text:
            self._print("end", text)

    def _replayed(
        self, turns: Iterator[Sequence[ev.AnyEvent]], count: int, rows: int
    ) -> "tuple[list[str], list[_Folded], list[_Folded]]":
        """Return the rows of the newest turns, their folded texts, and a fold for the turns before them."""
        text: list[str] = []
        folded: list[_Folded] = []
        try:
            for turn in turns:
                part = Renderer(
                    self._theme, self._settings, self._width, self._snapshot, self._expand_key, is_replay=True
                )
                for event in turn:
                    part.handle(event)
                text = [*part.take(final=True).removesuffix("\n").split("\n"), *([""] if text else []), *text]
                folded = [*part._folded, *folded]
                count -= 1
                if len(text) >= rows:
                    break
        except Exception as problem:  # texts are read from the file, which may be gone
            gone = warning(f"Earlier turns cannot be shown: {problem}", self._theme, self._width())
            return [*gone, *([""] if text else []), *text], folded, []
        if not text or count <= 0:
            return text, folded, []
        said = lines.number(count, "earlier prompt")

        def whole(theme: Theme, width: int) -> list[str]:
            text, folded, earlier = self._replayed(turns, count, _EARLIER_ROWS)
            self._folded += [*folded[1 - _FOLDED :], *earlier]
            return text

        return [self._theme.paint("muted", f"… {said}{self._hint}"), "", *text], folded, [(said, whole)]

    def expand(self) -> None:
        """Print the text folded last in full; a further call prints the one folded before it."""
        if not self._folded:
            self.notice("Nothing more to expand." if self._goes_back else "Nothing to expand.")
            return
        title, whole = self._folded.pop()
        head = f"{'Further back' if self._goes_back else 'In full'}: {title}"
        more = f"  {len(self._folded)} more further back" if self._folded else ""
        self._goes_back = True
        shown = self._theme.paint("strong", lines.truncate(head, self._width() - len(more)))
        self._print("other", [shown + self._theme.paint("muted", more), *whole(self._theme, self._width())])

    def _fold(self, title: str, whole: "Whole") -> None:
        self._folded.append((lines.one_line(title), whole))
        self._goes_back = False

    def _show(self, event: ev.AnyEvent) -> None:
        if not isinstance(event, _FROM_ELSEWHERE):
            self.live.silent_since = None
        if self.live.retry and isinstance(event, _GOT_THROUGH):
            self._recovered(self.live.retry, isinstance(event, _ATTEMPT_ENDED))
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
                self.live.calls[event.call_id] = RunningCall(event.label or event.tool, event.title)
            case ev.ToolCallStarted():
                self.live.calls[event.call_id] = RunningCall(
                    event.label or event.tool, event.title, time.monotonic(), event.result_kind
                )
            case ev.ToolCallFinished():
                self._tool(event)
            case ev.ApprovalRequested():
                self._preview(event)
            case ev.ApprovalResolved():
                self.live.answered(time.monotonic(), event.request_id)
            case ev.QuestionAsked():
                self._question(event)
            case ev.AgentChanged():
                self._agent_changed(event)
            case ev.AgentEvent():
                if self.live.agents is not None:
                    self.live.agents.follow(event)
            case ev.HookRan() | ev.QuestionResolved():
                pass  # a hook's message comes as a notice; the interactive user has seen the answer
            case ev.TurnStarted():
                self._turn_started(event)
            case ev.TurnCompleted() | ev.TurnAborted():
                self._turn_over(event.stop_reason, event)
            case ev.TurnFailed():
                self._turn_over(event.stop_reason, event, event.error)
            case _:
                self._show_lines(event)

    def _show_lines(self, event: notices.Plain | ev.Steered | ev.Compacted | ev.StreamSilent) -> None:
        """Print an event that needs only a few lines of text."""
        match event:
            case ev.SessionStarted():
                now = self._snapshot()
                self._chosen = (now.model, now.effort)
                self._print("other", notices.render_notice(event, self._theme, self._width()))
            case ev.Steered():
                self._prompt(event.text, "(delivered)")
            case ev.Compacted():
                self._compacted(event)
            case ev.StreamSilent():
                self._silent(event.silent_s)
            case ev.SettingsChanged() if self._shows_already(event):
                pass
            case ev.OperationFailed(error=error):
                self._error(error)
            case _:
                if isinstance(event, ev.FellBack):
                    self._void()
                    self.live.retry = None
                if rows := notices.render_notice(event, self._theme, self._width()):
                    self._print("tool" if isinstance(event, ev.PlanUpdated) else "other", rows)

    def _shows_already(self, event: ev.SettingsChanged) -> bool:
        """Return True if only the mode has changed, which the status line shows."""
        before, self._chosen = self._chosen, (event.model, event.effort)
        return self._chosen == before and not self._settings.plain

    def _tool_silent(self, event: ev.ToolSilent) -> None:
        if (call := self.live.calls.get(event.call_id)) is None:
            return
        call.silent_since = time.monotonic() - event.silent_s
        if self._settings.plain:
            name = lines.one_line(f"{call.label} {call.title}")
            self._print("other", [f"· {name}: no output for {lines.seconds(event.silent_s)}."])

    def _silent(self, silent_s: float) -> None:
        if silent_s and self._settings.plain:
            self._print("other", [f"· No data from the model for {lines.seconds(silent_s)}."])
        elif silent_s:
            self.live.silent_since = time.monotonic() - silent_s

    def _print_reads(self) -> None:
        """Print the calls that were held back, as one row."""
        reads, self._reads = self._reads, []
        if reads:
            done = self._render_reads(reads)
            if done.whole:
                self._fold(lines.one_line(lines.plain(done.rows[0])), done.whole)
            self._print("tool", done.rows)

    def _render_reads(self, reads: list[ev.ToolCallFinished]) -> "RenderedResult":
        from .tool_results import render_reads

        return render_reads(reads, self._theme, self._width(), self._hint)

    def _print(self, kind: Kind, text: list[str]) -> None:
        """Add permanent lines, with a blank line between different kinds."""
        self._print_reads()
        if self._last and text[0] and (kind != self._last or kind == "prompt"):
            self._out.append("\n")
        self._last = kind
        self._out += [line + "\n" for line in text]

    def _compacted(self, event: ev.Compacted) -> None:
        from .tool_results import render_compaction

        self.summary = event.summary or self.summary
        rows, whole = render_compaction(event, self._width(), self._hint)
        self._print("other", rows)
        if whole:
            self._fold("the summary", lambda theme, width: lines.wrap("\n".join(whole), width))

    def _prompt(self, text: str, note: str = "") -> None:
        whole = clean(text).rstrip().split("\n")
        hidden = len(whole) - _PROMPT_LINES
        shown = whole[:_PROMPT_LINES]
        if hidden > 0:
            note = f"… {lines.number(hidden, 'more line')}{self._hint}"
            self._fold("what you wrote", lambda theme, width: ["  " + line for line in whole])
        self._print("prompt", prompt_rows(shown, note, self._theme, self._settings.plain, self._width()))

    def _turn_started(self, event: ev.TurnStarted) -> None:
        self.live.busy_since, self.live.waited_s = time.monotonic(), 0.0
        if not self._is_replay:
            self._before = self._snapshot().totals
        if event.text.strip() not in ("", self._echoed):
            self._prompt(event.text)

    def _text(self, text: str) -> None:
        if self._answer is None or self._thoughts.open or self._reads:
            self._end_thoughts()
            self._print_reads()
            self._answer = self._answer or MarkdownStream(self._make_blocks())
        self._answered = True
        self._answer.feed(text)

    def _make_blocks(self) -> Blocks:
        if self._settings.plain or not self._settings.markdown:
            return PlainBlocks()
        if self._drawn is None:
            self._drawn = _styled_blocks(self._theme)
        return self._drawn

    def _reasoning(self, text: str) -> None:
        if text and self._answer:
            self._end_answer()  # print the text before the reasoning first
        self._print_thoughts(self._thoughts.feed(text, time.monotonic()))

    def _print_thoughts(self, whole: list[str]) -> None:
        if whole and self._settings.show_reasoning:
            self._print("reasoning", thought_rows(whole, self._theme, self._width()))

    def _thinking(self) -> list[str]:
        """Return the last lines of the current reasoning."""
        if not self._thoughts.open:
            return []
        rows = self._thoughts.glimpse(self._width() - 2) if self._settings.show_reasoning else []
        if not self._settings.show_reasoning:
            rows = [f"thinking, {lines.number(self._thoughts.count, 'line')}"]
        return thought_rows(rows, self._theme, self._width())

    def _end_thoughts(self) -> None:
        if not self._thoughts.open:
            return
        rest, kept, passed_s = self._thoughts.end(time.monotonic())
        self._print_thoughts(rest)
        if kept:
            took = "" if self._is_replay else f" for {lines.seconds(passed_s)}"
            title = f"thought{took}, {lines.number(len(kept), 'line')}"
            hint = "" if self._settings.plain else self._hint
            self._print("reasoning", [self._theme.paint("reasoning", f"~ {title}{hint}")])
            self._fold(title, lambda theme, width: thought_rows(kept, theme, width))

    def _end_answer(self) -> None:
        self._end_thoughts()
        answer, self._answer = self._answer, None
        if answer and (done := answer.take(self._width(), final=True)):
            self._print("answer", [*map(without_bar, done)])

    def _answer_done(self, event: ev.AnswerCompleted) -> None:
        if not self._answered and event.text.strip():
            self._text(event.text)
        self._void()

    def _retry(self, event: ev.RetryScheduled) -> None:
        from ..text.retries import RetryProgress

        shown = self._void()
        if shown and not event.discarded_chars:
            event = msgspec.structs.replace(event, discarded_chars=1)
        retry = self.live.retry = self.live.retry or RetryProgress()
        retry.scheduled(event, time.monotonic())
        said = retry.first() if self._settings.plain else retry.discarded() if event.discarded_chars else ""
        if said:
            self._print("other", warning(said, self._theme, self._width(), "↻"))

    def _recovered(self, retry: "RetryProgress", has_ended: bool) -> None:
        """Record that a model call got through after retries. After an answer that broke off, only the end of the
        next one shows that; it needs no words then."""
        if retry.broke_off and not has_ended:
            retry.answers = True
            return
        self.live.retry = None
        if not (retry.broke_off or (self._settings.plain and retry.count == 1)):
            self._print("other", note(retry.ended(), self._width()))

    def _void(self) -> bool:
        """End the answer shown so far; the next piece starts a new one. Return True if anything was shown."""
        shown = self._answer is not None or self._thoughts.open
        self._end_answer()
        self._answered = False
        return shown

    def _tool(self, event: ev.ToolCallFinished) -> None:
        self.live.calls.pop(event.call_id, None)
        asked = self.live.question_of(event.call_id)
        if asked is not None:
            self.live.answered(time.monotonic(), asked)
        if event.result_kind == "answer" and event.status == "ok":
            self._text(event.text)
            self._void()
            return
        if event.result_kind == "question" and asked is not None:
            event = msgspec.structs.replace(event, title="", label="Answer")  # the question is printed above
        previewed = self._previewed.pop(event.call_id, "")
        if event.counted and event.status == "ok" and not (event.changes or self._settings.plain):
            self._reads.append(event)
            return
        from .tool_results import render_result

        done = render_result(event, previewed, self._theme, self._width(), self._hint)
        if done.whole:
            self._fold(f"{event.label or event.tool} {event.title}", done.whole)
        self._print("tool", done.rows)

    def _agent_changed(self, event: ev.AgentChanged) -> None:
        """Track a sub-agent. A background sub-agent gets a line when it ends; any other is shown by its call."""
        from .agents import AgentsView, change_line, end_row

        self.live.agents = self.live.agents or AgentsView()
        before, agent = self.live.agents.change(event)
        if event.state == before:
            return
        if event.state in ENDED:
            if event.background:
                said = agent.answer or event.line
                if said.strip():
                    self._fold(
                        f"Agent {event.agent_name}", lambda theme, width: lines.wrap(clean(said).strip(), width)
                    )
                self._print("tool", [end_row(event, self._theme, self._width())])
        elif self._settings.plain:
            self._print("other", note(change_line(event), self._width()))

    def _preview(self, event: ev.ApprovalRequested) -> None:
        """Print the calls that need approval, once and in full, unless the question itself contains them."""
        from .approval_preview import render_preview

        self.live.ask(event.request_id, tuple(item.call_id for item in event.items), time.monotonic())
        for item in event.items:
            if item.preview_kind == "diff":
                self._previewed[item.call_id] = item.preview
        self._above_question(render_preview(event.items, self._theme, self._width()))

    def print_commands(self, items: Sequence[ev.ApprovalItem]) -> None:
        """Print the commands that need approval above a question that has no room for them."""
        from .approval_preview import render_commands

        self._above_question(render_commands(items, self._theme, self._width()))

    def print_options(self, options: Sequence[str]) -> None:
        """Print the options of a question above a dialog that has no room for all of them."""
        self._above_question(option_rows(options, self._theme, self._width()))

    def _above_question(self, rows: list[str]) -> None:
        if rows:
            self._print_reads()
            self._last = self._last and "other"  # a blank row before it, none before the result
            self._print("tool", rows)

    def _question(self, event: ev.QuestionAsked) -> None:
        """Print the model's question, once; a dialog adds only the answers."""
        calls = tuple(call_id for call_id, call in self.live.calls.items() if call.result_kind == "question")
        self.live.ask(event.request_id, calls, time.monotonic())
        self._print("other", question_rows(event, self._theme, self._width()))

    def _error(self, error: ev.ErrorInfo) -> None:
        """Print an error: a provider's long message in a few rows, its rest folded; our own words whole."""
        most = 0 if error.kind == "not_done" else max(3, -(-_ERROR_CELLS // max(1, self._width())))
        hint = f" ({self._expand_key} shows it)" if self._expand_key else ""
        rows = lines.error(error, self._theme, self._width(), most, hint).split("\n")
        if rows != lines.error(error, self._theme, self._width()).split("\n"):
            self._fold("the error", lambda theme, width: lines.error(error, theme, width).split("\n"))
        self._print("other", rows)

    def _turn_over(
        self,
        reason: StopReason,
        event: ev.TurnCompleted | ev.TurnAborted | ev.TurnFailed,
        error: ev.ErrorInfo | None = None,
    ) -> None:
        from ..text.hints import STOPPED

        self._void()
        self.live.answered(time.monotonic())
        since, self.live.busy_since, self.live.retry = self.live.busy_since, None, None
        waited_s = self.live.waited_s
        self.live.calls.clear()
        self._previewed.clear()
        if error:
            self._error(error)
        elif STOPPED[reason]:
            self._print("other", warning(STOPPED[reason], self._theme, self._width()))
        if self._is_replay:
            return
        spent = self._snapshot().totals.since(self._before)
        took_s = None if since is None else time.monotonic() - since
        if isinstance(event, ev.TurnCompleted):
            took_s = event.duration_s
        worked_s = None if took_s is None else max(0.0, took_s - waited_s)
        if end := notices.turn_end(event, spent, worked_s, self._theme, self._width()):
            self._print("end", end)


def _styled_blocks(theme: Theme) -> "StyledBlocks":
    from ..markdown.blocks import StyledBlocks

    return StyledBlocks(theme)


def warm_up() -> None:
    """Import the modules for the first answer, in a separate thread; a failure is reported when they are used."""
    try:
        _styled_blocks(NONE)
    except Exception:
        pass
