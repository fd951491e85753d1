"""A model that replays the answers of a session file: for demonstrations, tests and `agent replay`."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from pathlib import Path

import msgspec

from agent_cli.protocol.messages import AssistantMessage
from agent_cli.protocol.records import AnyRecord, ModelCalled, decode
from agent_cli.protocol.usage import Usage

from .types.base import (
    CallPiece,
    CallStart,
    Finished,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    Unconnected,
    UsageReport,
)

_PIECE = re.compile(r"\s*\S+\s*|\s+")


class Recorded(msgspec.Struct, frozen=True):
    """A recorded answer."""

    message: AssistantMessage
    usage: Usage | None = None


class ReplayModel(Unconnected):
    """A `Model` that returns recorded answers in order, whatever the request."""

    def __init__(self, answers: Iterable[Recorded], name: str, delay_s: float) -> None:
        """Create a model. `delay_s` is the wait before each piece of text of about one word."""
        self._answers = list(answers)
        self._next = 0
        self.info = ModelInfo(name)
        """Its name only: a recording has no context window and no price."""
        self._delay_s = delay_s

    @classmethod
    def open(cls, path: Path, name: str = "", delay_s: float = 0.0) -> "ReplayModel":
        """Load the answers of a session file; damaged lines are skipped.

        Raises:
            OSError: the file cannot be read.
        """
        return cls(recorded_answers(path), name or f"replay/{path}", delay_s)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the next recorded answer.

        Raises:
            ModelError: `bad_request` if there are no more.
        """
        if self._next >= len(self._answers):
            raise ModelError(
                "bad_request",
                f"the recording holds {len(self._answers)} answers, and all of them have been given",
            )
        recorded = self._answers[self._next]
        self._next += 1
        for event in _events(recorded):
            await asyncio.sleep(self._delay_s if isinstance(event, TextPiece | ReasoningPiece) else 0)
            yield event


def recorded_answers(path: Path) -> tuple[Recorded, ...]:
    """Return the answers of the main conversation, each with the usage of its call.

    Raises:
        OSError: the file cannot be read.
    """
    answers: list[Recorded] = []
    called: ModelCalled | None = None
    for record in _records(path):
        if isinstance(record, ModelCalled):
            called = record
        elif isinstance(record, AssistantMessage):
            if called is None or called.kind == "main":
                answers.append(Recorded(record, called.usage if called else None))
            called = None
    return tuple(answers)


def _records(path: Path) -> Iterator[AnyRecord]:
    for line in path.read_bytes().split(b"\n"):
        record = line.strip().removesuffix(b",")
        if record in (b"", b"[", b"]"):
            continue
        try:
            yield decode(record)
        except msgspec.DecodeError:
            continue  # torn by a crash, or damaged


def _events(recorded: Recorded) -> Iterator[ModelEvent]:
    message = recorded.message
    for block in message.reasoning:
        for piece in _PIECE.findall(block.text):
            yield ReasoningPiece(piece)
        yield ReasoningDone(block)
    for piece in _PIECE.findall(message.text):
        yield TextPiece(piece)
    for index, call in enumerate(message.calls):
        yield CallStart(index, call.id, call.name)
        yield CallPiece(index, call.arguments, problem=call.problem)
    if recorded.usage is not None:
        yield UsageReport(recorded.usage)
    finish = "stop" if message.finish == "interrupted" else message.finish
    yield Finished(finish, finish)
