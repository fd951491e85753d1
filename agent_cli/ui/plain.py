"""The REPL without a terminal's abilities: for pipes, dumb terminals and screen readers.

Whole lines out, lines in; no cursor movement, no spinner, no colour. Input is read in a thread, so events
go on while nothing is typed. The end of the input means leaving, once all that was asked for is done.
"""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import TextIO

import msgspec

from ..config.schema import Ui
from ..protocol import events as ev
from ..protocol.client import Client, ContextPicture, RewindPoint, Snapshot
from ..protocol.operations import (
    ApprovalAnswer,
    Decision,
    Interrupt,
    Operation,
    QuestionAnswer,
    Shutdown,
    Steer,
    UserInput,
)
from ..protocol.sanitize import Sanitizer, clean
from . import coming_back, commands, lines
from .approve import NO, REACH, YES
from .desk import Leaving
from .dialog import ANSWER_FIRST, GUARD_S
from .host import SHUTDOWN_S, Host
from .render import Renderer
from .theme import NONE, Theme

_WIDTH = 100
"""Columns that a line is broken for."""


async def run_plain(
    client: Client, host: Host, settings: Ui, stdin: TextIO, stdout: TextIO, *, first_input: str = ""
) -> Leaving:
    """Talk to the user line by line until they leave."""
    repl = PlainRepl(client, host, settings, stdin, stdout)
    return await repl.run(first_input)


class _Tracked:
    """A client that tells which submissions were made."""

    def __init__(self, client: Client, made: Callable[[str], None]) -> None:
        self._client, self._made = client, made

    async def submit(self, operation: Operation) -> str:
        submission = await self._client.submit(operation)
        self._made(submission)
        return submission

    def events(self) -> AsyncIterator[ev.AnyEvent]:
        return self._client.events()

    def snapshot(self) -> Snapshot:
        return self._client.snapshot()

    def context(self) -> ContextPicture:
        return self._client.context()

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        return self._client.rewind_points()

    async def diff(self) -> str:
        return await self._client.diff()


class PlainRepl:
    """Events to lines, lines to operations."""

    def __init__(self, client: Client, host: Host, settings: Ui, stdin: TextIO, stdout: TextIO) -> None:
        self.client: Client = _Tracked(client, self._submitted)
        self.host = host
        self.theme: Theme = NONE
        self._stdin, self._stdout = stdin, stdout
        self._renderer = Renderer(
            NONE,
            msgspec.structs.replace(settings, plain=True),
            lambda: _WIDTH,
            client.snapshot,
            "/diff shows all changes",
        )
        self._terminal = stdin.isatty()
        self._at_end = False
        self._closing = False
        self._prompted = False
        """Whether the cursor stands behind a prompt of ours."""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._wanted = threading.Semaphore(0)
        """Lines asked for and not read yet; a line nobody asks for belongs to the next session."""
        self._leaving: Leaving | None = None
        self._left = asyncio.Event()
        self._open: set[str] = set()
        """Submissions without a terminal event yet."""
        self._ended: set[str] = set()
        self._changed = asyncio.Event()
        self._question: ev.ApprovalRequested | ev.QuestionAsked | None = None
        self._asked_at = 0.0

    async def run(self, first_input: str) -> Leaving:
        """Run until the user leaves or the input ends."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        consumer = asyncio.ensure_future(self._consume())
        serving = asyncio.ensure_future(self._serve(first_input))
        leaving = asyncio.ensure_future(self._left.wait())
        try:
            await asyncio.wait({consumer, serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            self._closing = True
            await self.client.submit(Shutdown())
            await asyncio.wait({consumer}, timeout=SHUTDOWN_S)
        finally:
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
                loop.remove_signal_handler(signal.SIGINT)
            for task in (consumer, serving, leaving):
                task.cancel()
            await asyncio.gather(consumer, serving, leaving, return_exceptions=True)
        now = self.client.snapshot()
        if now.session_path and now.turns and not (self._leaving and self._leaving.kind != "quit"):
            self._renderer.notice(f"Resume with: agent resume {now.session_id}")
        self._flush()
        return self._leaving or Leaving("quit")

    def _interrupt(self) -> None:
        """Ctrl-C: stop the turn; leave when nothing runs."""
        if self._open:
            self._stopping = asyncio.ensure_future(self.client.submit(Interrupt()))
        else:
            self.leave(Leaving("quit"))

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread of its own: blocking reads."""
        while True:
            self._wanted.acquire()
            try:
                line = self._stdin.readline() or None
            except (OSError, ValueError):
                line = None
            try:
                loop.call_soon_threadsafe(self._lines.put_nowait, line)
            except RuntimeError:  # the loop is closed: nobody listens any more
                return

    async def _next_line(self) -> str | None:
        self._wanted.release()
        return await self._lines.get()

    async def _serve(self, first_input: str) -> None:
        if self.client.snapshot().open_calls:
            self.say("The last turn did not finish: carrying on with its open calls.")
            await self.client.submit(UserInput(""))
        for text in self.client.snapshot().unsent:
            self.say(f"Queued when the program ended, and not sent: {clean(text)}")
        if first_input.strip():
            await self._line(first_input)
        while not self._left.is_set() and (line := await self._next_line()) is not None:
            if not self._terminal:  # a script's next line is meant for what comes after its last one
                await self._until(lambda: not self._open or self._question is not None)
            await self._line(line.rstrip("\r\n"))
        self._at_end = True
        if self._question is not None:
            await self._refuse(self._question)
        await self._until(lambda: not self._open)

    async def _until(self, settled: Callable[[], bool]) -> None:
        while not settled():
            self._changed.clear()
            await self._changed.wait()

    async def _line(self, line: str) -> None:
        self._prompted = False
        while line.endswith("\\") and (more := await self._next_line()) is not None:
            line = line[:-1] + "\n" + more.rstrip("\r\n")
        if self._question is not None:
            await self._reply(self._question, line)
        elif command := commands.parse(line):
            await commands.run(self, *command)
        elif line.startswith("!") and line[1:].strip():
            await self._run_command(line[1:].strip())
        elif line.strip():
            busy = self.client.snapshot().busy and self._terminal
            await self.client.submit(Steer(line) if busy else UserInput(line))
        self._flush()
        self._invite()

    def _submitted(self, submission: str) -> None:
        if submission not in self._ended:
            self._open.add(submission)

    async def _consume(self) -> None:
        async for event in self.client.events():
            if self._closing and not isinstance(event, ev.Notice):
                continue
            self._renderer.handle(event)
            if isinstance(event, ev.TERMINAL):
                self._ended.add(event.submission_id)
                self._open.discard(event.submission_id)
            match event:
                case ev.SessionStarted(resumed=True):
                    if told := coming_back.where_it_stood(self.client.snapshot(), NONE, _WIDTH):
                        self.say(told, wrap=False)
                case ev.ApprovalRequested() | ev.QuestionAsked():
                    await self._ask(event)
                case ev.ApprovalResolved():
                    self._question = None
                case ev.TurnCompleted() | ev.TurnAborted() | ev.TurnFailed():
                    self._question = None
                case _:
                    pass
            self._flush()
            self._invite()
            self._changed.set()

    async def _ask(self, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
        if self._at_end:
            await self._refuse(event)
            return
        self._question, self._asked_at = event, time.monotonic()
        if isinstance(event, ev.QuestionAsked):
            options = [f"  [{at}] {clean(option)}" for at, option in enumerate(event.options, 1)]
            self.say("\n".join([*options, "Your answer:"]))
            return
        for item in event.items:
            self.say(f"Why: {lines.one_line(item.reason, 300)} [{lines.one_line(item.rule, 120)}]")
            for more in filter(
                None, (REACH.get(item.reach), item.risk and f"Risk: {lines.one_line(item.risk, 300)}")
            ):
                self.say(more)
        self.say("[y] yes, [n] no, or type what to do instead:")

    async def _refuse(self, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
        """The input is over, so nobody will answer."""
        self._question = None
        if isinstance(event, ev.ApprovalRequested):
            await self.client.submit(ApprovalAnswer(event.request_id))
        else:
            await self.client.submit(QuestionAnswer(event.request_id, "Nobody is here to answer."))

    async def _reply(self, event: ev.ApprovalRequested | ev.QuestionAsked, line: str) -> None:
        if self._terminal and time.monotonic() - self._asked_at < GUARD_S:
            self.say("Ignored, since it was typed before the question stood. Again, please:")
            return
        if commands.is_command(line):
            self.say(ANSWER_FIRST.replace("Esc", "Ctrl-C"))
            return
        if isinstance(event, ev.QuestionAsked):
            chosen = line.strip()
            options = event.options
            if chosen.isdecimal() and 1 <= int(chosen) <= len(options):
                line = options[int(chosen) - 1]
            if line.strip():
                self._question = None
                await self.client.submit(QuestionAnswer(event.request_id, line))
        elif line.strip():
            self._question = None
            await self.client.submit(_decided(event, line))

    async def _run_command(self, command: str) -> None:
        sanitizer = Sanitizer()
        code = await self.host.run_command(command, lambda text: self._write(sanitizer.feed(text)))
        self._write(sanitizer.feed("", final=True))
        self.say(f"exit {code}")

    def say(self, text: str, wrap: bool = True) -> None:
        """Print lines that are safe already; without `wrap` they are not broken between words."""
        self._renderer.notice(text, wrap)
        self._flush()

    def propose(self, text: str, note: str) -> None:
        """Show text that may be changed and sent; a plain terminal cannot put it where the user types."""
        self.say(clean(text))

    def summary(self) -> str:
        """The summary that was shown last."""
        return self._renderer.summary

    def leave(self, leaving: Leaving) -> None:
        """End the REPL."""
        self._leaving = leaving
        self._left.set()

    def _invite(self) -> None:
        """A prompt, where a person sits and nothing runs."""
        if self._terminal and not self._open and not self._prompted and not self._left.is_set():
            self._write("> ")
            self._prompted = True

    def _flush(self) -> None:
        self._write(self._renderer.take())

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._prompted:
            self._prompted, text = False, "\n" + text
        try:
            self._stdout.write(text)
            self._stdout.flush()
        except UnicodeEncodeError:
            self._write(text.encode("ascii", "replace").decode("ascii"))
        except (OSError, ValueError):
            self.leave(Leaving("quit"))


def _decided(request: ev.ApprovalRequested, line: str) -> ApprovalAnswer:
    """One answer for every call of a request."""
    word = line.strip().lower()
    allow = word in YES
    feedback = "" if word in YES | NO else line
    return ApprovalAnswer(
        request.request_id, tuple(Decision(item.call_id, allow, feedback) for item in request.items)
    )
