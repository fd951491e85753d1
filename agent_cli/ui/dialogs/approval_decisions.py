"""The user's decisions on the calls of one approval request, as both REPLs collect them. Pure state."""

import re

import msgspec

from agent_cli.protocol.events import ApprovalItem, ApprovalRequested
from agent_cli.protocol.operations import ApprovalAnswer, ChangeSettings, Decision, GrantScope

from .answers import CALL, Choice, Name

REACH: dict[str, str] = {
    "network": "It runs in the sandbox, with network access.",
    "outside": "It runs outside the sandbox, with all your rights.",
}
JUDGED_ANEW = "The edited call is checked again; you are asked again if that changes the question."
_NO_RULE = 'No "always" for this command – press y to allow it once.'
SCOPES: dict[Name, GrantScope] = {"session": "session", "project": "project", "user": "user"}
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def split_hunks(diff: str) -> list[str]:
    """Split a unified diff into its hunks; one of several files has the names of its file above each."""
    hunks: list[str] = []
    names: list[str] = []
    files = old = new = 0
    is_body = False
    for line in (f"{row}\n" for row in diff.rstrip("\n").split("\n")):
        if header := _HUNK.match(line):
            old, new = (int(count) if count else 1 for count in header.groups())
            files += not is_body
            hunks.append("".join(names) + line)
            is_body = True
        elif is_body and (old or new or line.startswith("\\")):
            old -= line[:1] in "- "
            new -= line[:1] in "+ "
            hunks[-1] += line
        else:
            names = [line] if is_body else [*names, line]
            is_body = False
    return hunks if files > 1 else [hunk[hunk.index("@@ ") :] for hunk in hunks]


def not_offered(text: str, otherwise: str) -> str:
    """Return what to say to an answer that is not on offer."""
    return _NO_RULE if text.strip().lower() in ("a", "2", "always") else otherwise


class ApprovalDecisions:
    """One decision for each call of a request; the next undecided call is in turn."""

    def __init__(self, request: ApprovalRequested, *, may_change_mode: bool = True) -> None:
        self.items = request.items
        self.agent_name, self.agent_task = request.agent_name, request.agent_task
        """The sub-agent that made the calls, and its task; empty for the session's own model."""
        self.may_change_mode = may_change_mode and not request.agent_name
        self.at = 0
        """The call in turn."""
        self._request_id = request.request_id
        self._accepts_edits = False
        self._decisions: dict[int, Decision] = {}
        self._edited: dict[int, str] = {}

    @property
    def item(self) -> ApprovalItem:
        """The call in turn."""
        return self.items[self.at]

    @property
    def count(self) -> int:
        """How many calls are decided."""
        return len(self._decisions)

    @property
    def so_far(self) -> ApprovalAnswer:
        """What is decided; what is not counts as refused."""
        return ApprovalAnswer(self._request_id, tuple(value for _, value in sorted(self._decisions.items())))

    @property
    def answer(self) -> ApprovalAnswer | None:
        """What was decided, once all is."""
        return self.so_far if self.count == len(self.items) else None

    def allowed(self, at: int) -> bool | None:
        """Return whether a call was allowed; None before it is decided."""
        decision = self._decisions.get(at)
        return None if decision is None else decision.allow

    def undecided(self) -> list[int]:
        """Return the places of the calls that are not decided."""
        return [at for at in range(len(self.items)) if at not in self._decisions]

    def offered(self) -> tuple[Choice, ...]:
        """Return the answers that fit the call in turn."""
        item = self.item
        names: set[Name] = {"yes", "no"}
        names |= {"always"} if item.grant and not self.is_edited else set()
        names |= {"edit"} if self.editable is not None else set()
        names |= {"by hunk"} if item.hunks > 1 and not self.is_edited else set()
        names |= {"yes to all", "no to all"} if len(self.undecided()) > 1 else set()
        names |= {"accept edits"} if item.is_edit and self.may_change_mode and not self.is_edited else set()
        names |= {"risk"} if item.risk and not self.is_edited else set()
        return tuple(choice for choice in CALL if choice.name in names)

    def label(self, choice: Choice) -> str:
        """Return what a choice is called for the call in turn."""
        if choice.name == "session" and self.agent_name:
            return f"{choice.label}, with its sub-agents"
        return choice.label.format(rule=self.item.grant, count=len(self.undecided()))

    def effect(self, choice: Choice) -> str:
        """Return what a choice does for the call in turn."""
        return choice.effect.format(count=len(self.undecided()))

    @property
    def mode_change(self) -> tuple[ChangeSettings, ...]:
        """Return what is submitted before the answer: mode `auto-edit`, where all later edits are accepted too."""
        return (ChangeSettings(mode="auto-edit"),) if self._accepts_edits else ()

    @property
    def shown(self) -> ApprovalItem:
        """The call in turn, its command as the user has edited it."""
        if not self.is_edited or self.item.preview_kind != "command":
            return self.item
        return msgspec.structs.replace(self.item, preview=self._edited[self.at], reach="inside")

    @property
    def is_edited(self) -> bool:
        """Whether the user has edited the call in turn."""
        return self.at in self._edited

    @property
    def editable(self) -> str | None:
        """The text of the call in turn that a person may edit, as it is now; None when there is none."""
        if self.is_edited:
            return self._edited[self.at]
        import json

        try:
            value = json.loads(self.item.arguments).get(self.item.editable) if self.item.editable else None
        except (ValueError, AttributeError):
            return None
        return value if isinstance(value, str) else None

    def edit(self, text: str) -> None:
        """Replace the text that may be edited."""
        self._edited[self.at] = text

    def decide_all(self, allow: bool) -> None:
        """Allow or refuse every call that is left."""
        for at in self.undecided():
            self.at = at
            self.decide(allow)

    def accept_edits(self) -> None:
        """Allow the call in turn and every other edit that is left, and all edits from now on."""
        self._accepts_edits = True
        for at in [self.at, *self.undecided()]:
            if self.items[at].is_edit and at in self.undecided():
                self.at = at
                self.decide(True)

    def decide_hunks(self, chosen: tuple[int, ...]) -> None:
        """Allow the call in turn with some of its hunks, by their numbers from 0; refuse it without any."""
        is_whole = len(chosen) == self.item.hunks
        self.decide(bool(chosen), hunks=None if is_whole or not chosen else chosen)

    def decide(
        self,
        allow: bool,
        *,
        feedback: str = "",
        grant: str = "",
        scope: GrantScope = "session",
        hunks: tuple[int, ...] | None = None,
    ) -> None:
        """Allow or refuse the call in turn, and go to the next."""
        item, arguments = self.item, None
        if allow and self.is_edited:
            import json

            edited = json.loads(item.arguments) | {item.editable: self._edited[self.at]}
            arguments = json.dumps(edited, ensure_ascii=False)
        self._decisions[self.at] = Decision(item.call_id, allow, feedback, arguments, grant, scope, hunks)
        if left := self.undecided():
            self.at = next((at for at in left if at > self.at), left[0])
