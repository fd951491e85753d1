"""Run one prompt after another on the engine, and forward its questions to the caller."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.client import Client
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import ApprovalAnswer, Decision, Interrupt, QuestionAnswer, UserInput
from agent_cli.protocol.sanitize import visible

_STOP_S = 10.0
"""Seconds that a stopped turn has to end."""
ANSWER = "answer"
"""Name of the field of a form."""
ALLOW, ALLOW_SESSION, DENY = "Allow", "Allow for this session", "Deny"
_NO_ANSWER = "The user gave no answer."


class Question(msgspec.Struct, frozen=True):
    """A question to the user in the middle of a call."""

    message: str
    options: tuple[str, ...] = ()
    """Answers to choose from; empty for free text."""

    @property
    def form(self) -> dict[str, Any]:
        """The JSON schema of a form with the answer."""
        field: dict[str, Any] = {"type": "string", "title": "Answer"}
        if self.options:
            field["enum"] = list(self.options)
        return {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}

    def answer_in(self, content: Any) -> str | None:
        """Return the answer in a filled form; None if there is none, or if it is not one of the options."""
        said = content.get(ANSWER) if isinstance(content, dict) else None
        return said if isinstance(said, str) and (not self.options or said in self.options) else None


class Ended(msgspec.Struct, frozen=True):
    """The outcome of a prompt."""

    text: str = ""
    error: str = ""
    """Why the prompt did not complete; empty if it did."""
    changes: tuple[FileChange, ...] = ()


Ask = Callable[[Question], Awaitable[str | None]]
"""Returns the user's answer; None if there is none."""
Progress = Callable[[str], Awaitable[None]]


class EngineLink:
    """A session of the engine that runs prompts one at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._events: asyncio.Queue[ev.AnyEvent] = asyncio.Queue()
        self.turn = asyncio.Lock()
        """The lock held while a prompt runs, including related work."""
        self._pump = asyncio.create_task(self._take_events())

    async def run(self, prompt: UserInput, ask: Ask, progress: Progress) -> Ended:
        """Run a prompt; the caller holds the lock `turn`. Cancellation stops the turn, and waits for its end."""
        submission = await self._client.submit(prompt)
        try:
            return await self._until_end(submission, ask, progress)
        except asyncio.CancelledError:
            await asyncio.shield(self._stopped(submission))
            raise

    async def aclose(self) -> None:
        """Stop processing events."""
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)

    async def _take_events(self) -> None:
        async for event in self._client.events():
            self._events.put_nowait(event)

    async def _until_end(self, submission: str, ask: Ask, progress: Progress) -> Ended:
        while True:
            match await self._events.get():
                case ev.ApprovalRequested() as event:
                    decisions = [await _decision(item, asker(event), ask) for item in event.items]
                    await self._client.submit(ApprovalAnswer(event.request_id, tuple(decisions)))
                case ev.QuestionAsked() as event:
                    asked = "\n".join(filter(None, (asker(event), event.question)))
                    said = await ask(Question(asked, event.options))
                    await self._client.submit(QuestionAnswer(event.request_id, reply(said, event)))
                case ev.ToolCallStarted() as event:
                    await progress(f"{event.label or event.tool} {event.title}")
                case ev.ToolOutput() as event:
                    await progress(event.text)
                case ev.AgentChanged() as event:
                    await progress(f"{event.agent_name} {event.state} {event.line}".rstrip())
                case ev.SessionClosed() as event:
                    self._events.put_nowait(event)  # for later prompts, which the engine ignores
                    return Ended(error=event.error.message if event.error else "The session was closed.")
                case event if isinstance(event, ev.TERMINAL) and event.submission_id == submission:
                    return _ended(event)

    async def _stopped(self, submission: str) -> None:
        await self._client.submit(Interrupt())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._until_end(submission, _unheard, _unheard)


async def _unheard(said: object) -> None:
    """Answer nothing."""


def asker(event: ev.ApprovalRequested | ev.QuestionAsked) -> str:
    """Return the sub-agent that asks, with its task; empty for the main agent."""
    task = f" (its task: {visible(event.agent_task)})" if event.agent_task else ""
    return f"The sub-agent {event.agent_name}{task} asks:" if event.agent_name else ""


async def _decision(item: ev.ApprovalItem, asker: str, ask: Ask) -> Decision:
    options = (ALLOW, *((ALLOW_SESSION,) if item.grant else ()), DENY)
    said = await ask(Question("\n".join(filter(None, (asker, _shown(item)))), options))
    grant = item.grant if said == ALLOW_SESSION else ""
    return Decision(item.call_id, allow=said in (ALLOW, ALLOW_SESSION), grant=grant)


def _shown(item: ev.ApprovalItem) -> str:
    saved = f"\n“{ALLOW_SESSION}” saves the rule {item.grant}" if item.grant else ""
    return visible(f"{call_text(item)}\n{approval_reason(item)}{saved}")


def call_text(item: ev.ApprovalItem) -> str:
    """Return the whole command or change, or the call with its arguments. Untrusted text."""
    call = "" if item.preview_kind == "command" else f"{item.label or item.tool} {item.title}".strip()
    return "\n".join(filter(None, (call, item.preview)))


def approval_reason(item: ev.ApprovalItem) -> str:
    """Return why a call needs approval, and what it might do. Untrusted text."""
    folder = f"in {item.folder}" if item.folder not in ("", ".") else ""
    reach = {"network": "with network access", "outside": "outside the sandbox"}.get(item.reach, "")
    place = ", ".join(filter(None, (folder, reach)))
    lines = [
        f"Asked because: {item.reason} ({item.rule})",
        f"It runs {place}" if place else "",
        f"At worst: {item.risk}" if item.risk else "",
        f"A hook changed it:\n{item.rewrite}" if item.rewrite else "",
        "\n    ".join(["Its output ended with:", *item.output.split("\n")]) if item.output else "",
    ]
    return "\n".join(filter(None, lines))


def reply(said: str | None, question: ev.QuestionAsked) -> str:
    """Return the answer for the engine: the user's, or a default if there is none."""
    return said if said is not None else question.refusal or _NO_ANSWER


def _ended(event: ev.AnyEvent) -> Ended:
    match event:
        case ev.TurnCompleted():
            why = "" if event.stop_reason == "end_turn" else f"It ended early: {event.stop_reason}."
            return Ended(event.text, why, event.changes)
        case ev.TurnAborted():
            return Ended(event.text, f"It was stopped: {event.stop_reason}.", event.changes)
        case ev.TurnFailed():
            return Ended("", " ".join(filter(None, (event.error.message, event.error.hint))), event.changes)
        case _:
            return Ended()
