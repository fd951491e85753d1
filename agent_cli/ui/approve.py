"""The question whether calls may run, as a key-driven dialog.

Pure state: keys and lines of text go in, lines to show and finally one operation come out; the screen is
somebody else's. Three rules protect a person who is typing when a dialog appears: keys are ignored until it
has stood for half a second (and while they keep coming); Enter alone never approves; and a key that decides
counts only when no other follows it at once, for then it was the beginning of a word.
"""

from typing import TYPE_CHECKING

from ..protocol.events import ApprovalItem, ApprovalRequested
from ..protocol.operations import ApprovalAnswer, Decision, GrantScope, Operation
from ..protocol.sanitize import visible
from . import commands, lines
from .dialog import ANSWER_FIRST, Entry, Guard
from .theme import Theme

if TYPE_CHECKING:
    from .hunks import HunkChoice

HOLD_S = 0.25
"""How long a key that decides waits for another one: who types ten keys a second has typed that by then."""

REACH: dict[str, str] = {
    "network": "It would run in the sandbox, with the network.",
    "outside": "It would run outside the sandbox, with all your rights.",
}
YES, NO = frozenset({"y", "yes", "ok", "okay"}), frozenset({"n", "no"})
"""Words that decide a call when they are all there is in its answer."""
_DECIDING = ("y", "n", "A", "N")
_SCOPES: dict[str, GrantScope] = {"s": "session", "p": "project", "u": "user"}


def _reason(item: ApprovalItem, width: int) -> list[str]:
    """Why it asks and the rule that asks, each to be seen however long the other is."""
    whole = lines.boxed(f"{item.reason} [{item.rule}]", width, 5)
    if len(whole) < 5:
        return whole
    return lines.boxed(item.reason, width, 3) + lines.boxed(f"[{item.rule}]", width, 2)


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
        self._hunks: HunkChoice | None = None
        self._held: tuple[str, float] | None = None
        """A key that decides, and when it was pressed."""
        self._shows_risk = False
        self._guard = Guard(now)
        if not request.items:
            self.answer = ApprovalAnswer(self.request_id)

    @property
    def is_over(self) -> bool:
        """Whether all calls are decided."""
        return self.answer is not None

    def appear(self, now: float) -> None:
        """The dialog is shown from now on, which is when its guard begins."""
        self._guard = Guard(now)

    def is_new(self, now: float) -> bool:
        """Whether it has not stood long enough for keys to be meant for it."""
        return self._guard.stands(now)

    def tick(self, now: float) -> None:
        """Time has passed: a key that decides and was the only one does so now."""
        if self._held and now - self._held[1] >= HOLD_S:
            (key, _), self._held = self._held, None
            self._settle(key)

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """The question, the reason, the rule that asks, and the keys, all within `width` columns; or the rule
        about to be saved. Of a batch as many calls are listed as `rows` leave room for."""
        item = self._items[self._at]
        head, *rest = lines.boxed(self._question(item), width - 2, 2)
        out = [f"{theme.paint('warning', '?')} {theme.paint('strong', head)}"]
        out += [theme.paint("strong", f"  {row}") for row in rest]
        if self._rule is None:
            out += [f"  {row}" for row in _reason(item, width - 2)]
            mark = theme.paint("warning", "!")
            out += [f"  {mark} {row}" for row in self._warnings(item, width - 4)]
        if self._hunks is not None:
            return out[:1] + [f"  {row}" for row in self._hunks.draw(theme, width - 2, rows - 1)]
        out += [f"  {row}" for row in self._choice(item, width - 2)]
        if len(self._items) > 1:
            out = [self._row(at, theme, width) for at in self._window(rows - len(out))] + out
        return out

    def _warnings(self, item: ApprovalItem, width: int) -> list[str]:
        """How far it reaches and, once asked for, what it could do at worst."""
        found = lines.boxed(REACH[item.reach], width, 1) if item.reach in REACH else []
        return found + (lines.boxed(f"Risk: {item.risk}", width, 3) if self._shows_risk else [])

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
        keys += ["h by hunk"] if self._choosable(item) else []
        keys += ["? risk"] if item.risk and not self._shows_risk else []
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
        if self._held is not None:
            if key == "enter":
                return ""
            (held, _), self._held = self._held, None
            if key not in ("up", "down"):
                self._rule = None
                self.entry = Entry("feedback", "do instead: ", held + key)
                return ""
        if self._hunks is not None:
            self._press_hunk(key)
            return ""
        if self._holds_for_a_moment(key):
            self._held = (key, now)
            return ""
        return self._press_other(key)

    def _holds_for_a_moment(self, key: str) -> bool:
        """Whether a key decides something, or leads to where the next one does."""
        if self._rule is not None:
            return key in _SCOPES
        item = self._items[self._at]
        return key in _DECIDING or (key == "a" and bool(item.grant)) or (key == "h" and self._choosable(item))

    def _settle(self, key: str) -> None:
        """What a key that was held for a moment does."""
        item = self._items[self._at]
        if self._rule is not None:
            rule, self._rule = self._rule, None
            self._decide(True, grant=rule, scope=_SCOPES[key])
        elif key == "a":
            self._rule = item.grant
        elif key == "h":
            from .hunks import HunkChoice

            self._hunks = HunkChoice(item.preview)
        elif key in ("y", "n"):
            self._decide(key == "y")
        else:
            self._decide_all(key == "A")

    def _decide_all(self, allow: bool) -> None:
        for at in range(len(self._items)):
            self._at = at
            if at not in self._decisions:
                self._decide(allow, move=False)
        self._finish()

    def _press_other(self, key: str) -> str:
        item = self._items[self._at]
        if self._rule is not None:
            if key == "e":
                self.entry = Entry("rule", "rule: ", self._rule)
            return ""
        match key:
            case "a":
                return "This may not be allowed for good; y allows it once."
            case "e":
                return self._edit(item)
            case "?" if item.risk:
                self._shows_risk = True
            case "up" | "down":
                self._at = (self._at + (1 if key == "down" else -1)) % len(self._items)
            case "enter":
                pass
            case _:
                self.entry = Entry("feedback", "do instead: ", key)
        return ""

    def _choosable(self, item: ApprovalItem) -> bool:
        return item.hunks > 1 and self._at not in self._edited

    def _press_hunk(self, key: str) -> None:
        assert self._hunks is not None
        self._hunks.press(key)
        if (kept := self._hunks.kept) is not None:
            self._hunks = None
            whole = len(kept) == self._items[self._at].hunks
            self._decide(bool(kept), hunks=None if whole or not kept else kept)

    def _editable(self, item: ApprovalItem) -> str | None:
        """The text a person may change, or None."""
        if not item.editable:
            return None
        try:
            import json

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
            if commands.is_command(text):
                return ANSWER_FIRST
            word = text.strip().lower()
            if word:
                self._decide(word in YES, feedback="" if word in YES | NO else text)
        elif entry.purpose == "rule":
            self._rule = text.strip() or self._rule
        elif text != entry.initial and text.strip():
            self._edited[self._at] = text
            return "Edited, y runs it:\n" + "\n".join("  " + line for line in visible(text).split("\n"))
        return ""

    def back(self) -> bool:
        """Esc: leave the inner question; False when there was none."""
        inner = any(each is not None for each in (self.entry, self._rule, self._hunks, self._held))
        self._held = self._hunks = None
        if self.entry is not None:
            self.entry = None
        else:
            self._rule = None
        return inner

    def _decide(
        self,
        allow: bool,
        *,
        feedback: str = "",
        grant: str = "",
        scope: GrantScope = "session",
        hunks: tuple[int, ...] | None = None,
        move: bool = True,
    ) -> None:
        item = self._items[self._at]
        self._decisions[self._at] = Decision(
            item.call_id, allow, feedback, self._arguments(item) if allow else None, grant, scope, hunks
        )
        if move:
            left = [at for at in range(len(self._items)) if at not in self._decisions]
            self._at = next((at for at in left if at > self._at), left[0] if left else self._at)
            self._shows_risk = False
            self._finish()

    def _arguments(self, item: ApprovalItem) -> str | None:
        """The call's arguments with the edited text in its place; None when nothing was edited."""
        if self._at not in self._edited:
            return None
        import json

        arguments = json.loads(item.arguments)
        return json.dumps(arguments | {item.editable: self._edited[self._at]}, ensure_ascii=False)

    def _finish(self) -> None:
        if len(self._decisions) == len(self._items):
            self.answer = ApprovalAnswer(
                self.request_id, tuple(value for _, value in sorted(self._decisions.items()))
            )
