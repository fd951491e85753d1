"""The question whether calls may run, as a dialog of the full screen.

Pure state: keys and lines of text go in, lines to show and finally one operation come out; the screen is
somebody else's. Whatever can be printed goes into the answer line, and nothing in there decides before Enter,
which decides only what the whole line says. What Enter will do is shown beside the line. Two chords, which begin
no words, decide at once.
"""

from typing import TYPE_CHECKING, Literal

from agent_cli.protocol.events import ApprovalItem, ApprovalRequested
from agent_cli.protocol.operations import GrantScope, Operation
from agent_cli.protocol.sanitize import visible

from ..text import lines
from ..text.theme import Theme
from . import answers
from .answers import Choice, Name, OwnNames
from .approval_decisions import JUDGED_ANEW, REACH, SCOPES, ApprovalDecisions, not_offered
from .base import ANSWER_LABEL, Entry, Guard, answer_first, move_selection

if TYPE_CHECKING:
    from .hunk_picker import HunkChoice

_NOTHING_CHOSEN = "nothing is chosen: a letter or ↑↓, then ⏎"
Stage = Literal["call", "scope", "hunks", "edit", "rule"]
"""What the answer line is for."""
_CHOICES: dict[Stage, tuple[Choice, ...]] = {
    "call": answers.CALL, "scope": answers.SCOPE, "hunks": answers.HUNK, "edit": (), "rule": (),
}  # fmt: skip


def _reason(item: ApprovalItem, width: int) -> list[str]:
    """Return why it asks and the rule that asks, each to be seen however long the other is."""
    whole = lines.wrap_limited(f"{item.reason} [{item.rule}]", width, 5)
    if len(whole) < 5:
        return whole
    return lines.wrap_limited(item.reason, width, 3) + lines.wrap_limited(f"[{item.rule}]", width, 2)


class ApprovalDialog:
    """Decides the calls of one request, one after another."""

    def __init__(self, request: ApprovalRequested, now: float, own: OwnNames = tuple) -> None:
        self.request_id = request.request_id
        self.entry: Entry | None = Entry("answer", ANSWER_LABEL)
        self._calls = ApprovalDecisions(request)
        self.answer: Operation | None = self._calls.answer
        self._own = own
        """Names of the user's own slash commands."""
        self._stage: Stage = "call"
        self._chosen = -1
        """Which of the choices the arrows have reached; -1 for none."""
        self._note = ""
        """Said beside the empty line."""
        self._rule = ""
        """The rule about to be saved, while its scope is asked for."""
        self._hunks: HunkChoice | None = None
        self._shows_risk = False
        self._guard = self._chords = Guard(now)

    @property
    def is_over(self) -> bool:
        """Whether all calls are decided."""
        return self.answer is not None

    def appear(self, now: float) -> None:
        """The dialog is shown from now on, which is when its guard begins."""
        self._guard = self._chords = Guard(now)

    def is_new(self, now: float) -> bool:
        """Return whether it has not stood long enough for keys to be meant for it."""
        return self._guard.is_armed(now)

    @property
    def _item(self) -> ApprovalItem:
        return self._calls.item

    def _offered(self) -> tuple[Choice, ...]:
        """Return what can be chosen now."""
        if self._stage != "call":
            return _CHOICES[self._stage]
        return tuple(each for each in self._calls.offered() if each.name != "risk" or not self._shows_risk)

    # What is shown

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """Return the question, the reason, the rule that asks, and the choices, all within `width` columns; or the
        rule about to be saved. Of a batch as many calls are listed as `rows` leave room for."""
        head, *rest = lines.wrap_limited(self._question(), width - 2, 2)
        out = [f"{theme.paint('warning', '?')} {theme.paint('strong', head)}"]
        out += [theme.paint("strong", f"  {row}") for row in rest]
        choices = [f"  {row}" for row in self._choices(theme, width - 2)]
        if self._stage == "hunks" and self._hunks is not None:
            shown = self._hunks.draw(theme, width - 2, rows - 1 - len(choices))
            return out[:1] + [f"  {row}" for row in shown] + choices
        if self._stage in ("scope", "rule"):
            out += [f"  {row}" for row in lines.wrap_limited(f"Always allow {self._rule}", width - 2, 8)]
        else:
            out += self._facts(theme, width)
        out += choices
        if len(self._calls.items) > 1:
            out = [self._row(at, theme, width) for at in self._window(rows - len(out))] + out
        return out

    def _facts(self, theme: Theme, width: int) -> list[str]:
        """Return why it asks, how far the call reaches and, once asked for, what it could do at worst. None of
        that is known of an edited call."""
        item = self._item
        if self._calls.is_edited:
            return [f"  {row}" for row in lines.wrap_limited(JUDGED_ANEW, width - 2, 3)]
        warnings = lines.wrap_limited(REACH[item.reach], width - 4, 1) if item.reach in REACH else []
        warnings += lines.wrap_limited(f"Risk: {item.risk}", width - 4, 3) if self._shows_risk else []
        mark = theme.paint("warning", "!")
        return [f"  {row}" for row in _reason(item, width - 2)] + [f"  {mark} {row}" for row in warnings]

    def _choices(self, theme: Theme, width: int) -> list[str]:
        """Return what can be chosen, that which the arrows have reached marked."""
        shown = [f"{choice.key} {choice.label}" for choice in self._offered()]
        if not shown:
            return []
        marked = ""
        if self._chosen >= 0:
            marked = shown[self._chosen] = f"❯ {shown[self._chosen]}"
        shown += ["or type what to do instead"] if self._stage == "call" else []
        rows = lines.join_rows(shown, width)
        return [row.replace(marked, theme.paint("strong", marked)) if marked else row for row in rows]

    def _question(self) -> str:
        """Return what is asked; a command stands in full above, and a call of a batch in its row."""
        item = self._item
        edited = " (edited)" if self._calls.is_edited else ""
        alone = len(self._calls.items) == 1 and item.preview_kind != "command"
        title = lines.call_title(item.tool, item.title, 200) if alone else ""
        return f"Allow {lines.one_line(item.tool, 40)}{edited}? {title}".rstrip()

    def _window(self, rows: int) -> range:
        shown = max(1, min(7, rows, len(self._calls.items)))
        first = max(0, min(self._calls.at - shown // 2, len(self._calls.items) - shown))
        return range(first, first + shown)

    def _row(self, at: int, theme: Theme, width: int) -> str:
        item = self._calls.items[at]
        mark = {None: " ", True: "✓", False: "✗"}[self._calls.allowed(at)]
        row = f"{'❯' if at == self._calls.at else ' '} {mark} {at + 1}/{len(self._calls.items)} "
        call = f"{item.tool} {item.title}" if item.title != item.tool else item.tool
        return theme.paint("strong" if at == self._calls.at else "muted", row) + lines.one_line(
            call, width - len(row)
        )

    def hint(self, text: str) -> str:
        """Return what Enter would do with this text in the line."""
        if self._stage == "edit":
            return "⏎ keeps the edit; nothing runs yet"
        if self._stage == "rule":
            return "⏎ asks where to save it"
        found = answers.meaning(text, self._offered(), (*_CHOICES[self._stage], *answers.CALL), self._own)
        choice = found.choice
        if found.kind == "nothing" and self._chosen >= 0:
            choice = self._offered()[self._chosen]
        if choice is not None:
            return f"⏎ {choice.effect.format(count=len(self._calls.undecided()))}"
        match found.kind:
            case "nothing":
                return self._note
            case "command" if text.strip().lower().startswith("/queue "):
                return "⏎ queues it for after this turn"
            case "command":
                return "⏎ does nothing: commands wait for your answer"
            case "not offered":
                return "⏎ does nothing: not offered here"
            case _ if self._stage == "call":
                return "⏎ refuses; the model gets your words · Tab queues it"
            case _:
                return "⏎ goes back, with your words"

    # What is pressed and entered

    def press(self, key: str, now: float) -> str:
        """Return an arrow in the empty line, or a chord; returns text to print for good, if any."""
        offered = self._offered()
        match key:
            case "up" | "down" if offered:
                self._chosen = move_selection(self._chosen, key, len(offered))
            case "left" | "right" if self._stage == "call":
                self._calls.at = (self._calls.at + (1 if key == "right" else -1)) % len(self._calls.items)
                self._shows_risk = False
                self._go("call")
            case "yes" | "no" if self._stage == "call" and not self._chords.ignores_key(now):
                self._decide(key == "yes")
                self._chords = Guard(now)
            case _:
                pass
        return ""

    def entered(self, text: str) -> str:
        """Return the line with Enter behind it; returns text to print for good, if any."""
        match self._stage:
            case "edit":
                return self._keep_edit(text)
            case "rule":
                self._rule = text.strip() or self._rule
                self._go("scope")
                return ""
            case _:
                return self._answered(text)

    def _answered(self, text: str) -> str:
        found = answers.meaning(text, self._offered(), (*_CHOICES[self._stage], *answers.CALL), self._own)
        match found.kind:
            case "nothing" if self._chosen >= 0:
                return self._take(self._offered()[self._chosen].name)
            case "nothing":
                self._note = _NOTHING_CHOSEN
            case "command":
                return answer_first("Esc")
            case "not offered":
                return not_offered(text, "That is not offered here.")
            case "choice":
                assert found.choice is not None
                return self._take(found.choice.name)
            case _ if self._stage == "call":
                self._decide(False, feedback=text)
            case _:
                self._go("call", text)
        return ""

    def _take(self, name: Name) -> str:
        """Return what was chosen."""
        match name:
            case "yes" | "no":
                self._decide(name == "yes")
            case "yes to all" | "no to all":
                self._calls.decide_all(name == "yes to all")
                self._decided()
            case "always":
                self._rule = self._item.grant
                self._go("scope")
            case "edit":
                self._stage = "edit"
                self.entry = Entry("edit", f"{self._item.editable}: ", self._calls.editable or "", editor=True)
            case "by hunk":
                from .hunk_picker import HunkChoice

                self._hunks = HunkChoice(self._item.preview)
                self._go("hunks")
            case "risk":
                self._shows_risk = True
                self._go("call")
            case "session" | "project" | "user":
                self._decide(True, grant=self._rule, scope=SCOPES[name])
            case "rule":
                self._stage, self.entry = "rule", Entry("rule", "rule: ", self._rule)
            case "back":
                self._go("call")
            case "take" | "leave" | "take the rest" | "leave the rest":
                self._take_hunk(name)
        return ""

    def _take_hunk(self, name: Name) -> None:
        assert self._hunks is not None
        self._hunks.take(name)
        if (chosen := self._hunks.chosen) is None:
            self._go("hunks")
            return
        self._calls.decide_hunks(chosen)
        self._decided()

    def _go(self, stage: Stage, text: str = "") -> None:
        """Ask something else, with an empty line or some text in it."""
        self._stage, self._chosen, self._note = stage, -1, ""
        self.entry = Entry("answer", ANSWER_LABEL, text)

    def _keep_edit(self, text: str) -> str:
        initial = self.entry.initial if self.entry else ""
        self._go("call")
        if text == initial or not text.strip():
            return ""
        self._calls.edit(text)
        return "Edited, y runs it:\n" + "\n".join("  " + line for line in visible(text).split("\n"))

    def back(self) -> bool:
        """Esc: leave the inner question; False when there was none."""
        if self._stage == "call":
            return False
        self._go("scope" if self._stage == "rule" else "call")
        return True

    def _decide(self, allow: bool, *, feedback: str = "", grant: str = "", scope: GrantScope = "session") -> None:
        self._calls.decide(allow, feedback=feedback, grant=grant, scope=scope)
        self._decided()

    def _decided(self) -> None:
        self.answer = self._calls.answer
        self._shows_risk = False
        self._go("call")
