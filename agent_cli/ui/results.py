"""What a person sees of a finished call's result: nothing, a glance, or its most telling part.

Apart from the renderer, which knows no kinds of results; here is what each kind is worth on the screen.
"""

import msgspec

from ..protocol.events import Compacted, ToolCallFinished
from ..protocol.sanitize import clean
from . import lines
from .folding import fold
from .theme import Theme

_RESULT_ROWS = 10
_DIFF_ROWS = 40
_FAILED_ROWS = 6
_GLANCE_ROWS = 2

_TOLD_OTHERWISE = frozenset({
    "apply_patch", "ask_user", "edit_file", "finish", "glob", "grep", "list_dir", "read_file", "repo_map",
    "shell", "update_plan", "write_file",
})  # fmt: skip
"""Tools whose text tells a person nothing that is not shown elsewhere or in the project's own files."""


def shown(event: ToolCallFinished, previewed: str, theme: Theme, width: int, hint: str) -> tuple[list[str], str]:
    """The rows to print, indented, and the whole text where they are not all of it, else nothing.

    `previewed` is the diff that the call's approval has shown; `hint` says how to see the whole.
    """
    display, text = _lines(event.display), _lines(event.text)
    page = _Page(theme, width, hint)
    if event.command:
        return page.folded(display or text, _RESULT_ROWS, last=True)
    if display and lines.looks_like_diff(event.display):
        diff = clean(event.display).rstrip("\n").split("\n")
        again = event.display.strip() == previewed.strip()
        return ([], "") if again else page.folded(diff, _DIFF_ROWS, diff=True)
    if event.tool not in _TOLD_OTHERWISE and event.status == "ok":
        display = [] if event.display.strip() in event.text else display
        return page.folded(display + text, min(_RESULT_ROWS, _GLANCE_ROWS + len(display)))
    if display:
        return page.folded(display, _RESULT_ROWS)
    if text and event.status in ("denied", "failed", "unknown"):
        return page.folded(lines.wrapped("\n".join(text), width - 2), _FAILED_ROWS)
    return [], ""


class _Page(msgspec.Struct, frozen=True):
    """How results are printed."""

    theme: Theme
    width: int
    hint: str

    def folded(
        self, text: list[str], limit: int, *, last: bool = False, diff: bool = False
    ) -> tuple[list[str], str]:
        """`text` in about `limit` rows, and the whole of it where something is left out."""
        part = fold(text, limit, self.width - 2, last=last, hint=self.hint)
        rows, whole = (lines.diff(each, self.theme) if diff else list(each) for each in (part.kept, text))
        if part.hidden:
            more = f"… {part.hidden} more line{'s' * (part.hidden != 1)}{self.hint}"
            rows.insert(0 if last else len(rows), self.theme.paint("muted", more))
        return ["  " + row for row in rows], "" if part.whole else "\n".join(whole)


def _lines(text: str) -> list[str]:
    """The lines of a text of others, made safe; none of an empty one."""
    return [line.expandtabs(8) for line in clean(text).strip("\n").split("\n")] if text.strip() else []


_SUMMARY_ROWS = 12
_REDUCED = {
    "summary": "Older messages are folded into a summary (/compact edit changes it, /compact undo takes it back)",
    "shortened": "Older tool results are shortened",
    "left_out": "Older messages are left out, since no summary could be had (/compact undo takes it back)",
    "edited": "The summary is as you wrote it",
    "undone": "The last reduction is taken back",
    "preview": "This would be the summary; nothing has changed yet (/compact keep, or /compact edit first)",
}


def compacted(event: Compacted, theme: Theme) -> list[str]:
    """A reduction: what was done, how much it freed, and the beginning of the summary, all of it in a preview."""
    done = _REDUCED[event.how]
    if event.how == "preview" and event.after >= event.before:
        done = "This would be the summary, no smaller than now; /compact keep would not help"
    rows = [f"· {done}: {lines.count(event.before)} → {lines.count(event.after)} tokens."]
    text = _lines(event.summary)
    shown = text if event.how == "preview" else text[:_SUMMARY_ROWS]
    rows += [theme.paint("muted", f"  {row}") for row in shown]
    if len(shown) < len(text):
        rows.append(theme.paint("muted", f"  … {len(text) - len(shown)} more lines"))
    return rows
