"""The question whether calls may run, as lines of text: what to ask goes out, lines come in, one operation comes
out.

The same decisions as in the dialog of the full screen. A number means the same whatever else can be chosen, so
that fingers may learn it; the words of the other screen are understood too, and anything else is what to do
instead.
"""

import json
import re

from agent_cli.protocol.events import ApprovalItem, ApprovalRequested
from agent_cli.protocol.operations import ApprovalAnswer, Decision, GrantScope, Operation
from agent_cli.protocol.sanitize import visible

from ..dialogs import answers
from ..dialogs.answers import Choice, Name
from ..dialogs.approval import JUDGED_ANEW, NO_RULE, REACH
from ..text import lines

_SCOPES: dict[Name, GrantScope] = {"session": "session", "project": "project", "user": "user"}
_HUNK = re.compile(r"(?m)^(?=@@ )")


class ApprovalLines:
    """Decides the calls of one request, one after another."""

    def __init__(self, request: ApprovalRequested) -> None:
        self.answer: Operation | None = None
        """Set when all is decided."""
        self._request = request
        self._decisions: dict[int, Decision] = {}
        self._edited: dict[int, str] = {}
        self._asks = "call"
        """What the next line is for: `call`, `scope`, `rule`, `edit` or `hunks`."""
        self._rule = ""
        if not request.items:
            self.answer = ApprovalAnswer(request.request_id)

    @property
    def number(self) -> int:
        """How many calls are decided."""
        return len(self._decisions)

    @property
    def _item(self) -> ApprovalItem:
        return self._request.items[self.number]

    @property
    def so_far(self) -> ApprovalAnswer:
        """What is decided; what is not counts as refused."""
        return ApprovalAnswer(self._request.request_id, tuple(self._decisions.values()))

    def facts(self) -> list[str]:
        """Return what there is to know of the call in turn, a line each."""
        item, count = self._item, len(self._request.items)
        if self.number in self._edited:
            return [JUDGED_ANEW]
        which = f", call {self.number + 1} of {count}" if count > 1 else ""
        title = lines.named(item.tool, item.title, 300)
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
        names: set[Name] = {"yes", "no"}
        names |= {"always"} if self._item.grant and self.number not in self._edited else set()
        names |= {"edit"} if self._editable() is not None else set()
        names |= {"by hunk"} if self._by_hunk() else set()
        names |= {"yes to all", "no to all"} if self._several() else set()
        return tuple(choice for choice in answers.CALL if choice.name in names)

    def _several(self) -> bool:
        return len(self._request.items) - self.number > 1

    def take(self, line: str) -> str:
        """Return a line of the user's; returns what to say to it, if anything."""
        asks, self._asks = self._asks, "call"
        match asks:
            case "scope":
                return self._scoped(line)
            case "rule":
                self._rule, self._asks = line.strip() or self._rule, "scope"
                return ""
            case "edit":
                return self._changed(line)
            case "hunks":
                return self._taken_over(line.strip().lower())
            case _:
                return self._decided(line)

    def _decided(self, line: str) -> str:
        found = answers.meaning(line, self._offered(), answers.CALL)
        match found.kind:
            case "choice":
                assert found.choice is not None
                return self._take(found.choice.name)
            case "not offered" if line.strip().lower() in ("a", "3", "always"):
                return NO_RULE
            case "not offered":
                return "That is not offered here; a number or a word, please."
            case "words":
                self._decide(False, feedback=line)
            case _:
                pass
        return ""

    def _take(self, name: Name) -> str:
        """Return what was chosen for the call in turn."""
        match name:
            case "yes" | "no":
                self._decide(name == "yes")
            case "always":
                self._rule, self._asks = self._item.grant, "scope"
            case "edit":
                self._asks = "edit"
                return visible(self._edited.get(self.number, self._editable() or ""))
            case "by hunk":
                self._asks = "hunks"
                return "\n".join(self._hunks())
            case _:
                while self.answer is None:
                    self._decide(name == "yes to all")
        return ""

    def _scoped(self, line: str) -> str:
        found = answers.meaning(line, answers.SCOPE, (*answers.SCOPE, *answers.CALL))
        name = found.choice.name if found.choice else ""
        if name == "session" or name == "project" or name == "user":
            self._decide(True, grant=self._rule, scope=_SCOPES[name])
        elif name == "rule":
            self._asks = "rule"
        elif name != "back" and found.kind != "nothing":
            self._asks = "scope"
            return "Nothing is saved yet: a number from 1 to 5, please. [5] goes back, and words refuse there."
        return ""

    def _changed(self, line: str) -> str:
        if not line.strip():
            return ""
        self._edited[self.number] = line
        return f"Edited, [1] runs it:\n{visible(line)}"

    def _by_hunk(self) -> bool:
        return self._item.hunks > 1 and self.number not in self._edited

    def _hunks(self) -> list[str]:
        """Return each hunk under its number."""
        found = _HUNK.split(self._item.preview)[1:]
        return [f"Hunk {number} of {len(found)}\n{visible(text).rstrip()}" for number, text in enumerate(found, 1)]

    def _taken_over(self, word: str) -> str:
        if word in ("back", ""):
            return ""
        count = self._item.hunks
        numbers = word.replace(",", " ").split()
        if word in ("all", "none"):
            kept = range(count) if word == "all" else range(0)
            self._keep(tuple(kept))
        elif all(each.isdecimal() and 1 <= int(each) <= count for each in numbers):
            self._keep(tuple(sorted({int(each) - 1 for each in numbers})))
        else:
            self._asks = "hunks"
            return f"Numbers from 1 to {count}, please."
        return ""

    def _keep(self, kept: tuple[int, ...]) -> None:
        whole = len(kept) == self._item.hunks
        self._decide(bool(kept), hunks=None if whole or not kept else kept)

    def _editable(self) -> str | None:
        """Return the text a person may change, or None."""
        item = self._item
        try:
            value = json.loads(item.arguments).get(item.editable) if item.editable else None
        except (ValueError, AttributeError):
            return None
        return value if isinstance(value, str) else None

    def _decide(
        self,
        allow: bool,
        *,
        feedback: str = "",
        grant: str = "",
        scope: GrantScope = "session",
        hunks: tuple[int, ...] | None = None,
    ) -> None:
        item, arguments = self._item, None
        if allow and self.number in self._edited:
            changed = json.loads(item.arguments) | {item.editable: self._edited[self.number]}
            arguments = json.dumps(changed, ensure_ascii=False)
        self._decisions[self.number] = Decision(item.call_id, allow, feedback, arguments, grant, scope, hunks)
        if self.number == len(self._request.items):
            self.answer = self.so_far
