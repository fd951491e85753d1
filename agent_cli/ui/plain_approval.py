"""The question whether calls may run, as lines of text: what to ask goes out, lines come in, one operation comes
out.

The same decisions as in the dialog of the full screen. A number means the same whatever else can be chosen, so
that fingers may learn it; the words of the other screen are understood too, and anything else is what to do
instead.
"""

import json
import re

from ..protocol.events import ApprovalItem, ApprovalRequested
from ..protocol.operations import ApprovalAnswer, Decision, GrantScope, Operation
from ..protocol.sanitize import visible
from . import lines
from .approve import NO, REACH, YES

_WORDS = {
    **dict.fromkeys(YES, "1"), **dict.fromkeys(NO, "2"),
    "a": "3", "always": "3", "e": "4", "edit": "4", "h": "5", "all": "6", "none": "7",
}  # fmt: skip
_SCOPES: dict[str, GrantScope] = {"1": "session", "2": "project", "3": "user"}
_SCOPE_WORDS = {"s": "1", "p": "2", "u": "3", "e": "4", "back": "5", "": "5"}
_HUNK = re.compile(r"(?m)^(?=@@ )")
_NOT_FOR_GOOD = "This may not be allowed for good; [1] allows it once."


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
        """What there is to know of the call in turn, a line each."""
        item, count = self._item, len(self._request.items)
        which = f", call {self.number + 1} of {count}" if count > 1 else ""
        title = lines.named(item.tool, item.title, 300)
        return [
            f"Allow {lines.one_line(item.tool, 40)}{which}? {title}".rstrip(),
            f"Why: {lines.one_line(item.reason, 300)} [{lines.one_line(item.rule, 120)}]",
            *([REACH[item.reach]] if item.reach in REACH else []),
            *([f"Risk: {lines.one_line(item.risk, 300)}"] if item.risk else []),
        ]

    def prompt(self) -> str:
        """What the next line may be; ends in a colon."""
        match self._asks:
            case "scope":
                return (
                    f"Always allow {lines.one_line(self._rule, 300)}\n"
                    "[1] this session [2] this project [3] everywhere [4] another rule [5] back: "
                )
            case "rule":
                return "The rule, or nothing for the one above: "
            case "edit":
                return f"Another {self._item.editable}, or nothing to leave it: "
            case "hunks":
                return "Numbers of the hunks to take over, or all, none, back: "
            case _:
                return f"{' '.join(self._choices())}, or type what to do instead: "

    def _choices(self) -> list[str]:
        found = ["[1] yes", "[2] no"]
        found += ["[3] always"] if self._item.grant else []
        found += ["[4] edit"] if self._editable() is not None else []
        found += ["[5] by hunk"] if self._by_hunk() else []
        found += ["[6] yes to all", "[7] no to all"] if self._several() else []
        return found

    def _several(self) -> bool:
        return len(self._request.items) - self.number > 1

    def take(self, line: str) -> str:
        """A line of the user's; returns what to say to it, if anything."""
        asks, self._asks = self._asks, "call"
        match asks:
            case "scope":
                return self._scoped(line.strip().lower())
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
        word = line.strip().lower()
        match _WORDS.get(word, word):
            case "":
                pass
            case "1":
                self._decide(True)
            case "2":
                self._decide(False)
            case "3":
                if not self._item.grant:
                    return _NOT_FOR_GOOD
                self._rule, self._asks = self._item.grant, "scope"
            case "4" if (text := self._editable()) is not None:
                self._asks = "edit"
                return visible(self._edited.get(self.number, text))
            case "5" if self._by_hunk():
                self._asks = "hunks"
                return "\n".join(self._hunks())
            case "6" | "7" as all_ if self._several():
                while self.answer is None:
                    self._decide(all_ == "6")
            case choice if choice.isdecimal() and len(choice) == 1:
                return f"[{choice}] cannot be chosen here."
            case sign if not any(each.isalnum() for each in sign):  # such as `?`: nobody refuses with that
                return "The facts are above; a number or a word, please."
            case _:
                self._decide(False, feedback=line)
        return ""

    def _scoped(self, word: str) -> str:
        match _SCOPE_WORDS.get(word, word):
            case "1" | "2" | "3" as number:
                self._decide(True, grant=self._rule, scope=_SCOPES[number])
            case "4":
                self._asks = "rule"
            case "5":
                pass
            case _:
                self._asks = "scope"
                return "A number from 1 to 5, please."
        return ""

    def _changed(self, line: str) -> str:
        if not line.strip():
            return ""
        self._edited[self.number] = line
        return f"Edited, [1] runs it:\n{visible(line)}"

    def _by_hunk(self) -> bool:
        return self._item.hunks > 1 and self.number not in self._edited

    def _hunks(self) -> list[str]:
        """Each hunk under its number."""
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
        """The text a person may change, or None."""
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
