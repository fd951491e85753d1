"""The question whether calls may run, as a dialog of the full screen.

Pure state: keys and lines of text go in, lines to show and finally one operation come out; drawing is done
elsewhere. Every printable key goes into the answer line. It decides nothing before Enter, and Enter decides only
by the whole line; the effect of Enter is shown beside the line. Two chords, which begin no words, decide at once.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from agent_cli.protocol.events import ApprovalItem, ApprovalRequested
from agent_cli.protocol.operations import GrantScope
from agent_cli.protocol.sanitize import visible

from ..commands import registry
from ..render.approval_preview import (
    asked_by,
    call_name,
    command_rows,
    commands_in_question,
    is_name_long,
    name_rows,
    question,
    reason,
    where,
)
from ..text import lines
from ..text.theme import Role, Theme
from . import answers
from .answers import Choice, Name
from .approval_decisions import JUDGED_ANEW, REACH, SCOPES, ApprovalDecisions, not_offered
from .base import ANSWER_LABEL, Dialog, Entry, Guard, answer_first, move_selection
from .choice_list import Row, draw_choices

if TYPE_CHECKING:
    from .hunk_picker import HunkChoice

_NOTHING_CHOSEN = "nothing selected: type a number or letter, or ↑↓, then ⏎"
_BLOCK = " " * 4
"""Indent of the rows of a command: deeper than the answers, so that no row can look like an answer."""
Stage = Literal["call", "scope", "hunks", "edit", "rule"]
"""The purpose of the answer line."""
_CHOICES: dict[Stage, tuple[Choice, ...]] = {
    "call": answers.CALL, "scope": answers.SCOPE, "hunks": answers.HUNK, "edit": (), "rule": (),
}  # fmt: skip


def _reason(item: ApprovalItem, width: int) -> list[str]:
    """Return the reason for asking and the rule that asks; each stays visible however long the other is."""
    whole = lines.wrap_limited(f"{reason(item)} [{item.rule}]".lstrip(), width, 5)
    if len(whole) < 5:
        return whole
    return lines.wrap_limited(item.reason, width, 3) + lines.wrap_limited(f"[{item.rule}]", width, 2)


def _warning(text: str, theme: Theme, width: int) -> list[str]:
    first, *rest = lines.wrap_limited(text, width - 4, 3)
    return [f"  {theme.paint('warning', '!')} {first}", *(f"    {row}" for row in rest)]


class ApprovalDialog(Dialog):
    """Collects decisions on the calls of a request, one after another."""

    def __init__(self, request: ApprovalRequested, now: float) -> None:
        super().__init__(request.request_id, request.agent_name, now)
        self._calls = ApprovalDecisions(request)
        self.answer = self._calls.answer
        self._stage: Stage = "call"
        self._chosen = -1
        """Index of the choice selected with the arrows; -1 for none."""
        self._note = ""
        """A message shown beside the empty line."""
        self._rule = ""
        """The rule about to be saved, while the dialog asks for its scope."""
        self._hunks: HunkChoice | None = None
        self._shows_risk = False
        self._is_above = False
        """True if the commands are printed above the question."""
        self._chords = self._guard

    def appear(self, now: float) -> None:
        """Start the guard for keys and chords: the dialog is visible from now on."""
        super().appear(now)
        self._chords = self._guard

    @property
    def may_accept_edits(self) -> bool:
        """True if this edit can be accepted together with all later edits."""
        return any(choice.name == "accept edits" for choice in self._offered())

    @property
    def _item(self) -> ApprovalItem:
        return self._calls.item

    def _offered(self) -> tuple[Choice, ...]:
        """Return the choices on offer now."""
        if self._stage != "call":
            return _CHOICES[self._stage]
        return tuple(each for each in self._calls.offered() if each.name != "risk" or not self._shows_risk)

    # Drawing

    def move_commands(self, theme: Theme, width: int, rows: int) -> Sequence[ApprovalItem]:
        """Return the calls whose commands must be printed above, because the question with them needs
        more than `rows` rows. The question then does not contain them."""
        items, current = self._calls.items, self._calls.at
        if (
            self._stage != "call"
            or not self._holds(items)
            or all(item.preview_kind != "command" for item in items)
        ):
            return ()
        listed = [row for at in range(len(items)) for row in self._rows(at, theme, width)] if items[1:] else []
        heights = []
        for at in range(len(items)):  # each call as it will be asked about
            self._calls.at = at
            parts = (self._head(theme, width), self._facts(theme, width), self._choices(theme, width, 0))
            heights.append(sum(map(len, parts)))
        self._calls.at = current
        self._is_above = len(listed) + max(heights) > rows
        return items if self._is_above else ()

    def _holds(self, items: Sequence[ApprovalItem]) -> bool:
        """Return True if the question contains the commands of these calls."""
        return not self._is_above and commands_in_question(items)

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """Return the question with the call, the reason with the rule that asks, and the choices, all within
        `width` columns; or the rule about to be saved. Lists as many calls of a batch as fit into `rows`."""
        head = self._head(theme, width)
        if self._stage == "hunks" and self._hunks is not None:
            choices = self._choices(theme, width, rows)
            shown = self._hunks.draw(theme, width - 2, rows - len(head) - len(choices))
            return [*head, *(f"  {row}" for row in shown), *choices]
        facts = self._facts(theme, width) if self._stage not in ("scope", "rule") else []
        choices = self._choices(theme, width, rows - len(head) - len(facts))
        out = [*head, *facts, *choices]
        if len(self._calls.items) > 1 and self._stage == "call":
            out = [*self._batch(theme, width, rows - len(out)), *out]
        return out

    def _head(self, theme: Theme, width: int) -> list[str]:
        """Return the question. A command that is not printed above is included unchanged."""
        question, block = self._question(width)
        limit = 2 if self._stage == "call" and is_name_long(self._item) else 10
        fits = lines.cells(question) <= width - 2
        first, *rest = [question] if fits else lines.wrap_limited(question, width - 2, limit)
        rows = [f"{theme.paint('warning', '?')} {theme.paint('strong', first)}"]
        rows += [theme.paint("strong", f"  {row}") for row in rest]
        if self._calls.agent_task:
            rows.append(theme.paint("muted", f"  {lines.one_line(self._calls.agent_task, width - 2)}"))
        return rows + [f"{_BLOCK}{theme.paint('code', row)}" for row in block]

    def _question(self, width: int) -> tuple[str, list[str]]:
        """Return the question in one line, and the rows of a command that does not fit into it."""
        if self._stage in ("scope", "rule"):
            return f"Always allow  {self._rule} ?", []
        item, count, edited = self._calls.shown, len(self._calls.items), self._calls.is_edited
        if count > 1 and not edited:
            place = where(item) if item.preview_kind == "command" else ""
            asked = f"Allow call {self._calls.at + 1} of {count}{' ' * bool(place)}{place}?"
            return asked_by(self.agent_name, asked), []
        holds = self._holds([item] if edited else self._calls.items)
        edit = "(edited)" if edited else ""
        return question(item, width - 2, holds_command=holds, note=edit, agent=self.agent_name)

    def _facts(self, theme: Theme, width: int) -> list[str]:
        """Return the reason for asking, the reach of the call and, on request, its worst effect. All of this is
        unknown for an edited call."""
        item = self._item
        if self._calls.is_edited:
            return [f"  {row}" for row in lines.wrap_limited(JUDGED_ANEW, width - 2, 3)]
        rows = [f"  {row}" for row in _reason(item, width - 2)]
        if item.reach in REACH:
            rows += _warning(REACH[item.reach], theme, width)
        return rows + (_warning(f"At worst: {item.risk}", theme, width) if self._shows_risk else [])

    def _choices(self, theme: Theme, width: int, rows: int) -> list[str]:
        """Return the rows of the choices, with the selected one marked."""
        main: list[Row] = []
        further: list[Row] = []
        for choice in self._offered():
            label = self._calls.label(choice)
            has_own_row = choice.name in answers.MAIN or choice.name in SCOPES
            keys = tuple(filter(None, (choice.number, choice.key))) if has_own_row else (choice.key,)
            (main if has_own_row else further).append(Row(keys, label, choice.name))
        return draw_choices(main, further, self._chosen, theme, width, rows)

    def _batch(self, theme: Theme, width: int, rows: int) -> list[str]:
        """Return the calls of a batch with the decisions so far; in full if there is room."""
        listed = [row for at in range(len(self._calls.items)) for row in self._rows(at, theme, width)]
        if len(listed) <= rows:
            return listed
        return [self._rows(at, theme, width)[0] for at in self._window(rows)]

    def _window(self, rows: int) -> range:
        shown = max(1, min(7, rows, len(self._calls.items)))
        first = max(0, min(self._calls.at - shown // 2, len(self._calls.items) - shown))
        return range(first, first + shown)

    def _rows(self, at: int, theme: Theme, width: int) -> list[str]:
        """Return the rows of one call of a batch: a command or a name unchanged, in as many rows as it needs, or
        in one row if it is printed above."""
        item = self._calls.items[at]
        mark = {None: " ", True: "✓", False: "✗"}[self._calls.allowed(at)]
        head = f"{'❯' if at == self._calls.at else ' '} {mark} {at + 1}/{len(self._calls.items)} "
        room = width - len(head)
        if item.preview_kind == "command":
            first, *rest = command_rows(item, room) if self._holds(self._calls.items) else [call_name(item, room)]
        else:
            first, *rest = name_rows(item, room)
        role: Role = "strong" if at == self._calls.at else "muted"
        return [theme.paint(role, head) + first, *(" " * len(head) + row for row in rest)]

    def hint(self, text: str) -> str:
        """Return the effect of Enter with this text in the line."""
        if self._stage == "edit":
            return "⏎ keeps the edit; nothing runs yet"
        if self._stage == "rule":
            return "⏎ asks where to save it"
        found = answers.meaning(text, self._offered(), (*_CHOICES[self._stage], *answers.CALL))
        choice = found.choice
        if found.kind == "nothing" and self._chosen >= 0:
            choice = self._offered()[self._chosen]
        if choice is not None:
            return f"⏎ {self._calls.effect(choice)}"
        match found.kind:
            case "nothing":
                return self._note
            case "command" if text.strip().lower().startswith("/queue "):
                return "⏎ queues it for after this turn"
            case "command" if registry.is_note(text):
                return "⏎ saves the note; the question stays"
            case "command" if answers.runs_now(text):
                return "⏎ runs it; the question stays"
            case "command":
                return "⏎ does nothing: answer first"
            case "not offered":
                return "⏎ does nothing: not offered here"
            case _ if self._stage == "call":
                return "⏎ refuses; the model gets your words · Tab queues it"
            case _:
                return "⏎ goes back, with your words"

    # Keys and lines

    def press(self, key: str, now: float) -> str:
        """Handle an arrow in the empty line, or a chord; return text to print permanently, if any."""
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
            case "accept edits" if self.may_accept_edits and not self._chords.ignores_key(now):
                self._take("accept edits")
                self._chords = Guard(now)
        return ""

    def entered(self, text: str) -> str:
        """Handle the line on Enter; return text to print permanently, if any."""
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
        found = answers.meaning(text, self._offered(), (*_CHOICES[self._stage], *answers.CALL))
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
        """Apply the choice; return text to print permanently, if any."""
        match name:
            case "yes" | "no":
                self._decide(name == "yes")
            case "yes to all" | "no to all":
                self._calls.decide_all(name == "yes to all")
                self._decided()
            case "accept edits":
                self._calls.accept_edits()
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
        """Go to another stage, with an empty line or with text in it."""
        self._stage, self._chosen, self._note = stage, -1, ""
        self.entry = Entry("answer", ANSWER_LABEL, text)

    def _keep_edit(self, text: str) -> str:
        initial = self.entry.initial if self.entry else ""
        self._go("call")
        if text == initial or not text.strip():
            return ""
        self._calls.edit(text)
        if self._item.preview_kind == "command" and self._holds([self._calls.shown]):
            return ""
        return "Edited, y runs it:\n" + "\n".join("  " + line for line in visible(text).split("\n"))

    def back(self) -> bool:
        """Handle Esc: leave the inner question; return False if there is none."""
        if self._stage == "call":
            return False
        self._go("scope" if self._stage == "rule" else "call")
        return True

    def _decide(self, allow: bool, *, feedback: str = "", grant: str = "", scope: GrantScope = "session") -> None:
        self._calls.decide(allow, feedback=feedback, grant=grant, scope=scope)
        self._decided()

    def _decided(self) -> None:
        self.answer, self.before_answer = self._calls.answer, self._calls.mode_change
        self._shows_risk = False
        self._go("call")
