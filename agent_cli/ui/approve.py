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
from . import lines
from .theme import Theme

GUARD_S = 0.5
"""Keys this soon after a dialog has appeared are meant for something else."""
_QUIET_S = 0.3

_SCOPES: dict[str, GrantScope] = {"s": "session", "p": "project", "u": "user"}


class Entry(msgspec.Struct, frozen=True):
    """A line of text the dialog wants: what to ask, and what stands there at first."""

    purpose: str
    label: str
    initial: str = ""
    editor: bool = False
    """Whether $EDITOR, where there is one, is the better place."""


class Dialog(Protocol):
    """What the screen needs of any dialog."""

    request_id: str
    entry: Entry | None
    """Set while text is being entered; keys come one by one otherwise."""
    answer: Operation | None
    """Set when all is decided."""

    def appear(self, now: float) -> None: ...
    def draw(self, theme: Theme) -> list[str]: ...
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

    def draw(self, theme: Theme) -> list[str]:
        """The question, the reason, the rule that asks, and the keys."""
        item = self._items[self._at]
        many = len(self._items) > 1
        out = [self._row(at, theme) for at in self._window()] if many else []
        out.append(f"{theme.paint('warning', '?')} {theme.paint('strong', self._question(item))}")
        out.append(
            theme.paint("muted", f"  {lines.one_line(item.reason, 300)} [{lines.one_line(item.rule, 120)}]")
        )
        if self._rule is not None:
            out.append(f"  Always allow {theme.paint('strong', lines.one_line(self._rule))}")
            out.append("  s this session · p this project · u everywhere · e edit the rule · Esc back")
        elif self.entry is None:
            keys = ["y once"]
            keys += ["a always"] if item.grant else []
            keys += ["e edit"] if self._editable(item) is not None else []
            keys += ["n no", "or type what to do instead"]
            keys += ["A/N all"] if many else []
            out.append("  " + " · ".join(keys))
        return out

    def _question(self, item: ApprovalItem) -> str:
        edited = " (edited)" if self._at in self._edited else ""
        return f"Allow {lines.one_line(item.tool, 40)}{edited}? {lines.one_line(item.title, 120)}"

    def _window(self) -> range:
        first = max(0, min(self._at - 3, len(self._items) - 7))
        return range(first, min(len(self._items), first + 7))

    def _row(self, at: int, theme: Theme) -> str:
        decision = self._decisions.get(at)
        mark = " " if decision is None else ("✓" if decision.allow else "✗")
        row = f"{'❯' if at == self._at else ' '} {mark} {at + 1}/{len(self._items)} "
        return theme.paint("strong" if at == self._at else "muted", row) + lines.one_line(self._items[at].title)

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

    def draw(self, theme: Theme) -> list[str]:
        """The question and its options."""
        out = [
            f"{theme.paint('warning', '?')} {theme.paint('strong', lines.one_line(self._request.question, 500))}"
        ]
        out += [f"  {at}  {lines.one_line(option, 300)}" for at, option in enumerate(self._request.options, 1)]
        if self.entry is None:
            some = "a number, or " if self._request.options else ""
            out.append(theme.paint("muted", f"  {some}type your answer; Enter sends it"))
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
