"""Rendering of tool calls and their effects: a finished call with its result or the most informative part of it,
and the effect of an undo or a compaction.

Separate from the renderer, which does not know the kinds of results; this module decides what to show of each
kind.
"""

import re
from collections.abc import Callable

import msgspec

from agent_cli.protocol.events import Compacted, Restored, ToolCallFinished
from agent_cli.protocol.sanitize import clean, visible, without_data_marks

from ..text import lines
from ..text.theme import NONE, Theme
from . import diff_view
from .marks import note, warning

_RESULT_ROWS = 10
_DIFF_ROWS = 40
_FAILED_ROWS = 6
_GLANCE_ROWS = 2
_NO_OUTPUT = "(no output)"

_TELLING = re.compile(r"(?i)\b(?:error|fail(?:ed|ure|s)?|fatal|panic|exception|traceback|undefined|cannot)\b")
"""Words in the output of a failed command that indicate the cause."""

Whole = Callable[[Theme, int], list[str]]
"""Draws a complete text in a theme and a width, on the user's request."""


class RenderedResult(msgspec.Struct, frozen=True):
    """A finished call as rows."""

    rows: list[str]
    whole: Whole | None = None
    """Draws the complete result, if the rows are shortened."""


class _Body(msgspec.Struct, frozen=True):
    """The part of a result worth showing."""

    text: tuple[str, ...] = ()
    rows: int = _RESULT_ROWS
    """Approximate number of rows shown."""
    kind: str = "text"
    """`diff`, `output` of a command, whose end matters, or `words`, which may be wrapped."""
    glance: str = ""
    """A short text that says everything, or the heading of the rest."""


def render_result(event: ToolCallFinished, previewed: str, theme: Theme, width: int, hint: str) -> RenderedResult:
    """Return the rows of a finished call. `previewed` is the diff that its approval has shown; `hint` tells how to
    expand what is folded."""
    if event.result_kind == "agent" and event.display.strip():
        return _render_agent(event, theme, width)
    body = _body(event, previewed)
    alone = lines.tool_line(event, NONE, 1_000_000)
    fits = bool(body.glance) and lines.cells(alone) + lines.cells(body.glance) + 3 <= width
    glance = body.glance if fits else ""
    below = body.glance
    if below.lower().partition(":")[0] == event.status:  # the row of the call says so
        below = below[len(event.status) :].removeprefix(":").strip()
    if below and not fits:
        body = msgspec.structs.replace(body, text=(below, *body.text), rows=body.rows + bool(body.text))
    shown, is_folded = _Page(theme, width, hint).rows(body, event.exit_code)
    is_cut = lines.cells(alone) > width or "\n" in event.command.strip()
    whole = _whole(body, event if is_cut else None) if is_folded or is_cut else None
    return RenderedResult([lines.tool_line(event, theme, width, glance), *shown], whole)


def _render_agent(event: ToolCallFinished, theme: Theme, width: int) -> RenderedResult:
    """Return the outcome of a sub-agent in one row; its task and answer are folded."""
    display = _lines(event.display)
    row = lines.tool_line(event, theme, width, lines.one_line(display[0], max(20, width // 2)))
    return RenderedResult([row], _whole(_Body(tuple(display), kind="words"), event))


def render_reads(events: list[ToolCallFinished], theme: Theme, width: int, hint: str) -> RenderedResult:
    """Return read-only calls as one row, such as `Read 3 files`; a single call unchanged."""
    if len(events) == 1:
        return render_result(events[0], "", theme, width, hint)
    counts: dict[tuple[str, str], int] = {}
    for event in events:
        what = lines.one_line(event.label or event.tool, 40), lines.one_line(event.counted, 40)
        counts[what] = counts.get(what, 0) + 1
    said = ", ".join(f"{label} {lines.number(count, noun)}" for (label, noun), count in counts.items())
    said = said[:1] + said[1:].lower()
    titles = lines.truncate(
        ", ".join(lines.one_line(event.title) for event in events), max(0, width - lines.cells(said) - 4)
    )
    icon, role = lines.ICONS["ok"]
    row = f"{theme.paint(role, icon)} {theme.paint('strong', said)}  {theme.paint('muted', titles)}"

    def whole(theme: Theme, width: int) -> list[str]:
        results = [render_result(event, "", theme, width, "") for event in events]
        return [f"  {row}" for result in results for row in result.rows]

    return RenderedResult([row], whole)


def _body(event: ToolCallFinished, previewed: str) -> _Body:
    display, text = _lines(event.display), _lines(without_data_marks(event.text))
    if event.command or (event.result_kind == "output" and event.status == "ok"):
        output = display or text
        return _Body(glance=_NO_OUTPUT) if output == [_NO_OUTPUT] else _Body(tuple(output), kind="output")
    if display and diff_view.is_diff(event.display):
        if event.display.strip() == previewed.strip():
            return _Body()
        return _Body(tuple(visible(event.display).rstrip("\n").split("\n")), _DIFF_ROWS, "diff")
    if event.result_kind == "text" and event.status == "ok":
        display = [] if event.display.strip() in event.text else display
        return _with_glance(display, text, min(_RESULT_ROWS, _GLANCE_ROWS + len(display)))
    if display:
        return _with_glance(display, [])
    if text and event.status in ("denied", "failed", "unknown"):
        return _with_glance(text, [], _FAILED_ROWS, "words")
    return _Body()


def _with_glance(head: list[str], text: list[str], rows: int = _RESULT_ROWS, kind: str = "text") -> _Body:
    """Show a single line together with its call."""
    head, text = (head, text) if head else (text[:1], []) if len(text) == 1 else ([], text)
    if len(head) == 1:
        return _Body(tuple(text), rows - 1 if text else rows, kind, head[0].strip())
    return _Body((*head, *text), rows, kind)


def _whole(body: _Body, cut: ToolCallFinished | None) -> Whole:
    """Return the complete result, preceded by the command or title of a call whose line is `cut`."""
    said = visible((cut.command or cut.title) if cut else "")
    head = [f"  {'$ ' * bool(cut and cut.command)}{line}" for line in said.split("\n") if cut]
    return lambda theme, width: [*head, *_Page(theme, width, "").render(body.text, body.kind)]


class _Page(msgspec.Struct, frozen=True):
    """Drawing of results."""

    theme: Theme
    width: int
    hint: str

    def rows(self, body: _Body, exit_code: int | None) -> tuple[list[str], bool]:
        """Return the body's rows, and True if some are hidden."""
        is_output = body.kind == "output"
        text = body.text
        if body.kind == "words":
            text = tuple(lines.wrap("\n".join(text), self.width - 2)) if text else ()
        part = fold(list(text), body.rows, self.width - 2, last=is_output, hint=self.hint)
        shown = self.render(part.kept, body.kind if body.kind == "diff" else "text")
        if part.hidden and is_output:
            shown = [*self._before(text, part.hidden, part.kept if exit_code else None), *shown]
        elif part.hidden:
            shown.append(self._more(part.hidden, self.hint))
        return shown, not part.whole

    def render(self, text: tuple[str, ...], kind: str) -> list[str]:
        """Return rows without a limit."""
        if kind == "diff":
            return [f"  {row}".rstrip() for row in diff_view.render_diff(text, self.theme, self.width - 2)]
        rows = lines.wrap("\n".join(text), self.width - 2) if kind == "words" and text else text
        return [f"  {self.theme.paint('output', row)}".rstrip() for row in rows]

    def _before(self, text: tuple[str, ...], hidden: int, kept: tuple[str, ...] | None) -> list[str]:
        """Return the rows for the hidden beginning of an output: the first line that explains why the command
        failed, unless a line in `kept` does."""
        telling = kept is not None and not any(map(_TELLING.search, kept))
        at = next((at for at in range(hidden) if telling and _TELLING.search(text[at])), None)
        if at is None:
            return [self._more(hidden, self.hint)]
        between = hidden - at - 1
        return [
            *([self._more(at, "" if between else self.hint)] if at else []),
            f"  {self.theme.paint('output', lines.truncate(text[at], self.width - 2))}",
            *([self._more(between, self.hint)] if between else []),
        ]

    def _more(self, count: int, hint: str) -> str:
        return "  " + self.theme.paint("muted", f"… {lines.number(count, 'more line')}{hint}")


class TruncatedText(msgspec.Struct, frozen=True):
    """The remaining part of a text."""

    kept: tuple[str, ...]
    """Lines in order; a line that is too long by itself is cut in the middle."""
    hidden: int
    """Number of omitted lines, all at one end."""
    whole: bool
    """True if nothing was omitted."""


def fold(text: list[str], limit: int, width: int, *, last: bool = False, hint: str = "") -> TruncatedText:
    """Return at most `limit` rows of `text` (one more if that shows all of it), from its beginning or its `last`
    part.

    `hint` tells how to see the rest, where a line is cut.
    """
    if sum(_rows_of(line, width) for line in text) <= limit + 1:
        return TruncatedText(tuple(text), 0, True)
    kept: list[str] = []
    room = limit
    for line in reversed(text) if last else text:
        if _rows_of(line, width) > limit and room > 1:
            line = _cut_middle(line.expandtabs(8), room * width, hint)
        if _rows_of(line, width) > room:
            break
        kept.append(line)
        room -= _rows_of(line, width)
    return TruncatedText(tuple(reversed(kept) if last else kept), len(text) - len(kept), False)


def _rows_of(line: str, width: int) -> int:
    return max(1, -(-lines.cells(line) // max(1, width)))


def _cut_middle(line: str, room: int, hint: str) -> str:
    """Return `line` in `room` columns: its beginning, the number of omitted characters, its end."""
    side = max(1, (room - len(f"… {len(line)} characters{hint} …")) // 2)
    head, tail = line[: lines.fit(line, side)], line[::-1][: lines.fit(line[::-1], side)][::-1]
    return f"{head}… {len(line) - len(head) - len(tail)} characters{hint} …{tail}"


def _lines(text: str) -> list[str]:
    """Return the lines of a text from elsewhere, sanitized; none for an empty text."""
    return [line.expandtabs(8) for line in clean(text).strip("\n").split("\n")] if text.strip() else []


_MAX_FILES = 12
_DONE = {"undo": "Undid", "redo": "Redid", "rewind": "Went back", "resolve": ""}


def render_report(event: Restored, theme: Theme, width: int) -> list[str]:
    """Return the effects of an undo or redo, file by file."""
    done = event.report
    head = f"{_DONE[event.kind]} {lines.number(event.turns, 'turn')}: {lines.one_line(event.prompt, 80)}"
    if event.kind == "resolve":
        head = "Resolved" if done.restored or not done.conflicts else "Not resolved"
    out = [theme.paint("strong", row) for row in lines.wrap(head, width)]
    shown = done.restored[:_MAX_FILES]
    for file in shown:
        row = f"  {file.kind} {lines.one_line(file.path)}{lines.line_counts(file.added, file.removed)}"
        out.append(lines.truncate(row, width))
    if len(done.restored) > len(shown):
        out.append(f"  … and {len(done.restored) - len(shown)} more")
    for conflict in done.conflicts:
        lead = "" if conflict.reason.startswith("not covered") else "skipped "
        why = f"{lead}{lines.one_line(conflict.path)}: {lines.one_line(conflict.reason, 300)}"
        out += [f"  {row}" for row in warning(why, theme, width - 2)]
    return out + [row for note in done.notes for row in lines.wrap(f"  {lines.one_line(note, 300)}", width)]


_SUMMARY_ROWS = 12
_COMPACTED = {
    "summary": "Older messages are replaced by a summary (/compact edit changes it, /compact undo reverts it)",
    "shortened": "Older tool results are shortened",
    "left_out": "Older messages are left out, since no summary could be made (/compact undo reverts it)",
    "edited": "The summary is as you wrote it",
    "undone": "The last compaction is undone",
    "preview": "This would be the summary; nothing has changed yet (/compact keep, or /compact edit first)",
}


def render_compaction(event: Compacted, width: int, hint: str) -> tuple[list[str], list[str]]:
    """Return the rows of a compaction: the action, the tokens freed, and the beginning of the summary, or all of
    it for a preview. Second, the whole summary, if the rows do not show all of it."""
    done = _COMPACTED[event.how]
    if event.how == "preview" and event.after >= event.before:
        done = "This would be the summary, no smaller than now; /compact keep would not help"
    rows = note(f"{done}: {lines.count(event.before)} → {lines.count(event.after)} tokens.", width)
    text = [f"  {row}" for row in _lines(event.summary)]
    shown = text if event.how == "preview" else text[:_SUMMARY_ROWS]
    hidden = len(text) - len(shown)
    rows += [row for line in shown for row in lines.wrap(line, width)]
    more = [f"  … {lines.number(hidden, 'more line')}{hint}"] if hidden else []
    return [*rows, *more], text if hidden else []
