"""Questions that only a person may answer: approvals and the model's own questions, as key-driven dialogs.

Pure state: keys and lines of text go in, lines to show and finally one operation come out; the screen is
somebody else's. Two rules protect a person who is typing when a dialog appears: keys are ignored until it
has stood for half a second (and while they keep coming), and Enter alone never approves.
"""

import json
from typing import Protocol

import msgspec

from ..protocol.events import ApprovalItem, ApprovalRequested, QuestionAsked
from ..protocol.operations import ApprovalAnswer, Decision, GrantScope, Operation, QuestionAnswer
from ..protocol.sanitize import visible
from . import commands, lines
from .theme import Theme

GUARD_S = 0.5
"""Keys this soon after a dialog has appeared are meant for something else."""
_QUIET_S = 0.3

ANSWER_FIRST = "Answer first (Esc stops the turn); commands wait until then."
"""What a slash command gets in place of an answer."""

_SCOPES: dict[str, GrantScope] = {"s": "session", "p": "project", "u": "user"}


class Entry(msgspec.Struct, frozen=True):
    """A line of text the dialog wants: what to ask, and what stands there at first."""

    purpose: str
    label: str
    initial: str = ""
    editor: bool = False
    """Whether $EDITOR, where there is one, is the better place."""


def _reason(item: ApprovalItem, width: int) -> list[str]:
    """Why it asks and the rule that asks, each to be seen however long the other is."""
    whole = lines.boxed(f"{item.reason} [{item.rule}]", width, 5)
    if len(whole) < 5:
        return whole
    return lines.boxed(item.reason, width, 3) + lines.boxed(f"[{item.rule}]", width, 2)


class Dialog(Protocol):
    """What the screen needs of any dialog."""

    request_id: str
    entry: Entry | None
    """Set while text is being entered; keys come one by one otherwise."""
    answer: Operation | None
    """Set when all is decided."""

    def appear(self, now: float) -> None: ...
    def draw(self, theme: Theme, width: int, rows: int) -> list[str]: ...
    def press(self, key: str, now: float) -> str: ...
    def entered(self, text: str) -> str: ...
    def back(self) -> bool: ...


class _Guard:
    """Holds keys off while a dialog is new."""

    def __init__(self, now: float) -> None:
        self._armed_at = now + GUARD_S

    def holds(self, now: float) -> bool:
        """Whether a key pressed now is to be ignored; typing that goes on keeps the guard up."""
        if now >= self._armed_at:
            return False
        self._armed_at = max(self._armed_at, now + _QUIET_S)
        return True


class ApprovalDialog:
    """Decides the calls of one request, one after another."""

    def __init__(self, request: ApprovalRequested, now: float) -> None:
        self.request_id = request.request_id
        self.entry: Entry | None = None
        self.answer: Operation | None = None
        self._items = request.items
        self._at = 0
        self._decisions: dict[int, Decision] = {}
        self._edited: dict[int, str] = {}
        self._rule: str | None = None
        """The rule about to be saved, while its scope is asked for."""
        self._guard = _Guard(now)
        if not request.items:
            self.answer = ApprovalAnswer(self.request_id)

    def appear(self, now: float) -> None:
        """The dialog is shown from now on, which is when its guard begins."""
        self._guard = _Guard(now)

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """The question, the reason, the rule that asks, and the keys, all within `width` columns; or the rule
        about to be saved. Of a batch as many calls are listed as `rows` leave room for."""
        item = self._items[self._at]
        head, *rest = lines.boxed(self._question(item), width - 2, 2)
        out = [f"{theme.paint('warning', '?')} {theme.paint('strong', head)}"]
        out += [theme.paint("strong", f"  {row}") for row in rest]
        if self._rule is None:
            out += [theme.paint("muted", f"  {row}") for row in _reason(item, width - 2)]
        out += [f"  {row}" for row in self._choice(item, width - 2)]
        if len(self._items) > 1:
            out = [self._row(at, theme, width) for at in self._window(rows - len(out))] + out
        return out

    def _choice(self, item: ApprovalItem, width: int) -> list[str]:
        """The keys that mean something now."""
        if self._rule is not None:
            keys = ["s this session", "p this project", "u everywhere", "e edit the rule", "Esc back"]
            return [*lines.boxed(f"Always allow {self._rule}", width, 8), *lines.listed(keys, width)]
        if self.entry is not None:
            return []
        keys = ["y once"]
        keys += ["a always"] if item.grant else []
        keys += ["e edit"] if self._editable(item) is not None else []
        keys += ["n no", "or type what to do instead"]
        keys += ["A/N all"] if len(self._items) > 1 else []
        return lines.listed(keys, width)

    def _question(self, item: ApprovalItem) -> str:
        """What is asked; a command stands in full above, and a call of a batch in its row."""
        edited = " (edited)" if self._at in self._edited else ""
        alone = len(self._items) == 1 and item.preview_kind != "command"
        title = lines.named(item.tool, item.title, 200) if alone else ""
        return f"Allow {lines.one_line(item.tool, 40)}{edited}? {title}".rstrip()

    def _window(self, rows: int) -> range:
        shown = max(1, min(7, rows, len(self._items)))
        first = max(0, min(self._at - shown // 2, len(self._items) - shown))
        return range(first, first + shown)

    def _row(self, at: int, theme: Theme, width: int) -> str:
        decision, item = self._decisions.get(at), self._items[at]
        mark = " " if decision is None else ("✓" if decision.allow else "✗")
        row = f"{'❯' if at == self._at else ' '} {mark} {at + 1}/{len(self._items)} "
        call = f"{item.tool} {item.title}" if item.title != item.tool else item.tool
        return theme.paint("strong" if at == self._at else "muted", row) + lines.one_line(call, width - len(row))

    def press(self, key: str, now: float) -> str:
        """A key or a paste; returns text to print for good, if any."""
        if self._guard.holds(now) or not key:
            return ""
        if self._rule is not None:
            self._press_scope(key)
            return ""
        item = self._items[self._at]
        match key:
            case "y" | "n":
                self._decide(key == "y")
            case "A" | "N":
                for at in range(len(self._items)):
                    self._at = at
                    if at not in self._decisions:
                        self._decide(key == "A", move=False)
                self._finish()
            case "a" if item.grant:
                self._rule = item.grant
            case "a":
                return "This may not be allowed for good; y allows it once."
            case "e":
                return self._edit(item)
            case "up" | "down":
                self._at = (self._at + (1 if key == "down" else -1)) % len(self._items)
            case "enter":
                pass
            case _:
                self.entry = Entry("feedback", "do instead: ", key)
        return ""

    def _press_scope(self, key: str) -> None:
        if scope := _SCOPES.get(key):
            rule, self._rule = self._rule or "", None
            self._decide(True, grant=rule, scope=scope)
        elif key == "e":
            self.entry = Entry("rule", "rule: ", self._rule or "")

    def _editable(self, item: ApprovalItem) -> str | None:
        """The text a person may change, or None."""
        if not item.editable:
            return None
        try:
            value = json.loads(item.arguments).get(item.editable)
        except (ValueError, AttributeError):
            return None
        return value if isinstance(value, str) else None

    def _edit(self, item: ApprovalItem) -> str:
        value = self._editable(item)
        if value is None:
            return "Nothing here can be edited."
        self.entry = Entry("edit", f"{item.editable}: ", self._edited.get(self._at, value), editor=True)
        return ""

    def entered(self, text: str) -> str:
        """The entered text; returns text to print for good, if any."""
        if self.entry is not None and self.entry.purpose == "feedback" and commands.is_command(text):
            return ANSWER_FIRST
        entry, self.entry = self.entry, None
        if entry is None:
            return ""
        if entry.purpose == "feedback":
            if text.strip():
                self._decide(False, feedback=text)
        elif entry.purpose == "rule":
            self._rule = text.strip() or self._rule
        elif text != entry.initial and text.strip():
            self._edited[self._at] = text
            return "Edited, y runs it:\n" + "\n".join("  " + line for line in visible(text).split("\n"))
        return ""

    def back(self) -> bool:
        """Esc: leave the inner question; False when there was none."""
        inner = self.entry is not None or self._rule is not None
        if self.entry is not None:
            self.entry = None
        else:
            self._rule = None
        return inner

    def _decide(
        self, allow: bool, *, feedback: str = "", grant: str = "", scope: GrantScope = "session", move: bool = True
    ) -> None:
        item = self._items[self._at]
        self._decisions[self._at] = Decision(
            item.call_id, allow, feedback, self._arguments(item) if allow else None, grant, scope
        )
        if move:
            left = [at for at in range(len(self._items)) if at not in self._decisions]
            self._at = next((at for at in left if at > self._at), left[0] if left else self._at)
            self._finish()

    def _arguments(self, item: ApprovalItem) -> str | None:
        """The call's arguments with the edited text in its place; None when nothing was edited."""
        if self._at not in self._edited:
            return None
        arguments = json.loads(item.arguments)
        return json.dumps(arguments | {item.editable: self._edited[self._at]}, ensure_ascii=False)

    def _finish(self) -> None:
        if len(self._decisions) == len(self._items):
            self.answer = ApprovalAnswer(
                self.request_id, tuple(value for _, value in sorted(self._decisions.items()))
            )


class QuestionDialog:
    """A question of the model: one of its options, or any text."""

    def __init__(self, request: QuestionAsked, now: float) -> None:
        self.request_id = request.request_id
        self.answer: Operation | None = None
        self.entry: Entry | None = None
        self._request = request
        self._guard = _Guard(now)

    def appear(self, now: float) -> None:
        """The dialog is shown from now on, which is when its guard begins."""
        self._guard = _Guard(now)

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """The options, each in a few rows of `width` columns; the question itself stands in full above."""
        each = max(1, min(4, (rows - 2) // max(1, len(self._request.options))))
        out: list[str] = []
        for at, option in enumerate(self._request.options, 1):
            first, *rest = lines.boxed(option, width - 5, each)
            out += [f"  {at}  {first}", *(f"     {row}" for row in rest)]
        if self.entry is None:
            some = "a number, or " if self._request.options else ""
            first, *rest = lines.boxed(f"{some}type your answer; Enter sends it", width - 2, 2)
            out.append(f"{theme.paint('warning', '?')} {theme.paint('muted', first)}")
            out += [theme.paint("muted", f"  {row}") for row in rest]
        return out

    def press(self, key: str, now: float) -> str:
        """A key or a paste: a number chooses at once where that is unambiguous, all else is text."""
        if self._guard.holds(now) or key in ("", "enter", "up", "down"):
            return ""
        options = self._request.options
        if len(key) == 1 and key in "123456789" and int(key) <= len(options) < 10:
            self._say(options[int(key) - 1])
        else:
            self.entry = Entry("answer", "answer: ", key)
        return ""

    def entered(self, text: str) -> str:
        """The answer; a bare number still means the option."""
        if commands.is_command(text):
            return ANSWER_FIRST
        self.entry = None
        options = self._request.options
        if text.strip().isdecimal() and 1 <= int(text) <= len(options):
            text = options[int(text) - 1]
        if text.strip():
            self._say(text)
        return ""

    def back(self) -> bool:
        """Esc: away with the text; False when there was none."""
        inner, self.entry = self.entry is not None, None
        return inner

    def _say(self, text: str) -> None:
        self.answer = QuestionAnswer(self.request_id, text)
