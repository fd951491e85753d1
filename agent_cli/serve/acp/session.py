"""A session from the editor's point of view: events become updates, prompts become operations."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.operations import Interrupt, Operation, QuestionAnswer, Steer, UserInput

from ..jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from ..jsonrpc.peer import Peer
from ..sessions.event_log import Reader
from ..sessions.hosted import HostedSession
from . import options
from .asking import Asking
from .host import EditorServices
from .prompts import CANCELLED, OpenPrompt, OpenPrompts
from .updates import Update, Updates, usage
from .wire import ClientAbilities

_OUTPUT_S = 0.1
"""Minimum seconds between updates with output of running calls."""
STOP_S = 10.0
"""Seconds that the turn of a cancelled prompt has to end before the prompt is answered anyway."""
_MOST_PICKED = 12
"""Maximum number of choices shown as buttons; longer lists are only printed."""


class ClientSession:
    """A session of a client."""

    def __init__(
        self, hosted: HostedSession, services: EditorServices, peer: Peer, client: ClientAbilities
    ) -> None:
        """Nothing is sent before `begin`."""
        self.hosted = hosted
        self.folders: tuple[str, ...] = (hosted.client.snapshot().cwd,)
        """The folders that the user works in, that of the session first."""
        self._services = services
        self._peer = peer
        self._updates = Updates(hosted.client.snapshot().cwd, client, services)
        self._asking = Asking(peer, hosted.session_id, hosted.client, client, self._updates, self._send)
        self._prompts = OpenPrompts()
        self._question = ""
        """The question that the next prompt answers; empty for none."""
        self._submitted: dict[str, asyncio.Future[ev.AnyEvent]] = {}
        self._reader: Reader = hosted.log.reader(0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._title = hosted.client.snapshot().title
        self._models: tuple[str, ...] | None = None
        self._has_begun = False

    def begin(self) -> None:
        """Send the commands and the usage, and follow the events; only once."""
        if self._has_begun:
            return
        self._has_begun = True
        self._spawn(self._announce())
        self._spawn(self._follow())

    async def replay(self) -> None:
        """Send the conversation so far."""
        for turn in reversed(list(self.hosted.client.replay())):
            for event in turn:
                for update in self._updates.of(event, again=True):
                    self._send(update)
            await self._peer.writable()

    def choices(self) -> dict[str, Any]:
        """Return modes and options with the current values."""
        if self._models is None:
            self._models = tuple(self._services.models())
        return options.choices(self.hosted.client.snapshot(), self._models, self._services.efforts)

    async def choose(self, option: str, value: str) -> None:
        """Change the mode, the model or the effort.

        Raises:
            RpcError: the value is not accepted.
        """
        change = options.change(option, value, self._services.efforts)
        match self._services.with_advice(await self._carried_out(change)):
            case ev.OperationFailed(error=error) | ev.TurnFailed(error=error):
                raise RpcError(INVALID_PARAMS, f"{error.message} {error.hint}".strip())
            case ev.SessionClosed():
                raise RpcError(INTERNAL_ERROR, "The session was closed.")

    def open_prompt(self) -> OpenPrompt:
        """Return a new prompt, which can be cancelled from now on."""
        return self._prompts.begin()

    async def prompt(self, prompt: OpenPrompt, given: UserInput) -> str:
        """Submit a prompt; return the stop reason once it is answered.

        Raises:
            RpcError: the turn failed.
        """
        if prompt.answer.done():  # cancelled while its images were read
            return await prompt.answer
        handing = asyncio.create_task(self._hand_in(prompt, given))
        try:
            both: set[asyncio.Future[Any]] = {handing, prompt.answer}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if handing.done() and handing.exception() is not None and not prompt.answer.done():
                await handing
            return await asyncio.shield(prompt.answer)
        except asyncio.CancelledError:
            await self.cancel()
            return await prompt.answer
        finally:
            handing.cancel()
            prompt.end(CANCELLED)

    async def cancel(self) -> None:
        """Stop the turn; open prompts are answered with `cancelled`, after `STOP_S` at the latest."""
        waiting = list(self._prompts)
        for prompt in waiting:
            prompt.is_cancelled = True
            if not prompt.is_handed_in:
                prompt.end(CANCELLED)
        if self._prompts.turn or any(prompt.waits for prompt in waiting):
            await self.hosted.client.submit(Interrupt())
        loop = asyncio.get_running_loop()
        for prompt in waiting:
            loop.call_later(STOP_S, prompt.end, CANCELLED)

    async def aclose(self) -> None:
        """Stop sending."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._asking.aclose()
        self._reader.close()
        for prompt in self._prompts:
            prompt.end(CANCELLED)
        for future in self._submitted.values():
            future.cancel()

    async def _hand_in(self, prompt: OpenPrompt, given: UserInput) -> None:
        """Submit a prompt as an answer, a command, guidance for the running turn, or a prompt."""
        only_text = not given.images and not given.brought
        if self._question and given.text:
            request_id, self._question = self._question, ""
            prompt.waits |= {self._prompts.turn} - {""}
            prompt.is_handed_in = True
            await self.hosted.client.submit(QuestionAnswer(request_id, given.text))
            prompt.settle()
            return
        front = _Front(self, prompt, given)
        if given.text.startswith(("/", "$")) and await self._services.run_command(given.text, front):
            prompt.is_handed_in = True
            prompt.settle()
        elif self._prompts.turn and only_text:
            prompt.guidance, prompt.is_handed_in = given.text, True
            await self.submit_for(prompt, Steer(given.text))
        else:
            prompt.is_handed_in = True
            await self.submit_for(prompt, given)

    async def submit_for(self, prompt: OpenPrompt, operation: Operation) -> None:
        """Submit an operation; the answer of the prompt waits for its end."""
        if not prompt.answer.done():
            prompt.waits.add(await self.hosted.client.submit(operation))

    def warn(self, text: str) -> None:
        """Show a warning of the program."""
        self._show(ev.Notice(level="warning", text=text))

    def say(self, text: str) -> None:
        """Show a message of the program."""
        if text.strip():
            self._send(self._updates.said(text))

    async def pick(self, title: str, choices: Sequence[tuple[str, str]]) -> str:
        """Have the user pick a choice; a list too long for buttons is only printed, and nothing is picked."""
        if len(choices) <= _MOST_PICKED:
            return await self._asking.pick(title, choices)
        self.say("\n".join([title, *(f"- {label}" for _, label in choices)]))
        return ""

    async def _carried_out(self, operation: Operation) -> ev.AnyEvent:
        future: asyncio.Future[ev.AnyEvent] = asyncio.get_running_loop().create_future()
        submission = await self.hosted.client.submit(operation)
        self._submitted[submission] = future
        try:
            return await future
        finally:
            del self._submitted[submission]

    def _send(self, update: Update) -> None:
        self._peer.notify("session/update", {"sessionId": self.hosted.session_id, "update": update})

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce(self) -> None:
        commands = await asyncio.to_thread(self._services.commands)
        listed = [
            {
                "name": each.name,
                "description": each.description,
                **({"input": {"hint": each.hint}} if each.hint else {}),
            }
            for each in commands
        ]
        self._send({"sessionUpdate": "available_commands_update", "availableCommands": listed})
        self._show_usage()
        for note in self.hosted.notes:
            self.warn(note)

    async def _follow(self) -> None:
        """Send events as they arrive, joined for a slow client; output of calls is delayed briefly."""
        loop, due = asyncio.get_running_loop(), None
        while True:
            if due is None and self._updates.has_output:
                due = loop.time() + _OUTPUT_S
            event = None
            try:
                async with asyncio.timeout_at(due):
                    event = await self._reader.next()
                if event is None:
                    return
            except TimeoutError:
                pass
            is_output = isinstance(event, ev.ToolOutput | ev.AgentEvent)
            if not is_output or (due is not None and loop.time() >= due):
                for update in self._updates.output():
                    self._send(update)
                due = None
            if event is not None:
                event = self._services.with_advice(event)
                self._show(event)
                self._after(event)
                await self._peer.writable()

    def _show(self, event: ev.AnyEvent) -> None:
        """Send an event's updates. An event that cannot be shown must not prevent the answer to a prompt."""
        try:
            for update in self._updates.of(event):
                self._send(update)
        except Exception as error:
            print(f"agent: {type(event).__name__}: {type(error).__name__}: {error}", file=sys.stderr)

    def _after(self, event: ev.AnyEvent) -> None:
        """Ask, update usage and answer prompts, after an event was shown."""
        match event:
            case ev.QuestionAsked() if not self._asking.can_ask(event):
                self._ask_in_words(event)
            case ev.ApprovalRequested() | ev.QuestionAsked():
                self._asking.begin(event)
            case ev.ApprovalResolved(request_id=request_id):
                self._asking.withdraw(request_id)
            case ev.AgentChanged(agent_name=name, state=state) if state in ENDED:
                self._asking.withdraw_of(name)
            case ev.AnswerCompleted() | ev.Compacted() | ev.Restored():
                self._show_usage()
            case ev.SettingsChanged():
                chosen = self.choices()["configOptions"]
                self._send({"sessionUpdate": "config_option_update", "configOptions": chosen})
            case ev.TurnCompleted() | ev.TurnAborted() | ev.TurnFailed():
                self._question = ""
                self._asking.withdraw_of("")
                self._show_title()
            case ev.Renamed():
                self._show_title()
        is_end = isinstance(event, ev.SessionClosed)
        for submission, future in self._submitted.items():
            ended = is_end or (isinstance(event, ev.TERMINAL) and event.submission_id == submission)
            if ended and not future.done():
                future.set_result(event)
        self._prompts.follow(event)

    def _ask_in_words(self, event: ev.QuestionAsked) -> None:
        """Ask by ending the open prompts: the next prompt is the answer."""
        self.say(event.question)
        self._question = event.request_id
        for prompt in self._prompts:
            prompt.end("end_turn")

    def _show_usage(self) -> None:
        if update := usage(self.hosted.client.snapshot()):
            self._send(update)

    def _show_title(self) -> None:
        title = self.hosted.client.snapshot().title
        if title and title != self._title:
            self._title = title
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._send({"sessionUpdate": "session_info_update", "title": title, "updatedAt": now})


class _Front:
    """The context of a slash command in a prompt; see `CommandFront`."""

    def __init__(self, session: ClientSession, prompt: OpenPrompt, given: UserInput) -> None:
        self._session, self._prompt, self._given = session, prompt, given
        self.say = session.say
        self.pick = session.pick

    async def submit(self, operation: Operation) -> None:
        """Submit an operation to the engine; a prompt includes the content that came with the command."""
        if isinstance(operation, UserInput):
            given = self._given
            operation = msgspec.structs.replace(
                operation, images=(*operation.images, *given.images), brought=(*operation.brought, *given.brought)
            )
        await self._session.submit_for(self._prompt, operation)
