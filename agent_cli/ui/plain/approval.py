"""The question whether calls may run, as lines of text: question out, lines in, one operation out.

Allows the same decisions as the dialog of the full screen. A number keeps its meaning regardless of the other
choices, so that users can learn it. The words of the full-screen dialog are understood too, and any other text
tells the model what to do instead.
"""

from collections.abc import Sequence

from agent_cli.protocol.events import ApprovalItem, ApprovalRequested
from agent_cli.protocol.sanitize import visible

from ..dialogs import answers
from ..dialogs.answers import Choice, Name
from ..dialogs.approval_decisions import JUDGED_ANEW, REACH, SCOPES, ApprovalDecisions, not_offered, split_hunks
from ..render.approval_preview import commands_in_question, question, reason
from ..text import lines

_WIDTH = 98
"""Width of a question and the command in it, in columns."""


class ApprovalLines:
    """Collects decisions on the calls of a request, one after another."""

    def __init__(self, request: ApprovalRequested, *, may_change_mode: bool = True) -> None:
        self.calls = ApprovalDecisions(request, may_change_mode=may_change_mode)
        self._asks = "call"
        """The meaning of the next line: `call`, `scope`, `rule`, `edit` or `hunks`."""
        self._rule = ""

    @property
    def _item(self) -> ApprovalItem:
        return self.calls.item

    def facts(self) -> list[str]:
        """Return the facts about the current call, one line each."""
        item, count = self._item, len(self.calls.items)
        if self.calls.is_edited:
            return [JUDGED_ANEW]
        which = f"Call {self.calls.at + 1} of {count}: " if count > 1 else ""
        holds = commands_in_question(self.calls.items)
        asked, block = question(item, _WIDTH, holds_command=holds, agent=self.calls.agent_name)
        task = lines.one_line(self.calls.agent_task, 300)
        return [
            f"{which}{asked}",
            *([f"Its task: {task}"] if task else []),
            *(f"  {row}" for row in block),
            f"Why: {lines.one_line(reason(item), 300)} [{lines.one_line(item.rule, 120)}]",
            *([REACH[item.reach]] if item.reach in REACH else []),
            *([f"At worst: {lines.one_line(item.risk, 300)}"] if item.risk else []),
        ]

    def prompt(self) -> str:
        """Return the prompt for the next line; ends in a colon."""
        match self._asks:
            case "scope":
                rule = lines.one_line(self._rule, 300)
                return f"Always allow  {rule} ?\n{self._numbered(answers.SCOPE)}\nAnswer: "
            case "rule":
                return "New rule (empty: keep the one above): "
            case "edit":
                return f"New {self._item.editable} (empty: keep it): "
            case "hunks":
                return "Hunks to accept (numbers, all, none or back): "
            case _:
                return f"{self._numbered(self._offered())}\nAnswer: "

    def _numbered(self, choices: Sequence[Choice]) -> str:
        """Return the main answers one per line, and the others in one line."""
        shown = [(choice, f"[{choice.number}] {self.calls.label(choice)}") for choice in choices]
        main = [text for choice, text in shown if choice.name in (*answers.MAIN, *SCOPES)]
        others = [text for choice, text in shown if choice.name not in (*answers.MAIN, *SCOPES)]
        return "\n".join([*main, *([" ".join(others)] if others else [])])

    def _offered(self) -> tuple[Choice, ...]:
        """Return the choices for the current call, without `risk`, which has been shown."""
        return tuple(choice for choice in self.calls.offered() if choice.name != "risk")

    def take(self, line: str) -> str:
        """Handle a line of input; return the text to print in reply, if any."""
        asks, self._asks = self._asks, "call"
        match asks:
            case "scope":
                return self._choose_scope(line)
            case "rule":
                self._rule, self._asks = line.strip() or self._rule, "scope"
                return ""
            case "edit":
                return self._apply_edit(line)
            case "hunks":
                return self._choose_hunks(line.strip().lower())
            case _:
                return self._answer_call(line)

    def _answer_call(self, line: str) -> str:
        found = answers.meaning(line, self._offered(), answers.CALL)
        match found.kind:
            case "choice":
                assert found.choice is not None
                return self._take(found.choice.name)
            case "not offered":
                return not_offered(line, "Not offered here: type one of the numbers, or words.")
            case "words":
                self.calls.decide(False, feedback=line)
        return ""

    def _take(self, name: Name) -> str:
        """Apply the choice for the current call; return the text to print, if any."""
        match name:
            case "yes" | "no":
                self.calls.decide(name == "yes")
            case "always":
                self._rule, self._asks = self._item.grant, "scope"
            case "edit":
                self._asks = "edit"
                return visible(self.calls.editable or "")
            case "by hunk":
                self._asks = "hunks"
                found = enumerate(split_hunks(self._item.preview), 1)
                return "\n".join(
                    f"Hunk {at} of {self._item.hunks}\n{visible(text).rstrip()}" for at, text in found
                )
            case "accept edits":
                self.calls.accept_edits()
            case _:
                self.calls.decide_all(name == "yes to all")
        return ""

    def _choose_scope(self, line: str) -> str:
        found = answers.meaning(line, answers.SCOPE, (*answers.SCOPE, *answers.CALL))
        name = found.choice.name if found.choice else ""
        if name == "session" or name == "project" or name == "user":
            self.calls.decide(True, grant=self._rule, scope=SCOPES[name])
        elif name == "rule":
            self._asks = "rule"
        elif name != "back" and found.kind != "nothing":
            self._asks = "scope"
            return "Nothing saved yet: type a number from 1 to 5. [5] goes back; there you can refuse with words."
        return ""

    def _apply_edit(self, line: str) -> str:
        if not line.strip():
            return ""
        self.calls.edit(line)
        return f"Edited, [1] runs it:\n{visible(line)}"

    def _choose_hunks(self, word: str) -> str:
        if word in ("back", ""):
            return ""
        count = self._item.hunks
        numbers = word.replace(",", " ").split()
        if word in ("all", "none"):
            self.calls.decide_hunks(tuple(range(count)) if word == "all" else ())
        elif all(each.isdecimal() and 1 <= int(each) <= count for each in numbers):
            self.calls.decide_hunks(tuple(sorted({int(each) - 1 for each in numbers})))
        else:
            self._asks = "hunks"
            return f"Type numbers from 1 to {count}."
        return ""
