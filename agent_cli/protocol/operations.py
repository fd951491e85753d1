"""What a front end may ask of the engine: a closed union, pushed as a `Submission` on the queue."""

import re
from typing import Annotated, Any, Literal, assert_never

import msgspec

from .actions import Mode
from .messages import Image
from .stop_reason import StopReason

GrantScope = Literal["session", "project", "user"]
Mark = Literal["pinned", "dropped", ""]
Rewound = Literal["both", "code", "conversation"]
"""What a rewind takes back."""
Choice = Literal["mine", "old", "merge"]
"""What becomes of a file that was changed since: it stays, the state in the checkpoint takes its place, or both
are merged line by line."""


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class OperationBase(msgspec.Struct, frozen=True, tag_field="type", tag=_snake_case, forbid_unknown_fields=True):
    """What all operations share: as JSON each has its name as `type`, such as `user_input`."""


class UserCommand(msgspec.Struct, frozen=True):
    """A shell command that the user ran, and what it printed."""

    command: str
    output: str
    ended: str
    """How it ended, such as `exit 0` or `stopped`."""


class InsertedCommand(msgspec.Struct, frozen=True):
    """A shell command whose output takes the place of a part of a text."""

    marker: str
    """The part, such as `` !`git status` ``, as it stands in the text."""
    command: str
    at: int
    """Where the part begins in the text, in characters."""


class BroughtText(msgspec.Struct, frozen=True):
    """A text that goes along with a prompt, such as the instructions of a skill that the user called."""

    name: str
    """What it is called, such as the name of a skill."""
    text: str
    insertions: tuple[InsertedCommand, ...] = ()
    """Run like commands of the model: rules, questions, hooks and the sandbox apply."""
    allowed: tuple[str, ...] = ()
    """Permission rules that allow calls without a question until the turn ends; a deny rule counts more."""
    source: str = ""
    """Where the text came from, when neither the user nor the project wrote it; it is then marked as data."""
    kind: Literal["skill", "agent", "resource"] = "skill"
    """Instructions of a skill, the result of a sub-agent, or what a client gives as context."""


class UserInput(OperationBase, frozen=True):
    """A prompt. Empty text carries on with the history as it is and appends no message."""

    text: str
    images: tuple[Image, ...] = ()
    is_data: bool = False
    """Whether it was piped in: naming a file in it is no consent to read that."""
    commands: tuple[UserCommand, ...] = ()
    """What the user ran since the last prompt, for the model to see."""
    insertions: tuple[InsertedCommand, ...] = ()
    """Commands in `text` to run first; their output takes their place."""
    allowed: tuple[str, ...] = ()
    """Permission rules that allow calls without a question until the turn ends; a deny rule counts more."""
    brought: tuple[BroughtText, ...] = ()
    """Texts that go along with the prompt."""
    answer_schema: dict[str, Any] | None = None
    """JSON Schema that the answer has to fit, for servers that hold a model to it; the text tells the model."""
    answer_only: bool = False
    """Whether the model is asked for an answer without calls of tools."""
    image_paths: tuple[str, ...] = ()
    """Absolute paths of the files that the first of the images come from."""


class Steer(OperationBase, frozen=True):
    """Guidance for the running turn, delivered at its next step; a prompt of its own when none runs."""

    text: str


class TakeBack(OperationBase, frozen=True):
    """Take back what waits: the newest prompt, guidance or command, or the newest one with this text. It comes
    back as `InputReturned`."""

    text: str = ""


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to one asked call. Calls without a decision count as refused."""

    call_id: str
    allow: bool
    feedback: str = ""
    """The user's words for the model, byte for byte."""
    arguments: str | None = None
    """Replacement arguments (JSON) when the user edited the call before allowing it."""
    grant: str = ""
    """A permission rule to keep, as shown to and perhaps edited by the user."""
    scope: GrantScope = "session"
    hunks: tuple[int, ...] | None = None
    """Which hunks of the diff to make, by number from 0, where the item has `hunks`; null for all."""


class ApprovalAnswer(OperationBase, frozen=True):
    """The decisions on one `ApprovalRequested`."""

    request_id: str
    decisions: tuple[Decision, ...] = ()


class QuestionAnswer(OperationBase, frozen=True):
    """The user's words for one `QuestionAsked`."""

    request_id: str
    text: str


class Interrupt(OperationBase, frozen=True):
    """Stop whatever runs, now. When the user stops it, what waits is handed back as `InputReturned`, and nothing
    else begins."""

    reason: StopReason = "interrupted"
    """Why: the user, a signal, or the time of a whole run."""


class Undo(OperationBase, frozen=True):
    """Take back the last turns: their messages and every file they changed."""

    turns: Annotated[int, msgspec.Meta(ge=1)] = 1


class Redo(OperationBase, frozen=True):
    """Bring back what the last undo took away."""


class Rewind(OperationBase, frozen=True):
    """Go back to before a turn: its prompt and everything after it, files, conversation or both."""

    turn_id: str
    what: Rewound = "both"


class Resolve(OperationBase, frozen=True):
    """Decide on files that the last undo, redo or rewind left alone."""

    choice: Choice
    paths: tuple[str, ...] = ()
    """As the report named them; empty for all."""


class Compact(OperationBase, frozen=True):
    """Replace the older part of the conversation by a summary."""

    focus: str = ""
    preview: bool = False
    """Only show the summary; `KeepSummary` makes it count."""


class KeepSummary(OperationBase, frozen=True):
    """Make the summary that was previewed count, or replace the newest one, by this text."""

    text: str


class Uncompact(OperationBase, frozen=True):
    """Take back the last compaction."""


class MarkMessage(OperationBase, frozen=True):
    """Pin or drop one message or result, or take that back."""

    message_id: str
    mark: Mark


class Rename(OperationBase, frozen=True):
    """Give the session a name."""

    title: str


class ChangeSettings(OperationBase, frozen=True):
    """Change what is given; takes effect at the next model call or tool call."""

    model: str | None = None
    mode: Mode | None = None
    effort: str | None = None


class ControlJob(OperationBase, frozen=True):
    """Stop a background command, or let it outlive the session."""

    job: str
    action: Literal["stop", "keep"]


class ControlAgent(OperationBase, frozen=True):
    """Stop a sub-agent, give it guidance or a further task, or merge what it did in a worktree of its own."""

    agent: str
    """Its id, the beginning of it, or its name."""
    action: Literal["stop", "send", "merge"]
    text: str = ""
    """What to tell it."""


class RemoveGrant(OperationBase, frozen=True):
    """Remove a permission rule that the user has saved, wherever it is saved."""

    rule: str


class Shutdown(OperationBase, frozen=True):
    """Stop what runs, save, and end."""


Reshape = Undo | Redo | Rewind | Resolve | Compact | KeepSummary | Uncompact | MarkMessage | Rename
"""What is done to the conversation itself: tasks that wait their turn, as prompts do."""

Operation = (
    UserInput | Steer | TakeBack | ApprovalAnswer | QuestionAnswer | Interrupt
    | Undo | Redo | Rewind | Resolve | Compact | KeepSummary | Uncompact | MarkMessage | Rename
    | ChangeSettings | ControlJob | ControlAgent | RemoveGrant | Shutdown
)  # fmt: skip


def as_typed(operation: Reshape) -> str:
    """Return the slash command that hands in such an operation."""
    match operation:
        case Undo(turns=turns):
            words = ["undo", str(turns) if turns > 1 else ""]
        case Resolve(choice=choice, paths=paths):
            words = ["resolve", choice, *paths]
        case Compact(focus=focus, preview=preview):
            words = ["compact", ("preview:" if focus else "preview") if preview else "", focus]
        case KeepSummary():
            words = ["compact keep"]
        case Uncompact():
            words = ["compact undo"]
        case MarkMessage(mark=mark):
            words = ["context", {"pinned": "pin", "dropped": "drop", "": "keep"}[mark]]
        case Rename(title=title):
            words = ["rename", title]
        case Redo() | Rewind():
            words = [type(operation).__name__.lower()]
        case _:
            assert_never(operation)
    return " ".join(("/" + " ".join(filter(None, words))).split())


class Submission(msgspec.Struct, frozen=True):
    """An operation on its way to the engine. Exactly one terminal event carries its id back."""

    id: str
    operation: Operation
