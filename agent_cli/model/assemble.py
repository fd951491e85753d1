"""Assemble an answer from its events."""

from typing import assert_never

import msgspec

from agent_cli.protocol.messages import Finish, Reasoning, ToolCall, new_id
from agent_cli.protocol.usage import Usage

from .types.base import (
    Adjusted,
    Alive,
    Answer,
    CallPiece,
    CallStart,
    Finished,
    ModelError,
    ModelEvent,
    ReasoningDone,
    ReasoningPiece,
    Retrying,
    TextPiece,
    TextWasThought,
    UsageReport,
)
from .types.json import join_surrogates
from .written_calls import meant_calls

MOST_CHARS, MOST_CALLS = 10_000_000, 1_000
"""More than any model writes in one answer. A server that never ends would fill the memory and the session."""


class _Call:
    def __init__(self, identifier: str, name: str) -> None:
        self.id = identifier
        self.name = name
        self.arguments: list[str] = []
        self.signature = ""
        self.problem = ""


class Assembler:
    """Collects the events of one call in order; `answer` may be called at any time."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._text: list[str] = []
        self._thought: list[str] = []
        self._thought_after = (0, 0)
        self._reasoning: list[Reasoning] = []
        self._calls: dict[int, _Call] = {}
        self._usage: Usage | None = None
        self._finish: Finish = "interrupted"
        self._raw_finish = ""
        self._room = MOST_CHARS

    def feed(self, event: ModelEvent) -> None:
        """Add an event. `Retrying` discards everything before it.

        Raises:
            ModelError: the answer exceeds the limits.
        """
        match event:
            case TextPiece(text=text):
                self._text.append(text)
                self._room -= len(text)
            case ReasoningPiece(text=text):
                if not self._thought:
                    self._thought_after = self._place()
                self._thought.append(text)
                self._room -= len(text)
            case ReasoningDone(block=block):
                self._reasoning.append(self._placed(block))
                self._thought.clear()
            case TextWasThought():
                self._reclassify(event)
            case CallStart(index=index, id=identifier, name=name):
                self._calls[index] = _Call(identifier, name)
                if len(self._calls) > MOST_CALLS:
                    raise ModelError("malformed", f"an answer with more than {MOST_CALLS:,} tool calls")
            case CallPiece(index=index, arguments=arguments, name=name, signature=signature, problem=problem):
                call = self._calls.setdefault(index, _Call("", ""))
                call.name += name
                call.arguments.append(arguments)
                call.signature += signature
                call.problem += problem
                self._room -= len(arguments)
            case UsageReport(usage=usage):
                self._usage = usage
            case Finished(finish=finish, raw=raw):
                self._finish, self._raw_finish = finish, raw
            case Retrying():
                self._reset()
            case Adjusted() | Alive():
                pass
            case _:
                assert_never(event)
        if self._room < 0:
            raise ModelError("malformed", f"an answer of more than {MOST_CHARS // 1_000_000} million characters")

    def _reclassify(self, event: TextWasThought) -> None:
        text = "".join(self._text)
        if event.holds_for(text):
            self._text.clear()
            self._reasoning.append(self._placed(Reasoning(text=text.strip(), provider=event.provider)))
        else:
            self._text.append(event.mark)

    def answer(self) -> Answer:
        """Return what has arrived. Its finish is `interrupted` until the provider has ended the answer; its calls
        may be incomplete until then and must not run. Call ids are unique and never empty."""
        thought = "".join(self._thought)
        return Answer(
            text="".join(self._text),
            reasoning=(*self._reasoning, *((self._placed(Reasoning(text=thought)),) if thought else ())),
            calls=self._finished_calls(),
            usage=self._usage,
            finish=self._finish,
            raw_finish=self._raw_finish,
        )

    def _placed(self, block: Reasoning) -> Reasoning:
        """Return the block with its position among text and calls: where its first piece arrived."""
        text, calls = self._thought_after if self._thought else self._place()
        return msgspec.structs.replace(block, after_text=text, after_calls=calls)

    def _place(self) -> tuple[int, int]:
        return sum(map(len, self._text)), len(self._calls)

    def _finished_calls(self) -> tuple[ToolCall, ...]:
        seen: set[str] = set()
        calls: list[ToolCall] = []
        for _, call in sorted(self._calls.items()):
            if not call.id or call.id in seen:
                call.id = new_id("call")
            seen.add(call.id)
            arguments = join_surrogates("".join(call.arguments))
            written = ToolCall(call.id, call.name, arguments, call.signature, call.problem)
            calls += meant_calls(written) if self._finish == "tool_calls" else (written,)
        return tuple(calls)
