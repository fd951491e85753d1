"""Operations that a front end can submit to the engine: a closed union, queued as `Submission`."""

import re
from typing import Annotated, Any, Literal, assert_never

import msgspec

from .actions import Mode
from .messages import Image
from .stop_reason import StopReason

GrantScope = Literal["session", "project", "user"]
Mark = Literal["pinned", "dropped", ""]
Rewound = Literal["both", "code", "conversation"]
"""What a rewind reverts."""
Choice = Literal["mine", "old", "merge"]
"""How to resolve a file that was changed since: keep the current version, restore the checkpoint's, or merge both
line by line."""


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class OperationBase(msgspec.Struct, frozen=True, tag_field="type", tag=_snake_case, forbid_unknown_fields=True):
    """Base of all operations. In JSON, each has its name as `type`, such as `user_input`."""


class UserCommand(msgspec.Struct, frozen=True):
    """A shell command run by the user, with its output."""

    command: str
    output: str
    ended: str
    """Outcome, such as `exit 0` or `stopped`."""


class InsertedCommand(msgspec.Struct, frozen=True):
    """A shell command whose output replaces a part of a text."""

    marker: str
    """The part to replace, such as `` !`git status` ``, exactly as in the text."""
    command: str
    at: int
    """Offset of the part in the text, in characters."""


class AttachedText(msgspec.Struct, frozen=True):
    """A text sent along with a prompt, such as the instructions of a skill that the user called."""

    name: str
    """Name of the source, such as a skill."""
    text: str
    insertions: tuple[InsertedCommand, ...] = ()
    """Commands to run like those of the model: rules, approvals, hooks and the sandbox apply."""
    allowed: tuple[str, ...] = ()
    """Permission rules that allow calls without asking until the turn ends; deny rules take precedence."""
    source: str = ""
    """Origin of the text if neither the user nor the project wrote it; the text is then marked as data."""
    kind: Literal["skill", "instructions", "agent", "resource"] = "skill"
    """Instructions of a skill or a command, the result of a sub-agent, or context supplied by a client."""


class UserInput(OperationBase, frozen=True):
    """A prompt. Empty text continues with the existing history and appends no message."""

    text: str
    images: tuple[Image, ...] = ()
    is_data: bool = False
    """True if the text was piped in: a file name in it is no consent to read that file."""
    commands: tuple[UserCommand, ...] = ()
    """Commands that the user ran since the last prompt, for the model to see."""
    insertions: tuple[InsertedCommand, ...] = ()
    """Commands in `text` to run first; their output replaces them."""
    allowed: tuple[str, ...] = ()
    """Permission rules that allow calls without asking until the turn ends; deny rules take precedence."""
    brought: tuple[AttachedText, ...] = ()
    """Texts sent along with the prompt."""
    answer_schema: dict[str, Any] | None = None
    """JSON Schema of the answer, for servers that enforce one; the prompt's text also tells the model."""
    answer_only: bool = False
    """True if the model must answer without tool calls."""
    image_paths: tuple[str, ...] = ()
    """Absolute paths of the files of the first images."""


class Steer(OperationBase, frozen=True):
    """Guidance for the running turn, delivered at its next step. If no turn is running, it becomes a prompt."""

    text: str


class TakeBack(OperationBase, frozen=True):
    """Withdraw queued input: the newest prompt, guidance or command, or the newest with this text. It is returned
    as `InputReturned`."""

    text: str = ""


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The decision on one call that needs approval. Calls without a decision are refused."""

    call_id: str
    allow: bool
    feedback: str = ""
    """The user's words to the model, byte for byte."""
    arguments: str | None = None
    """Replacement arguments (JSON) when the user edited the call before allowing it."""
    grant: str = ""
    """A permission rule to save, or several, as shown to the user and perhaps edited."""
    scope: GrantScope = "session"
    hunks: tuple[int, ...] | None = None
    """Numbers of the diff hunks to apply, from 0, if the item has `hunks`; null for all."""


class ApprovalAnswer(OperationBase, frozen=True):
    """The decisions for one `ApprovalRequested`."""

    request_id: str
    decisions: tuple[Decision, ...] = ()


class QuestionAnswer(OperationBase, frozen=True):
    """The user's answer to one `QuestionAsked`."""

    request_id: str
    text: str


class Interrupt(OperationBase, frozen=True):
    """Stop all running work now. If the user stops it, queued input is returned as `InputReturned`, and nothing
    else starts."""

    reason: StopReason = "interrupted"
    """Cause: the user, a signal, or the time limit of the run."""


class Undo(OperationBase, frozen=True):
    """Undo the last turns: their messages and all their file changes."""

    turns: Annotated[int, msgspec.Meta(ge=1)] = 1


class Redo(OperationBase, frozen=True):
    """Redo what the last undo reverted."""


class Rewind(OperationBase, frozen=True):
    """Rewind to the state before a turn: the files, the conversation (its prompt and everything after), or
    both."""

    turn_id: str
    what: Rewound = "both"
    number: int = 0
    """The prompt's number in the front end's list, to show while the operation waits; 0 if it has none."""


class Resolve(OperationBase, frozen=True):
    """Resolve files that the last undo, redo or rewind did not change."""

    choice: Choice
    paths: tuple[str, ...] = ()
    """Paths as listed in the report; empty for all."""


class Compact(OperationBase, frozen=True):
    """Replace the older part of the conversation with a summary."""

    focus: str = ""
    preview: bool = False
    """Only show the summary; `KeepSummary` applies it."""


class KeepSummary(OperationBase, frozen=True):
    """Apply the previewed summary, or replace the newest one, with this text."""

    text: str


class Uncompact(OperationBase, frozen=True):
    """Revert the last compaction."""


class MarkMessage(OperationBase, frozen=True):
    """Pin or drop a message or result, or remove its mark."""

    message_id: str
    mark: Mark
    number: int = 0
    """The message's number in the front end's list, to show while the operation waits; 0 if it has none."""


class Rename(OperationBase, frozen=True):
    """Set the name of the session."""

    title: str


class ChangeSettings(OperationBase, frozen=True):
    """Change the given settings, effective at the next model call or tool call."""

    model: str | None = None
    mode: Mode | None = None
    effort: str | None = None


class ControlJob(OperationBase, frozen=True):
    """Stop a background command, or let it outlive the session."""

    job: str
    action: Literal["stop", "keep"]


class ControlAgent(OperationBase, frozen=True):
    """Stop a sub-agent, send it guidance or another task, or merge the changes from its private worktree."""

    agent: str
    """Id, a prefix of the id, or name of the sub-agent."""
    action: Literal["stop", "send", "merge"]
    text: str = ""
    """The message to send."""


class RemoveGrant(OperationBase, frozen=True):
    """Remove a permission rule that the user saved, in every place where it is saved."""

    rule: str


class Shutdown(OperationBase, frozen=True):
    """Stop running work, save, and close the session."""


HistoryOperation = Undo | Redo | Rewind | Resolve | Compact | KeepSummary | Uncompact | MarkMessage | Rename
"""Operations on the conversation itself. They are queued like prompts."""

Operation = (
    UserInput | Steer | TakeBack | ApprovalAnswer | QuestionAnswer | Interrupt
    | Undo | Redo | Rewind | Resolve | Compact | KeepSummary | Uncompact | MarkMessage | Rename
    | ChangeSettings | ControlJob | ControlAgent | RemoveGrant | Shutdown
)  # fmt: skip


def as_typed(operation: HistoryOperation) -> str:
    """Return the slash command that submits an operation."""
    match operation:
        case Undo(turns=turns):
            words = ["undo", str(turns) if turns > 1 else ""]
        case Resolve(choice=choice, paths=paths):
            words = ["resolve", choice, *paths]
        case Compact(focus=focus, preview=preview):
            words = ["compact", ("preview:" if focus else "preview") if preview else "", focus]
        case KeepSummary(text=text):
            return f"/compact keep: {text}"
        case Uncompact():
            words = ["compact undo"]
        case MarkMessage(mark=mark, number=number):
            words = ["context", {"pinned": "pin", "dropped": "drop", "": "keep"}[mark], str(number or "")]
        case Rename(title=title):
            words = ["rename", title]
        case Rewind(what=what, number=number):
            words = ["rewind", str(number), "" if what == "both" else what] if number else ["rewind"]
        case Redo():
            words = ["redo"]
        case _:
            assert_never(operation)
    return " ".join(("/" + " ".join(filter(None, words))).split())


class Submission(msgspec.Struct, frozen=True):
    """An operation on its way to the engine. Exactly one terminal event carries its id."""

    id: str
    operation: Operation
