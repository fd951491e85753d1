"""The user's decisions on the calls of an approval request, shared by both REPLs. Pure state."""

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
    """Split a unified diff into its hunks. If it covers several files, each hunk begins with the names of its
    file."""
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
    """Return the message for an answer that is not on offer."""
    return _NO_RULE if text.strip().lower() in ("a", "2", "always") else otherwise


class ApprovalDecisions:
    """A decision for each call of a request; after each decision the next undecided call is current."""

    def __init__(self, request: ApprovalRequested, *, may_change_mode: bool = True) -> None:
        self.items = request.items
        self.agent_name, self.agent_task = request.agent_name, request.agent_task
        """Name and task of the sub-agent that made the calls; empty for the main agent."""
        self.may_change_mode = may_change_mode and not request.agent_name
        self.at = 0
        """Index of the current call."""
        self._request_id = request.request_id
        self._accepts_edits = False
        self._decisions: dict[int, Decision] = {}
        self._edited: dict[int, str] = {}

    @property
    def item(self) -> ApprovalItem:
        """The current call."""
        return self.items[self.at]

    @property
    def count(self) -> int:
        """Number of decided calls."""
        return len(self._decisions)

    @property
    def so_far(self) -> ApprovalAnswer:
        """The decisions so far; undecided calls count as refused."""
        return ApprovalAnswer(self._request_id, tuple(value for _, value in sorted(self._decisions.items())))

    @property
    def answer(self) -> ApprovalAnswer | None:
        """The complete answer, once all calls are decided."""
        return self.so_far if self.count == len(self.items) else None

    def allowed(self, at: int) -> bool | None:
        """Return True if a call was allowed, False if it was refused, None if it is undecided."""
        decision = self._decisions.get(at)
        return None if decision is None else decision.allow

    def undecided(self) -> list[int]:
        """Return the indices of the undecided calls."""
        return [at for at in range(len(self.items)) if at not in self._decisions]

    def offered(self) -> tuple[Choice, ...]:
        """Return the answers that fit the current call."""
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
        """Return the label of a choice for the current call."""
        if choice.name == "session" and self.agent_name:
            return f"{choice.label}, with its sub-agents"
        return choice.label.format(rule=self.item.grant, count=len(self.undecided()))

    def effect(self, choice: Choice) -> str:
        """Return the effect of a choice for the current call."""
        return choice.effect.format(count=len(self.undecided()))

    @property
    def mode_change(self) -> tuple[ChangeSettings, ...]:
        """The operation to submit before the answer: mode `auto-edit` if all later edits are accepted too."""
        return (ChangeSettings(mode="auto-edit"),) if self._accepts_edits else ()

    @property
    def shown(self) -> ApprovalItem:
        """The current call, with its command as edited by the user."""
        if not self.is_edited or self.item.preview_kind != "command":
            return self.item
        return msgspec.structs.replace(self.item, preview=self._edited[self.at], reach="inside")

    @property
    def is_edited(self) -> bool:
        """True if the user has edited the current call."""
        return self.at in self._edited

    @property
    def editable(self) -> str | None:
        """Current editable text of the call; None if it has none."""
        if self.is_edited:
            return self._edited[self.at]
        import json

        try:
            value = json.loads(self.item.arguments).get(self.item.editable) if self.item.editable else None
        except (ValueError, AttributeError):
            return None
        return value if isinstance(value, str) else None

    def edit(self, text: str) -> None:
        """Replace the editable text."""
        self._edited[self.at] = text

    def decide_all(self, allow: bool) -> None:
        """Allow or refuse every undecided call."""
        for at in self.undecided():
            self.at = at
            self.decide(allow)

    def accept_edits(self) -> None:
        """Allow the current call, every other undecided edit, and all edits from now on."""
        self._accepts_edits = True
        for at in [self.at, *self.undecided()]:
            if self.items[at].is_edit and at in self.undecided():
                self.at = at
                self.decide(True)

    def decide_hunks(self, chosen: tuple[int, ...]) -> None:
        """Allow the current call with the chosen hunks, numbered from 0; refuse it if there are none."""
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
        """Allow or refuse the current call, and go to the next."""
        item, arguments = self.item, None
        if allow and self.is_edited:
            import json

            edited = json.loads(item.arguments) | {item.editable: self._edited[self.at]}
            arguments = json.dumps(edited, ensure_ascii=False)
        self._decisions[self.at] = Decision(item.call_id, allow, feedback, arguments, grant, scope, hunks)
        if left := self.undecided():
            self.at = next((at for at in left if at > self.at), left[0])
