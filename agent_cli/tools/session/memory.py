"""`memory`: one tool for all changes to the text blocks that outlast a conversation. Each change is shown and
recorded with the previous text, so that undo can revert it."""

from typing import Literal

import msgspec

from agent_cli.protocol.actions import Action, WriteMemory
from agent_cli.protocol.messages import MemoryChange
from agent_cli.workspace.memory import Block, BlockError, Memory, file_text

from ..kit.base import BasicTool, Preview, ToolContext, ToolError, ToolOutcome


class MemoryParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `memory`."""

    action: Literal["append", "replace", "insert", "rewrite"]
    block: str
    text: str
    old: str = ""
    line: int = 0


class _Change(msgspec.Struct, frozen=True):
    """A planned change."""

    block: Block
    text: str
    """Text of the block after the change."""
    before: str | None
    """Full text of the file before the change; None if there is none. `after` is the text after it."""
    after: str

    @property
    def diff(self) -> str:
        """The diff for the user."""
        from agent_cli.workspace.editing.unified_diff import unified_diff

        old = f"{self.block.text}\n" if self.block.text else ""
        new = f"{self.text}\n" if self.text else ""
        return unified_diff(old, new, f"memory/{self.block.label}", created=not self.block.text).text


class MemoryTool(BasicTool):
    """Changes one block. Whether the user is asked is decided by its actions."""

    name = "memory"
    label = "Memory"
    Params = MemoryParams
    editable = "text"

    def title(self, params: MemoryParams) -> str:
        return f"{params.action} {params.block}"

    def actions(self, params: MemoryParams, context: ToolContext) -> tuple[Action, ...]:
        block = _found(_memory(context), params)
        return (WriteMemory(block.label, block.scope),)

    async def preview(self, params: MemoryParams, context: ToolContext) -> Preview:
        return Preview(_change(params, _memory(context)).diff, kind="diff")

    async def run(self, params: MemoryParams, context: ToolContext) -> ToolOutcome:
        memory = _memory(context)
        change = _change(params, memory)
        try:
            memory.write(change.block, change.after)
        except BlockError as error:
            raise ToolError(str(error)) from error
        used = f"{len(change.text)} of {change.block.limit} characters used"
        return ToolOutcome(
            text=f"{change.block.label} is changed; {used}.",
            display=change.diff,
            memory=(MemoryChange(change.block.path, change.before, change.after),),
        )


def _memory(context: ToolContext) -> Memory:
    if context.memory is None:
        raise ToolError("This session has no memory.")
    return context.memory


def _found(memory: Memory, params: MemoryParams) -> Block:
    try:
        return memory.find(params.block.strip())
    except BlockError as error:
        raise ToolError(str(error)) from error


def _change(params: MemoryParams, memory: Memory) -> _Change:
    """Return the change that a call would make.

    Raises:
        ToolError: it is not possible; the message says why and, if helpful, shows the block's text.
    """
    block = _found(memory, params)
    new = _clean(params.text)
    if params.action in ("insert", "rewrite") and not memory.is_known(block):
        memory.show(block)
        raise ToolError(f"{block.label} was changed since you were given it. Nothing was written. {_now(block)}")
    text = _edited(block, params, new)
    if text == block.text:
        raise ToolError(f"That would change nothing in {block.label}.")
    try:
        whole = memory.changed(block, text)
        return _Change(block, text, file_text(block), whole)
    except BlockError as error:
        raise ToolError(str(error)) from error


def _edited(block: Block, params: MemoryParams, new: str) -> str:
    """Return the text of the block after an action.

    Raises:
        ToolError: the passage or the line is not there.
    """
    match params.action:
        case "append":
            return f"{block.text}\n{new}" if block.text else new
        case "replace":
            old = _clean(params.old)
            count = block.text.count(old) if old else 0
            if count != 1:
                times = f"{count} times" if count else "nowhere"
                raise ToolError(
                    f"`old` must occur exactly once in {block.label}; it occurs {times}. {_now(block)}"
                )
            return block.text.replace(old, new).strip("\n")
        case "insert":
            lines = block.text.split("\n") if block.text else []
            if not 0 <= params.line <= len(lines):
                raise ToolError(
                    f"{block.label} has {len(lines)} lines; there is no line {params.line}. {_now(block)}"
                )
            return "\n".join([*lines[: params.line], new, *lines[params.line :]])
        case "rewrite":
            return new


def _clean(text: str) -> str:
    """Normalize text for a file: line endings `\\n`, no lone surrogates, no blank lines around it."""
    return text.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8").strip("\n")


def _now(block: Block) -> str:
    return f"It now reads:\n{block.text}" if block.text else "It is empty now."
