"""The conversation in provider-neutral form: user text, assistant answers, tool calls and their results.

Provider formats exist only in `model/`. Values are frozen and hold only JSON-ready data, because each of them can
end up in the session file. None can contain itself, so the numerous types are excluded from garbage collection
(`gc=False`). A message's `origin` tells who wrote it: undo, rewind and previews count `human` messages only.
"""

import os
from collections.abc import Sequence
from operator import is_
from typing import Literal, TypeGuard, get_args

import msgspec

Origin = Literal["human", "model", "tool", "hint", "summary", "hook"]

Finish = Literal["stop", "tool_calls", "length", "content_filter", "interrupted", "unknown"]
"""How an answer ended. `interrupted`: the user stopped it, so the text is incomplete."""
FINISHES: frozenset[str] = frozenset(get_args(Finish))
"""Outcomes of model calls that are not failures."""

ToolStatus = Literal["ok", "failed", "denied", "cancelled", "unknown"]
"""How a tool call ended. `unknown`: it was running when the program died, so it may have had effects."""

ResultKind = Literal["text", "output", "summary", "answer", "question", "agent"]
"""Part of a tool's result that a front end shows: the text; the end of a command's output; only a summary or diff,
since the user has the rest; the answer of the turn; the user's own answer to a question; or the first line of a
sub-agent's answer, which says how it ended."""


def new_id(prefix: str) -> str:
    """Return a short random identifier such as `turn_9f86d081884c`."""
    return f"{prefix}_{os.urandom(6).hex()}"


class Image(msgspec.Struct, frozen=True):
    """An image sent to the model."""

    media_type: str
    """For example `image/png`."""
    data: str
    """Contents of the file in base64."""


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True):
    """One block of a model's reasoning. Signed blocks go back only to the provider that signed them."""

    text: str = ""
    signature: str = ""
    """The provider's opaque proof, or the encrypted block itself."""
    provider: str = ""
    """Provider prefix (`anthropic`, `openai`, …) of the model that wrote it."""
    redacted: bool = False
    after_text: int = 0
    """Number of characters of the answer's text before this block: providers require the original order back."""
    after_calls: int = 0
    """Number of calls of the answer before this block."""
    field: str = ""
    """Field of a message in which the server gave it, if it goes back in the same one."""


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A request by the model to run a tool."""

    id: str
    name: str
    arguments: str
    """JSON text exactly as the model wrote it. It may be malformed, so it is parsed before any use."""
    signature: str = ""
    """The provider's opaque proof of the reasoning behind the call, sent back only to that provider."""
    problem: str = ""
    """Why the call cannot be parsed, if the model wrote it as text in an unknown form. Such a call never runs."""


class FileChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change to one file."""

    path: str
    """Relative to the workspace if inside it, otherwise absolute."""
    kind: Literal["created", "modified", "deleted"]
    added: int = 0
    """Lines added; 0 for a binary file."""
    removed: int = 0
    """Lines removed; 0 for a binary file."""


def sum_changes(before: FileChange | None, after: FileChange) -> FileChange:
    """Combine two changes to one file, the later one second."""
    if before is None:
        return after
    kind = "created" if before.kind == "created" and after.kind == "modified" else after.kind
    return FileChange(after.path, kind, before.added + after.added, before.removed + after.removed)


class MemoryChange(msgspec.Struct, frozen=True):
    """A change to one block of the agent's memory, with enough data to undo it."""

    path: str
    """Absolute path of the block's file."""
    before: str | None
    """Full text of the block before the call; None if the file did not exist. `after` is the text after the
    call."""
    after: str | None


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Content attached to a prompt, as it was when the prompt was sent."""

    name: str
    """As the user wrote it: a path, a folder or an address."""
    text: str
    """Text for the model, including the marks around it."""
    untrusted: str = ""
    """Source of untrusted text in the attachment, such as a host."""


AttachmentKind = Literal["file", "folder", "url", "image", "command", "resource", "skill", "agent", "instructions"]


class AttachmentSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """Summary of something that a prompt names, for display to the user."""

    name: str
    kind: AttachmentKind
    tokens: int
    """Estimated; 0 if nothing is attached."""
    note: str = ""
    """What was left out, or why it is not attached."""


class PlanItem(msgspec.Struct, frozen=True):
    """One item of the model's plan."""

    text: str
    """The task to do."""
    status: Literal["pending", "in_progress", "done"] = "pending"


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False):
    """Base of all lines of a session file: an id, a position, and the time of writing."""

    id: str
    seq: int = 0
    """Position in the session, counted from 1; assigned when the record is appended."""
    time: float = 0.0
    """Seconds since the epoch."""
    turn_id: str = ""


class UserMessage(Record, frozen=True, kw_only=True, omit_defaults=True, tag="user"):
    """Text for the model in the user role."""

    text: str
    origin: Origin = "human"
    context: str = ""
    """Current facts (date, git state, changed instructions) sent before the text. Stored only here, so that
    earlier requests stay byte prefixes of later ones."""
    told: dict[str, str] = {}
    """Source of an instruction or memory repeated in `context` → hash of its text."""
    attachments: tuple[Attachment, ...] = ()
    """Sent between `context` and `text`."""
    attached: tuple[AttachmentSummary, ...] = ()
    """Summary of the attachments as shown to the user; never sent."""
    images: tuple[Image, ...] = ()

    @property
    def lead(self) -> str:
        """All text sent before the prompt itself."""
        return "\n\n".join(part for part in (self.context, *(each.text for each in self.attachments)) if part)


class AssistantMessage(Record, frozen=True, kw_only=True, omit_defaults=True, tag="assistant"):
    """One answer of the model. Written to the session before any of its calls run."""

    text: str = ""
    reasoning: tuple[Reasoning, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    model: str = ""


class ToolResult(Record, frozen=True, kw_only=True, omit_defaults=True, tag="tool_result"):
    """The only result of a tool call."""

    call_id: str
    tool: str
    status: ToolStatus
    text: str
    """Text for the model."""
    display: str = ""
    """Text shown to the user below the call: a diff or a short summary; empty if `text` is enough."""
    images: tuple[Image, ...] = ()
    duration_s: float = 0.0
    waited_s: float = 0.0
    """Seconds spent waiting for the user, before or during the call; not part of `duration_s`."""
    changes: tuple[FileChange, ...] = ()
    command: str = ""
    exit_code: int | None = None
    seen: dict[str, str] = {}
    """Path → content hash of every file this call read or wrote. In a session file, these paths and `cwd` are
    relative to the session's directory if inside it, so that a session can be moved."""
    plan: tuple[PlanItem, ...] | None = None
    job: str = ""
    """Number of the background job that the command became."""
    cwd: str = ""
    """Working directory of the next command, if this call changed it."""
    rule: str = ""
    """For a denied call: the deciding rule."""
    untrusted: str = ""
    """Source of untrusted text in the result, such as a host."""
    memory: tuple[MemoryChange, ...] = ()


Message = UserMessage | AssistantMessage | ToolResult


def is_prompt(record: object) -> TypeGuard[UserMessage]:
    """Return True for a message that the user wrote."""
    return isinstance(record, UserMessage) and record.origin == "human"


def begins_with(items: Sequence[object], earlier: Sequence[object]) -> bool:
    """Return True if `items` begins with the identical objects of `earlier`. Used to compare the messages of two
    requests, which are never modified."""
    return len(items) >= len(earlier) and all(map(is_, items, earlier))
