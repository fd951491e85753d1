"""Save a note typed at the prompt to the user's memory, and remove the last one."""

from typing import Literal

from agent_cli.protocol.messages import MemoryChange
from agent_cli.workspace.files.reader import FileError
from agent_cli.workspace.memory import BlockError, Memory, file_text, put_back


class MemoryNotes:
    """The notes of a REPL."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._saved: list[MemoryChange] = []

    def add(self, scope: Literal["project", "user"], text: str) -> str:
        """Append a note to a block; return a message about the result."""
        text = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
        try:
            block = self._memory.find(scope)
            before = file_text(block)
            whole = self._memory.changed(block, f"{block.text}\n- {text}" if block.text else f"- {text}")
            self._memory.write(block, whole)
        except BlockError as error:
            return f"Not saved: {error}"
        self._saved.append(MemoryChange(block.path, before, whole))
        return f"Saved to memory ({scope}): {block.path}. /memory undo takes it back."

    def undo(self) -> str:
        """Remove the last note; return a message about the result."""
        if not self._saved:
            return "There is no note to undo."
        change = self._saved.pop()
        try:
            done = put_back(change.path, change.after, change.before)
        except FileError as error:
            return f"Not undone: {error}"
        if not done:
            return f"Not undone: {change.path} has changed since; edit it yourself."
        return f"Took the note back from {change.path}."
