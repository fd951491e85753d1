"""The question whether calls may run, as lines of text: what to ask goes out, lines come in, one operation comes
out.

The same decisions as in the dialog of the full screen. A number means the same whatever else can be chosen, so
that fingers may learn it; the words of the other screen are understood too, and anything else is what to do
instead.
"""

from agent_cli.protocol.events import ApprovalItem, ApprovalRequested
from agent_cli.protocol.sanitize import visible

from ..dialogs import answers
from ..dialogs.answers import Choice, Name
from ..dialogs.approval_decisions import JUDGED_ANEW, REACH, SCOPES, ApprovalDecisions, not_offered, split_hunks
from ..text import lines


class ApprovalLines:
    """Decides the calls of one request, one after another."""

    def __init__(self, request: ApprovalRequested) -> None:
        self.calls = ApprovalDecisions(request)
        self._asks = "call"
        """What the next line is for: `call`, `scope`, `rule`, `edit` or `hunks`."""
        self._rule = ""

    @property
    def _item(self) -> ApprovalItem:
        return self.calls.item

    def facts(self) -> list[str]:
        """Return what there is to know of the call in turn, a line each."""
        item, count = self._item, len(self.calls.items)
        if self.calls.is_edited:
            return [JUDGED_ANEW]
        which = f", call {self.calls.at + 1} of {count}" if count > 1 else ""
        title = lines.call_title(item.tool, item.title, 300)
        return [
            f"Allow {lines.one_line(item.tool, 40)}{which}? {title}".rstrip(),
            f"Why: {lines.one_line(item.reason, 300)} [{lines.one_line(item.rule, 120)}]",
            *([REACH[item.reach]] if item.reach in REACH else []),
            *([f"Risk: {lines.one_line(item.risk, 300)}"] if item.risk else []),
        ]

    def prompt(self) -> str:
        """Return what the next line may be; ends in a colon."""
        match self._asks:
            case "scope":
                scopes = " ".join(f"[{choice.number}] {choice.label}" for choice in answers.SCOPE)
                return f"Always allow {lines.one_line(self._rule, 300)}\n{scopes}: "
            case "rule":
                return "The rule, or nothing for the one above: "
            case "edit":
                return f"Another {self._item.editable}, or nothing to leave it: "
            case "hunks":
                return "Numbers of the hunks to take over, or all, none, back: "
            case _:
                offered = " ".join(f"[{choice.number}] {choice.name}" for choice in self._offered())
                return f"{offered}, or type what to do instead: "

    def _offered(self) -> tuple[Choice, ...]:
        """Return what can be chosen for the call in turn; the risk has been said."""
        return tuple(choice for choice in self.calls.offered() if choice.name != "risk")

    def take(self, line: str) -> str:
        """Return a line of the user's; returns what to say to it, if anything."""
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
                return not_offered(line, "That is not offered here; a number or a word, please.")
            case "words":
                self.calls.decide(False, feedback=line)
            case _:
                pass
        return ""

    def _take(self, name: Name) -> str:
        """Return what was chosen for the call in turn."""
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
                return "\n".join(self._hunks())
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
            return "Nothing is saved yet: a number from 1 to 5, please. [5] goes back, and words refuse there."
        return ""

    def _apply_edit(self, line: str) -> str:
        if not line.strip():
            return ""
        self.calls.edit(line)
        return f"Edited, [1] runs it:\n{visible(line)}"

    def _hunks(self) -> list[str]:
        """Return each hunk under its number."""
        found = split_hunks(self._item.preview)
        return [f"Hunk {number} of {len(found)}\n{visible(text).rstrip()}" for number, text in enumerate(found, 1)]

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
            return f"Numbers from 1 to {count}, please."
        return ""
