"""A user's conversation with the engine: input lines become operations, and events are followed until the end.

Owns no screen: a REPL reads input, calls this class, and draws. Both REPLs share it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar, get_args

import msgspec

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.client import SHUTDOWN_S, Snapshot
from agent_cli.protocol.events import TERMINAL, AnyEvent, Notice, TurnStarted
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import (
    ChangeSettings,
    Interrupt,
    Operation,
    Shutdown,
    Steer,
    TakeBack,
    UserCommand,
    UserInput,
)
from agent_cli.protocol.sanitize import clean

from ..commands import registry
from ..commands.api import Choice, CommandContext, ExitReason, FirstInput
from ..text import lines

_Result = TypeVar("_Result")
CYCLED_MODES: tuple[Mode, ...] = ("plan", "ask", "auto-edit")
"""The modes that one key cycles through; mode yolo, which asks for next to nothing, must be chosen by name."""


class LooserModeError(Exception):
    """A front end that may only tighten the mode requested a looser mode."""


class Conversation:
    """The REPL's response to lines, keys and events, independent of how it draws."""

    def __init__(
        self,
        context: CommandContext,
        on_submit: Callable[[Operation], None],
        *,
        may_loosen: bool = True,
        may_steer: bool = True,
    ) -> None:
        """`on_submit` is called after each submitted operation. Without `may_loosen` the mode can only be
        tightened; without `may_steer` a line sent during a turn becomes the next prompt."""
        self.exit_reason = ExitReason("quit")
        self.open: set[str] = set()
        """Submissions without a terminal event so far."""
        self._context, self._on_submit = context, on_submit
        self._may_loosen, self._may_steer = may_loosen, may_steer
        self._ended: set[str] = set()
        self._closing = False
        self._command: asyncio.Task[Any] | None = None
        """The user's own shell command, or a long slash command, while it runs."""
        self._background: asyncio.Event | None = None
        """Set to continue the shell command in the background; None if it must stay in the foreground."""
        self._commands: tuple[UserCommand, ...] = ()
        """The user's shell commands since the last prompt."""
        self._carried: dict[str, tuple[UserCommand, ...]] = {}
        """The shell commands that go with each prompt that has not begun, by submission."""
        self._begun = ""
        """The prompt that began last."""

    def snapshot(self) -> Snapshot:
        """Return the session's state."""
        return self._context.client.snapshot()

    async def submit(self, operation: Operation) -> None:
        """Submit an operation to the engine.

        Raises:
            LooserModeError: it would loosen the mode, which this front end must not do.
        """
        if not self._may_loosen and isinstance(operation, ChangeSettings) and operation.mode:
            order = get_args(Mode)
            if order.index(operation.mode) > order.index(self.snapshot().mode):
                raise LooserModeError("a looser mode is not taken from a pipe; start with --mode")
        if isinstance(operation, ChangeSettings) and operation.mode == "yolo":
            from ..commands.settings import confirms_yolo

            if not await confirms_yolo(self._context):
                return
        if isinstance(operation, UserInput) and operation.text.strip() and not operation.is_data:
            operation = msgspec.structs.replace(operation, commands=self._commands)
            self._commands = ()
        submission = await self._context.client.submit(operation)
        if submission not in self._ended:
            self.open.add(submission)
            if isinstance(operation, UserInput) and operation.commands and submission != self._begun:
                self._carried[submission] = operation.commands
        self._on_submit(operation)

    async def carry_on(self) -> None:
        """Continue the tool calls that the last run of the program left open."""
        if self.snapshot().open_calls:
            self._context.say("The last turn did not finish: carrying on with its open calls.")
            await self.submit(UserInput(""))

    async def begin(self, first_input: FirstInput) -> None:
        """Print the note, and send the first input of a session."""
        if first_input.note:
            self._context.say(clean(first_input.note))
        self._commands = first_input.commands + self._commands
        if run := first_input.commands:
            what = lines.one_line(f"!{run[0].command}", 60) if len(run) == 1 else f"{len(run)} of your !commands"
            self._context.say(f"The output of {what}, run before, is sent with your next prompt.")
        if first_input.has_piped_text:
            await self.submit(UserInput(first_input.text, is_data=not first_input.has_prompt))
        elif first_input.text.strip():
            await self.send(first_input.text)

    def send(self, text: str, images: tuple[Image, ...] = ()) -> Coroutine[None, None, None]:
        """Handle an input line: a slash command, the user's own shell command, guidance for a running turn, or a
        prompt. The kind is decided when this is called; guidance cannot carry images."""
        if command := registry.parse_input(text):
            return self._dotted(*command, text, images) if "." in command[0] else self._slash(*command)
        if shell := shell_command(text):
            return self._shell(shell)
        if text.strip() in ("!", "!!"):
            return self._explain_shell()
        if called := registry.skill_call(text):
            return self._skill(*called, text, images)
        if self._may_loosen and not images and registry.is_note(text):
            return self._note(text.strip())
        return self._prompt(text, images)

    def _prompt(self, text: str, images: tuple[Image, ...] = ()) -> Coroutine[None, None, None]:
        if self._may_steer and not images and self.snapshot().busy:
            return self.submit(Steer(text))
        return self.submit(UserInput(text, images))

    async def _skill(self, name: str, argument: str, text: str, images: tuple[Image, ...]) -> None:
        """Call a skill by `$name`; a line that names no skill is a prompt. The prompt is prepared first, because
        the turn that it may steer can end before the skills are loaded."""
        prompt = self._prompt(text, images)
        try:
            known, _ = await asyncio.to_thread(self._context.host.skills)
        except BaseException:
            prompt.close()
            raise
        if any(skill.name == name and skill.state != "off" for skill in known):
            prompt.close()
            await self._slash(f"skill:{name}", argument)
        else:
            await prompt

    async def _dotted(self, name: str, argument: str, text: str, images: tuple[Image, ...]) -> None:
        """Run a command whose name has a dot; a line that names none, such as `/index.html is blank`, is a prompt,
        which is prepared first."""
        prompt = self._prompt(text, images)
        try:
            own = await asyncio.to_thread(self._context.host.own_commands)
        except BaseException:
            prompt.close()
            raise
        if registry.is_own(name, own):
            prompt.close()
            await self._slash(name, argument)
        else:
            await prompt

    async def _slash(self, name: str, argument: str) -> None:
        try:
            work = registry.run(self._context, name, argument)
            if not registry.is_long(name):
                await work
            elif (done := await self._stoppable(work)) is not None:
                self._context.say("Stopped.") if done.cancelled() else done.result()
        except Exception as problem:  # report any error, so that the next line is read
            self._context.say(f"/{name} failed: {lines.one_line(str(problem)) or type(problem).__name__}")

    async def _stoppable(
        self, work: Coroutine[None, None, _Result], background: asyncio.Event | None = None
    ) -> "asyncio.Task[_Result] | None":
        """Run a command that Esc can stop; return it when it has ended, None if another is running."""
        if self._command is not None:
            work.close()
            self._context.say("A command is running already; Esc stops it.")
            return None
        self._background = background
        self._command = command = asyncio.ensure_future(work)
        try:
            await asyncio.wait({command})
        finally:
            command.cancel()
            self._command = None
        return command

    @property
    def runs_command(self) -> bool:
        """True if a command is running that Esc can stop."""
        return self._command is not None

    def stop_command(self) -> bool:
        """Stop the running command; return False if none is running."""
        return self._command is not None and self._command.cancel()

    @property
    def may_move_command(self) -> bool:
        """True if the user's own shell command is running and can continue in the background."""
        return self.runs_command and self._background is not None

    def move_command_to_background(self) -> None:
        """Continue the user's own shell command as a background job, or print why it cannot continue there."""
        if self._background is not None:
            self._background.set()
        else:
            self._context.say("This stays in the foreground: the model could read a job's output.")

    async def _note(self, text: str) -> None:
        """Ask where to store a line `#note`, because a prompt may also begin with `#`."""
        note = text.removeprefix("#").strip()
        match await self._context.pick(f"Remember: {lines.one_line(note, 60)}", _NOTE_PLACES):
            case "project" | "user" as scope:
                self._context.say(self._context.host.add_note(scope, note))
            case "prompt":
                await self._prompt(text)
            case _:
                self._context.prefill(text, "Not saved; the line is back.")

    async def _explain_shell(self) -> None:
        self._context.say(_SHELL_USAGE)

    async def _shell(self, line: "ShellLine") -> None:
        from .user_shell import run_shell_command

        background = None if line.is_private else asyncio.Event()
        done = await self._stoppable(run_shell_command(line.command, self._context, background), background)
        if done and not line.is_private and not done.cancelled() and done.exception() is None:
            self._commands += (done.result(),)

    async def interrupt(self) -> None:
        """Interrupt the running turn and get its queued prompts back."""
        await self.submit(Interrupt())

    def take_back(self) -> Coroutine[None, None, None] | None:
        """Take back the newest queued prompt; return None if none is queued."""
        return self.submit(TakeBack()) if self.snapshot().waiting else None

    async def cycle_mode(self) -> None:
        """Change to the next of `CYCLED_MODES`."""
        now = self.snapshot().mode
        at = CYCLED_MODES.index(now) + 1 if now in CYCLED_MODES else 0
        await self.submit(ChangeSettings(mode=CYCLED_MODES[at % len(CYCLED_MODES)]))

    async def events(self) -> AsyncIterator[AnyEvent]:
        """Yield the engine's events; while the session closes, only its notices."""
        async for event in self._context.client.events():
            if isinstance(event, TurnStarted):
                self._begun = event.submission_id
                self._carried.pop(event.submission_id, None)
            if isinstance(event, TERMINAL):
                self._ended.add(event.submission_id)
                self.open.discard(event.submission_id)
                self._commands = self._carried.pop(event.submission_id, ()) + self._commands
            if not self._closing or isinstance(event, Notice):
                yield _worded(event, self.snapshot())

    async def close(self, consumer: "asyncio.Future[None]") -> None:
        """Shut the engine down and wait for `consumer`, which shows the last notices. The exit reason then has the
        output for the next prompt, which the next session sends."""
        self._closing = True
        self.stop_command()
        if self.exit_reason.kind in ("interrupted", "terminated"):
            await self._context.client.submit(Interrupt(self.exit_reason.kind))
        await self._context.client.submit(Shutdown())
        await asyncio.wait({consumer}, timeout=SHUTDOWN_S)
        self.exit_reason = msgspec.structs.replace(self.exit_reason, commands=self._commands)


def _worded(event: AnyEvent, now: Snapshot) -> AnyEvent:
    """Return an event whose error, if any, has advice in the REPL's words."""
    if getattr(event, "error", None) is None:
        return event
    from ..text.hints import with_advice

    return with_advice(event, "repl", now)


_NOTE_PLACES = (
    Choice("project", "project memory", "for every later conversation in this project"),
    Choice("user", "user memory", "for every later conversation"),
    Choice("prompt", "no note", "send the line to the model as it is"),
)
_SHELL_USAGE = (
    "!COMMAND runs a shell command; the model sees its output with your next prompt. !!COMMAND keeps it private."
)


class ShellLine(msgspec.Struct, frozen=True):
    """A line `!command` or `!!command`."""

    command: str
    is_private: bool
    """True if its output is hidden from the model."""


def shell_command(text: str) -> ShellLine | None:
    """Return the command of a line `!command` or `!!command`; None for any other line."""
    if not text.startswith("!"):
        return None
    command = text[2:].strip() if text.startswith("!!") else text[1:].strip()
    return ShellLine(command, text.startswith("!!")) if command else None
