"""The conversation in our own words: user text, assistant answers, tool calls and their results.

Provider shapes exist only in `model/`. Values are frozen and hold JSON-ready data only, because every
one of them can reach the session file; none can hold itself, so the garbage collection need not know those of
which there are thousands. A message's `origin` says who really spoke: undo, rewind and previews count `human`
messages only.
"""

import os
from collections.abc import Sequence
from operator import is_
from typing import Literal

import msgspec

Origin = Literal["human", "model", "tool", "hint", "summary", "hook"]

Finish = Literal["stop", "tool_calls", "length", "content_filter", "interrupted", "unknown"]
"""How an answer ended. `interrupted`: the user stopped it, so the text is what had arrived by then."""

ToolStatus = Literal["ok", "failed", "denied", "cancelled", "unknown"]
"""How a call ended. `unknown`: it was running when the program died, so it may have had effects."""

ResultKind = Literal["text", "output", "summary", "answer", "question", "agent"]
"""What of a tool's result a front end shows: its text; the end of a command's output; only its summary or diff,
since the user has the rest; the answer of the turn; the user's own answer to a question; the first line of what a
sub-agent answered, which says how it ended."""


def new_id(prefix: str) -> str:
    """Return a short random identifier such as `turn_9f86d081884c`."""
    return f"{prefix}_{os.urandom(6).hex()}"


class Image(msgspec.Struct, frozen=True):
    """A picture handed to the model."""

    media_type: str
    """For example `image/png`."""
    data: str
    """The file's bytes in base64."""


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True):
    """One block of a model's reasoning. Signed blocks go back only to the provider that signed them."""

    text: str = ""
    signature: str = ""
    """The provider's opaque proof, or the encrypted block itself."""
    provider: str = ""
    """Provider prefix (`anthropic`, `openai`, …) of the model that wrote it."""
    redacted: bool = False
    after_text: int = 0
    """Characters of the answer's text that came before it: providers want the order back as it was."""
    after_calls: int = 0
    """Calls of the answer that came before it."""


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A request by the model to run a tool."""

    id: str
    name: str
    arguments: str
    """JSON text exactly as the model wrote it; it may be malformed, so it is parsed before any use."""
    signature: str = ""
    """The provider's opaque proof of the thought behind it, sent back with the call to that provider only."""
    problem: str = ""
    """Why it cannot be read, where the model wrote it as text in no known form: it never runs."""


class FileChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened to one file."""

    path: str
    """Relative to the workspace where it lies inside, else absolute."""
    kind: Literal["created", "modified", "deleted"]
    added: int = 0
    """Lines added; 0 for a binary file."""
    removed: int = 0
    """Lines removed; 0 for a binary file."""


class MemoryChange(msgspec.Struct, frozen=True):
    """What a call did to one block of the agent's memory: enough to take it back."""

    path: str
    """Absolute path of the block's file."""
    before: str | None
    """Its whole text; None when there was no such file. `after` likewise."""
    after: str | None


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something a prompt brings along, as it was when the prompt was sent."""

    name: str
    """As the user wrote it: a path, a folder or an address."""
    text: str
    """What the model reads, complete with the marks around it."""
    untrusted: str = ""
    """Where untrusted text in it came from, such as a host."""


AttachmentKind = Literal["file", "folder", "url", "image", "command", "resource", "skill", "agent"]


class AttachmentSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a prompt names, as the user is shown it."""

    name: str
    kind: AttachmentKind
    tokens: int
    """Estimated; 0 for what is not attached."""
    note: str = ""
    """What was left out, or why it is not attached."""


class PlanItem(msgspec.Struct, frozen=True):
    """One item of the model's plan."""

    text: str
    """What is to be done."""
    status: Literal["pending", "in_progress", "done"] = "pending"


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False):
    """What one line of a session file has in common: an id, its place, and when it was written."""

    id: str
    seq: int = 0
    """Place in the session, counted from 1; given by the session when it is appended."""
    time: float = 0.0
    """Seconds since the epoch."""
    turn_id: str = ""


class UserMessage(Record, frozen=True, kw_only=True, omit_defaults=True, tag="user"):
    """Text for the model in the user's role."""

    text: str
    origin: Origin = "human"
    context: str = ""
    """Facts of the moment (date, git state, changed instructions) sent before the text. Kept here, and
    nowhere else, so that earlier requests stay byte prefixes of later ones."""
    told: dict[str, str] = {}
    """Source of an instruction or memory that `context` gives anew → hash of its text."""
    attachments: tuple[Attachment, ...] = ()
    """Sent between `context` and `text`."""
    attached: tuple[AttachmentSummary, ...] = ()
    """What the user was shown of the attachments; never sent."""
    images: tuple[Image, ...] = ()

    @property
    def lead(self) -> str:
        """Everything that is sent before the text."""
        return "\n\n".join(part for part in (self.context, *(each.text for each in self.attachments)) if part)


class AssistantMessage(Record, frozen=True, kw_only=True, omit_defaults=True, tag="assistant"):
    """One answer of the model. Written to the session before any of its calls runs."""

    text: str = ""
    reasoning: tuple[Reasoning, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    model: str = ""


class ToolResult(Record, frozen=True, kw_only=True, omit_defaults=True, tag="tool_result"):
    """The one answer to one call."""

    call_id: str
    tool: str
    status: ToolStatus
    text: str
    """What the model reads."""
    display: str = ""
    """What the user sees under the call's line: a diff, a short summary; empty where `text` says it all."""
    images: tuple[Image, ...] = ()
    duration_s: float = 0.0
    waited_s: float = 0.0
    """For how long the user was waited for over it, before it ran or meanwhile; no part of `duration_s`."""
    changes: tuple[FileChange, ...] = ()
    command: str = ""
    exit_code: int | None = None
    seen: dict[str, str] = {}
    """Path → content hash of every file this call read or wrote. In a session file, paths are relative to the
    session's directory where they lie inside it, so that a session can move; so is `cwd`."""
    plan: tuple[PlanItem, ...] | None = None
    job: str = ""
    """The number of the background job as which the command went on."""
    cwd: str = ""
    """The folder the next command starts in, where this call has changed it."""
    rule: str = ""
    """For a denied call: the rule that decided."""
    untrusted: str = ""
    """Where untrusted text in it came from, such as a host."""
    memory: tuple[MemoryChange, ...] = ()


Message = UserMessage | AssistantMessage | ToolResult


def begins_with(items: Sequence[object], earlier: Sequence[object]) -> bool:
    """Return whether messages, or what else is never changed, begin with the very ones of an earlier request."""
    return len(items) >= len(earlier) and all(map(is_, items, earlier))
