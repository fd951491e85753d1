"""The REPL without terminal features: for pipes, dumb terminals and screen readers.

Whole lines out, lines in; no cursor movement, no spinner, no colour: the output contains only printable
characters, tabs, line breaks and, on a terminal, the bell. Input is read in a thread, so events continue while
nothing is typed. At the end of the input the REPL exits after all requested work is done.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TextIO

import msgspec

from agent_cli.config.schema import Ui
from agent_cli.fs.waiting_io import write_to_terminal
from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.client import Client
from agent_cli.protocol.operations import (
    ApprovalAnswer,
    HistoryOperation,
    Operation,
    QuestionAnswer,
    Steer,
    UserInput,
)
from agent_cli.protocol.sanitize import clean

from ..commands.api import NOTHING, Choice, ExitReason, FirstInput, KeyGroup
from ..commands.registry import is_note
from ..conversation import resume_note
from ..conversation.conversation import Conversation, shell_command
from ..dialogs.answers import is_command_line, runs_now
from ..dialogs.base import GUARD_S, answer_first
from ..render.renderer import Renderer
from ..services import FrontEndServices
from ..signals import ENDING, signal_handlers
from ..text import lines
from ..text.theme import NONE, Theme
from .approval import ApprovalLines
from .line_reader import PROMPT, LineReader, Listed

_WIDTH = 100
"""Maximum line width in columns."""
_TURN_ROWS = 40
"""Approximate number of rows of a resumed session printed at once."""
_NO_PIPED_COMMANDS = "Not run: `!` needs a terminal. What is piped in is data."
_SENTENCES = (
    "Enter sends a line; a \\ at its end continues it. Ctrl-C stops a turn; with none running it quits.",
    "While a turn runs a line steers it, /queue TEXT queues a prompt, and /queue alone lists what waits.",
    "/more prints in full what was shortened last, then what came before it.",
    "/help lists the commands; the beginning of a name is enough where only one begins so.",
    "@ attaches a file, a folder, a URL, or an image by its path; #note saves a note to the memory.",
    "!command runs it yourself and shows the model its output with your next prompt; !!command keeps it private.",
)
_KEYS = (KeyGroup("", tuple(("", each) for each in _SENTENCES)),)
"""Sentences, because a table is hard to follow for a listener."""


async def run_plain(
    client: Client,
    host: FrontEndServices,
    settings: Ui,
    stdin: TextIO,
    stdout: TextIO,
    *,
    first_input: FirstInput = NOTHING,
) -> ExitReason:
    """Run the REPL line by line until the user leaves."""
    repl = PlainRepl(client, host, settings, stdin, stdout)
    return await repl.run(first_input)


class PlainRepl:
    """Turns events into lines, and lines into operations."""

    keys: tuple[KeyGroup, ...] = _KEYS

    def __init__(
        self, client: Client, host: FrontEndServices, settings: Ui, stdin: TextIO, stdout: TextIO
    ) -> None:
        self.client, self.host = client, host
        self.theme: Theme = NONE
        self._stdout = stdout
        settings = msgspec.structs.replace(settings, plain=True)
        self._renderer = Renderer(NONE, settings, lambda: self.columns, client.snapshot, "/more")
        self._terminal = stdin.isatty()
        self._conversation = Conversation(
            self, self._submitted, may_loosen=self._terminal, may_steer=self._terminal
        )
        self._rings = stdout.isatty() and settings.notify != "off"
        self._at_end = False
        self._prompted = False
        """True if the cursor is after a prompt of this REPL."""
        self._typed = ""
        """The prompt that the terminal itself has echoed, until its turn starts."""
        self._reader = LineReader(stdin)
        self._left = asyncio.Event()
        self._changed = asyncio.Event()
        self._open: list[ev.ApprovalRequested | ev.QuestionAsked] = []
        """The open questions: the first one is being asked, the others wait."""
        self._approval: ApprovalLines | None = None
        self._asked_at = 0.0
        self._picking = False

    async def run(self, first_input: FirstInput) -> ExitReason:
        """Run until the user leaves or the input ends."""
        self._reader.start()
        ended = {number: partial(self.exit_repl, ExitReason.by_signal(number)) for number in ENDING}
        with signal_handlers(ended | {signal.SIGINT: self._interrupt}):
            consumer = asyncio.ensure_future(self._consume())
            serving = asyncio.ensure_future(self._serve(first_input))
            leaving = asyncio.ensure_future(self._left.wait())
            try:
                await asyncio.wait({consumer, serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
                serving.cancel()
                self._rings = False
                await self._conversation.close(consumer)
            finally:
                for task in (consumer, serving, leaving):
                    task.cancel()
                await asyncio.gather(consumer, serving, leaving, return_exceptions=True)
        exit_reason = self._conversation.exit_reason
        if exit_reason.is_final and (how := resume_note.resume_line(self.client.snapshot())):
            self._renderer.notice(f"Resume with: {how}")
        self._flush()
        return exit_reason

    @property
    def columns(self) -> int:
        """Current width of the terminal in columns; `_WIDTH` if unknown."""
        try:
            return min(_WIDTH, os.get_terminal_size(self._stdout.fileno()).columns or _WIDTH)
        except (OSError, ValueError):
            return _WIDTH

    def _interrupt(self) -> None:
        """Handle Ctrl-C: cancel a pick, stop a command or the turn; leave if nothing is running."""
        if self._picking:
            self._reader.give_up()
        elif self._conversation.stop_command():
            pass
        elif self._conversation.open:
            self._stopping = asyncio.ensure_future(self._conversation.interrupt())
        else:
            self.exit_repl(ExitReason.by_signal(signal.SIGINT))

    async def _next_line(self) -> str | None:
        line = await self._reader.next()
        self._prompted = self._prompted and not self._terminal
        return line

    async def _serve(self, first_input: FirstInput) -> None:
        await self._conversation.carry_on()
        for text in self.client.snapshot().unsent:
            self.say(f"Queued when the program ended, and not sent: {clean(text)}")
        await self._conversation.begin(first_input)
        self._flush()
        self._invite()
        while not self._left.is_set() and (line := await self._next_line()) is not None:
            if not self._terminal:  # a script's next line is meant for the state after its last one
                await self._until(lambda: not self._conversation.open or self._question is not None)
            await self._line(line.rstrip("\r\n"), piped=not self._terminal)
        self._at_end = True
        for question in [*self._open]:
            await self._refuse(question)
        await self._until(lambda: not self._conversation.open)

    async def _until(self, settled: Callable[[], bool]) -> None:
        while not settled():
            self._changed.clear()
            await self._changed.wait()

    async def _line(self, line: str, *, piped: bool = False) -> None:
        while line.endswith("\\") and (more := await self._next_line()) is not None:
            line = line[:-1] + "\n" + more.rstrip("\r\n")
        if self._question is not None:
            await self._reply(self._question, line)
        elif piped and shell_command(line):
            self.say(_NO_PIPED_COMMANDS)
        elif line.strip():
            if self._terminal and not self._conversation.open:
                self._typed = line.strip()
            await self._conversation.send(line)
        self._flush()
        self._invite()

    async def submit(self, operation: Operation) -> None:
        """Submit an operation to the engine."""
        await self._conversation.submit(operation)

    def _submitted(self, operation: Operation) -> None:
        if (
            self._terminal
            and self.client.snapshot().busy
            and isinstance(operation, Steer | UserInput | HistoryOperation)
        ):
            when = "at the next step" if isinstance(operation, Steer) else "when this turn is over"
            self.say(f"· Goes on {when}; /queue shows what waits.")

    async def _consume(self) -> None:
        async for event in self._conversation.events():
            if isinstance(event, ev.TurnStarted) and self._typed and event.text.strip() == self._typed:
                event = msgspec.structs.replace(event, text="")  # it is on the line above already
                self._typed = ""
            self._renderer.handle(event)
            match event:
                case ev.SessionStarted(resumed=True):
                    if note := resume_note.where_it_stood(self.client.snapshot(), NONE, self.columns):
                        self.say(note, wrap=False)
                case ev.ApprovalRequested() | ev.QuestionAsked():
                    await self._ask(event)
                case ev.ApprovalResolved(request_id=request_id):
                    await self._leave([each for each in self._open if each.request_id != request_id])
                case ev.AgentChanged(agent_name=name) if event.state in ENDED:
                    await self._leave([each for each in self._open if each.agent_name != name])
                case ev.InputReturned():
                    for text in (*event.texts, *event.commands):
                        self.say(f"· Taken back, not sent: {clean(text)}")
                case ev.TurnCompleted() | ev.TurnAborted() | ev.TurnFailed():
                    await self._turn_over()
            self._flush()
            self._invite()
            self._changed.set()

    async def _turn_over(self) -> None:
        background = {each.name for each in self.client.snapshot().agents if each.background}
        await self._leave([each for each in self._open if each.agent_name in background])
        self._flush()
        self._ring()
        if self._rings:
            self.host.notify_turn_ended("a turn is over")

    @property
    def _question(self) -> ev.ApprovalRequested | ev.QuestionAsked | None:
        """The question that the next line answers."""
        return self._open[0] if self._open else None

    async def _ask(self, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
        if self._at_end:
            await self._refuse(event)
            return
        self._open.append(event)
        if len(self._open) == 1:
            await self._turn_to(event)

    async def _leave(self, left: list[ev.ApprovalRequested | ev.QuestionAsked]) -> None:
        """Close all questions but those in `left`; ask the next one if the first was closed."""
        before, self._open = self._question, left
        if self._question is not None and self._question is not before:
            await self._turn_to(self._question)

    async def _turn_to(self, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
        self._approval = None
        if isinstance(event, ev.ApprovalRequested):
            self._approval = ApprovalLines(event, may_change_mode=self._terminal)
        self._asked_at = time.monotonic()
        self._flush()
        self._ring()
        if not self._picking:
            await self._put(event)

    async def _put(self, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
        """Print the question, or submit the answer if no decision is left."""
        approval = self._approval
        if approval is not None and approval.calls.answer is not None:
            for change in approval.calls.mode_change:
                await self.submit(change)
            await self.submit(approval.calls.answer)
            await self._leave([each for each in self._open if each is not event])
        elif approval is not None:
            self.say("\n".join(approval.facts()))
            self._prompt(approval.prompt())
        elif isinstance(event, ev.QuestionAsked):
            options = [f"[{at}] {clean(option)}" for at, option in enumerate(event.options, 1)]
            if options:
                self.say("\n".join(options))
            to = f"To {lines.one_line(event.agent_name, 40)}: " if event.agent_name else ""
            self._prompt(f"{to}{'Number or answer: ' if options else 'Answer: '}")

    async def _refuse(self, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
        """Refuse a request: the input has ended, so nobody will answer."""
        self._open = [each for each in self._open if each is not event]
        if isinstance(event, ev.ApprovalRequested):
            refused = ApprovalAnswer(event.request_id)
            decided = self._approval.calls.so_far if self._approval else refused
            await self.submit(decided if decided.request_id == event.request_id else refused)
        else:
            await self.submit(QuestionAnswer(event.request_id, "Nobody is here to answer."))

    async def _reply(self, event: ev.ApprovalRequested | ev.QuestionAsked, line: str) -> None:
        approval = self._approval
        if self._terminal and time.monotonic() - self._asked_at < GUARD_S:
            self.say("Ignored: typed before the question appeared. Type it again.")
        elif is_command_line(line, self._own_names, any_name=approval is not None):
            await self._command_at_question(line)
        elif approval is not None:
            before = approval.calls.count
            if said := approval.take(line):
                self.say(said, wrap=False)
            if approval.calls.answer is None and approval.calls.count == before:
                self._prompt(approval.prompt())
                return
        elif isinstance(event, ev.QuestionAsked) and line.strip():
            chosen = line.strip()
            if chosen.isdecimal() and 1 <= int(chosen) <= len(event.options):
                line = event.options[int(chosen) - 1]
            await self.submit(QuestionAnswer(event.request_id, line))
            await self._leave([each for each in self._open if each is not event])
            return
        if self._question is event:
            await self._put(event)

    async def _command_at_question(self, line: str) -> None:
        """Run a command that can run while a question is open; the question stays."""
        if not (runs_now(line) or (self._terminal and is_note(line))):
            self.say(answer_first("Ctrl-C"))
        elif not self._terminal and shell_command(line):
            self.say(_NO_PIPED_COMMANDS)
        else:
            await self._conversation.send(line)

    def _own_names(self) -> list[str]:
        return [own.name for own in self.host.own_commands()]

    async def pick(self, title: str, choices: Sequence[Choice]) -> str:
        """Have the user pick a choice by number or part of its text; return its value, empty for none."""
        if not choices:
            return ""
        listed = Listed(title, choices)
        self.say("\n".join(listed.rows()))
        self._picking, picked, asked = True, None, self._question
        try:
            while picked is None:
                self._prompt(PROMPT)
                line = await self._next_line()
                picked, said = listed.take(line or "")
                if said:
                    self.say("\n".join(said))
                if picked is None and not self._terminal:  # a script's next line is not an answer to this
                    picked = ""
        finally:
            self._picking = False
        if self._question is not None and self._question is not asked:  # it arrived during the pick
            await self._put(self._question)
        return picked

    def say(self, text: str, wrap: bool = True) -> None:
        """Print lines that are already safe to print. Without `wrap`, do not break lines between words."""
        self._renderer.notice(text, wrap)
        self._flush()

    def prefill(self, text: str, note: str) -> None:
        """Show text that the user may change and send; a plain terminal cannot put it into the input line."""
        self.say(clean(text))

    def expand(self) -> None:
        """Print the text shortened last in full."""
        self._renderer.expand()

    def show_turns(self, turns: Iterator[Sequence[ev.AnyEvent]], count: int) -> None:
        """Print the newest of some turns; the earlier ones are folded."""
        self._renderer.replay(turns, count, _TURN_ROWS)
        self._flush()

    def summary(self) -> str:
        """Return the summary shown last."""
        return self._renderer.summary

    def use_theme(self, theme: Theme) -> None:
        """Do nothing: there are no colours."""

    def to_clipboard(self, text: str) -> bool:
        """Return False: only text is written here, so no terminal sequence can be sent."""
        return False

    def exit_repl(self, leaving: ExitReason) -> None:
        """End the REPL."""
        self._conversation.exit_reason = leaving
        self._left.set()

    def _ring(self) -> None:
        """Ring the bell for a user who looks elsewhere."""
        if self._rings:
            self._put_out("\a")

    def _invite(self) -> None:
        """Print a prompt if a user is at the terminal and nothing is running."""
        free = self._terminal and not self._conversation.open and not self._left.is_set() and not self._picking
        if free and not self._prompted:
            self._prompt("> ")

    def _prompt(self, text: str) -> None:
        """Print a prompt before the user's next line."""
        self._write(text)
        self._prompted = True

    def _flush(self) -> None:
        self._write(self._renderer.take())

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._prompted:
            self._prompted, text = False, "\n" + text
        self._put_out(clean(text))

    def _put_out(self, text: str) -> None:
        try:
            if self._stdout.isatty():
                data = text.encode(self._stdout.encoding, self._stdout.errors or "strict")
                self._stdout.flush()
                write_to_terminal(self._stdout.fileno(), data, self._conversation.exit_reason.signal)
            else:
                self._stdout.write(text)
                self._stdout.flush()
        except UnicodeEncodeError:
            self._put_out(text.encode("ascii", "replace").decode("ascii"))
        except (OSError, ValueError):
            self.exit_repl(ExitReason("quit"))
