"""The conversation in the form of Claude Code's transcripts, JSON lines, for hooks written for it: many read the
last answer from the file that `transcript_path` names.

Source: what public hooks read of these files; the format itself is not documented.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import gmtime, strftime
from typing import Any, Protocol

import msgspec

from agent_cli.fs.files import make_private, replace_file, write_end
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, ModelCalled, TurnsRedone, TurnsUndone, storable_json
from agent_cli.protocol.usage import Usage

from .call_names import ToolCallFacts, named_calls

Json = dict[str, Any]
_STOPS = {"tool_calls": "tool_use", "length": "max_tokens"}


class Recorded(Protocol):
    """A session."""

    @property
    def records(self) -> Sequence[AnyRecord]: ...

    def whole(self) -> Sequence[AnyRecord]: ...

    def in_full(self, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        """Return records with the texts that a compaction released."""


class ClaudeTranscript:
    """The transcript of one session. The file is written when a hook is about to read it."""

    def __init__(
        self,
        path: Path,
        session: Recorded,
        session_id: str,
        root: Path,
        understood: Callable[[ToolCall], ToolCallFacts | None],
        masked: Callable[[str], str],
        undone: Callable[[Sequence[AnyRecord]], Collection[str]],
    ) -> None:
        """`understood` returns a call as hooks on it see it; None if it cannot be read. `masked` hides the secrets
        in a text: sandboxed commands may read the folder, and the words of the user and the model are recorded as
        they are. `undone` returns the ids of the turns whose messages were taken back."""
        self._path = path
        self._understood = understood
        self._masked = masked
        self._undone = undone
        self._session = session
        self._common = {"isSidechain": False, "userType": "external", "cwd": str(root), "sessionId": session_id}
        self._root = str(root)
        self._size = 0
        self._seq = 0
        self._last: str | None = None
        self._usage = Usage()

    def updated(self) -> str:
        """Return the path of the file, after what is new in the conversation has been added. One that is gone is
        written anew; one that cannot be written stays as it is."""
        for _ in range(2 if self._seq else 1):
            try:
                self._update()
                break
            except Exception:  # the disk is full, the session's file is gone: hooks run all the same
                self._seq, self._last = 0, None
        return str(self._path)

    def _update(self) -> None:
        new = self._new_ones()
        if self._seq == 0 or any(isinstance(record, TurnsUndone | TurnsRedone) for record in new):
            self._seq, self._last = 0, None
            make_private(self._path.parent)
            records = self._session.whole()
            gone = self._undone(records)
            lines = self._lines([it for it in records if not (isinstance(it, Message) and it.turn_id in gone)])
            replace_file(self._path, lines, mode=0o600)  # never written into: a fork may share it
            self._size = len(lines)
        elif lines := self._lines(self._session.in_full(new)):
            descriptor = os.open(self._path, os.O_WRONLY)
            try:
                write_end(descriptor, lines, self._size, durable=False)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, self._size)  # without a line that has no end
                raise
            finally:
                os.close(descriptor)
            self._size += len(lines)
        if new:
            self._seq = new[-1].seq

    def _new_ones(self) -> Sequence[AnyRecord]:
        records = self._session.records
        start = len(records)
        while start and records[start - 1].seq > self._seq:
            start -= 1
        return records[start:]

    def _lines(self, records: Sequence[AnyRecord]) -> bytes:
        lines = []
        for record in records:
            if isinstance(record, ModelCalled):
                self._usage = record.usage or Usage()
            elif isinstance(record, Message):
                lines.append(self._line(record))
        return b"".join(lines)

    def _line(self, message: Message) -> bytes:
        said: Json = {"parentUuid": self._last, **self._common}
        match message:
            case UserMessage():
                said |= {"type": "user", "message": {"role": "user", "content": self._masked(message.text)}}
                if message.origin != "human":
                    said["isMeta"] = True
            case AssistantMessage():
                said |= {"type": "assistant", "message": self._answer(message)}
            case ToolResult():
                result = {
                    "type": "tool_result", "tool_use_id": message.call_id, "content": message.text,
                    "is_error": message.status != "ok",
                }  # fmt: skip
                said |= {"type": "user", "message": {"role": "user", "content": [result]}}
        self._last = message.id
        at = f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(message.time))}.{int(message.time * 1000) % 1000:03}Z"
        return storable_json(said | {"uuid": message.id, "timestamp": at}) + b"\n"

    def _answer(self, message: AssistantMessage) -> Json:
        usage = {
            "input_tokens": self._usage.input or 0,
            "cache_creation_input_tokens": self._usage.cache_write or 0,
            "cache_read_input_tokens": self._usage.cache_read or 0,
            "output_tokens": self._usage.output or 0,
        }
        return {
            "role": "assistant", "id": message.id, "type": "message", "model": message.model,
            "content": list(self._content(message)),
            "stop_reason": _STOPS.get(message.finish, "end_turn"), "stop_sequence": None, "usage": usage,
        }  # fmt: skip

    def _content(self, message: AssistantMessage) -> Iterator[Json]:
        for block in message.reasoning:
            if block.text:
                yield {"type": "thinking", "thinking": self._masked(block.text), "signature": block.signature}
        if message.text:
            yield {"type": "text", "text": self._masked(message.text)}
        for call in message.calls:
            yield from self._uses(call)

    def _uses(self, call: ToolCall) -> Iterator[Json]:
        """Yield a call in Claude Code's terms; one that cannot be read with its arguments as written."""
        read = self._understood(call)
        for named in named_calls(read or ToolCallFacts(call.id, call.name, {}, self._root), "claude"):
            try:
                input_ = self._without_secrets(named.input if read else _written(call))
            except RecursionError:
                input_ = {}
            yield {"type": "tool_use", "id": call.id, "name": named.name, "input": input_}

    def _without_secrets(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._masked(value)
        if isinstance(value, dict):
            return {key: self._without_secrets(each) for key, each in value.items()}
        return [self._without_secrets(each) for each in value] if isinstance(value, list | tuple) else value


def _written(call: ToolCall) -> Json:
    try:
        return decode_json(call.arguments or "{}", type=Json)
    except msgspec.DecodeError:
        return {}
