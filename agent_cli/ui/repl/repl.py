"""The interactive loop: events to the screen, keys and commands to the engine.

Heavy rendering libraries are imported in a thread once the prompt is shown, so that the first key is never
delayed.
"""

import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.actions import Mode
from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.client import SHUTDOWN_S, Client, Snapshot
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import Operation, UserInput

from ..commands import registry
from ..commands.api import Choice, ExitReason, FirstInput, KeyGroup
from ..conversation import resume_note
from ..conversation.conversation import Conversation
from ..dialogs.base import Dialog
from ..dialogs.dialog_queue import DialogQueue
from ..dialogs.picker import Picker
from ..notifications import Notifications
from ..render.renderer import Renderer, warm_up
from ..services import FrontEndServices
from ..signals import ENDING, signal_handlers
from ..text import lines
from ..text.theme import Theme, choose
from . import pending_input
from .completion import InputCompleter
from .drafts import DraftFile
from .first_paint import FirstPaint
from .screen import Screen
from .status_line import render_status
from .terminal import WindowTitle

_FRAME_S = 0.05
_WAITING = "? A call waits for your answer: Alt-A now, or once your line is sent or empty."
_TICK_S = 0.1
_POLL_S = 0.005
_NOTIFY_S = 10.0
_BREATHE_EVERY = 20
"""Number of events handled in a row before keys get a turn."""
_KEYS = (
    KeyGroup(
        "Input",
        (
            ("Enter", "send"),
            ("Ctrl-J, Alt-Enter", "break the line; so do \\ and Enter"),
            ("Tab", "complete a command, its argument or a path"),
            ("Up, Ctrl-R", "an earlier input; search the earlier inputs"),
            ("Ctrl-G", "edit the line in $EDITOR"),
            ("Ctrl-V", "attach the image in the clipboard"),
            ("Shift-Tab", "change the mode: plan, ask, auto-edit"),
            ("Ctrl-O", "show folded output in full"),
            ("Ctrl-L", "clear the screen"),
            ("Esc Esc", "rewind to before an earlier prompt, at an empty line"),
            ("Ctrl-D, Ctrl-C Ctrl-C", "quit, at an empty line"),
        ),
    ),
    KeyGroup(
        "While it works",
        (
            ("Enter", "steer: the model gets the text at its next step"),
            ("Tab", "queue the text as the next prompt"),
            ("Up", "take back what waits, at an empty line"),
            ("Esc, Ctrl-C", "stop"),
            ("Ctrl-B", "move your running !command to the background"),
        ),
    ),
    KeyGroup(
        "At a question",
        (
            ("a number, a letter", "an answer; other words refuse and go to the model"),
            ("Up, Down", "select an answer; Enter takes it"),
            ("Alt-Y, Alt-N", "yes or no, at once"),
            ("Shift-Tab", "accept this edit and all later ones"),
        ),
    ),
    KeyGroup(
        "In a line",
        (
            ("/command", "Enter runs the top row of the menu"),
            ("@path", "attach a file, a folder or a URL"),
            ("#note", "save a note to the memory"),
            ("!command", "run it yourself; your next prompt sends its output"),
            ("!!command", "run it yourself and keep its output private"),
        ),
    ),
)


class Repl:
    """Connects the client's queues to the screen."""

    keys: tuple[KeyGroup, ...] = _KEYS

    def __init__(
        self, client: Client, host: FrontEndServices, settings: Ui, history_file: Path, painted: FirstPaint
    ) -> None:
        """`painted` is the view already on the screen."""
        self.client, self.host = client, host
        self._first_paint = painted
        self._has_banner = bool(painted.banner)
        """True if the banner is on the screen already, and the renderer has not printed its own yet."""
        self.theme: Theme = choose(settings)
        self._settings = settings
        self._images = PastedImages()
        self._conversation = Conversation(self, lambda _: self._changed())
        self._tasks: set[asyncio.Task[None]] = set()
        self._now: Snapshot = client.snapshot()
        self._turn_began = 0.0
        self._has_started = asyncio.Event()
        """Set when the session is open and its earlier turns are shown."""
        self._awake = asyncio.Event()
        self._branch = painted.branch
        self._painted_at = 0.0
        self._paint_due = False
        completer = InputCompleter(self, lambda: self._now.cwd, self.host.paths)
        self._screen = Screen(
            self, self.theme, completer, history_file, painted.keyboard, vi_mode=settings.vi_mode
        )
        self.dialogs = DialogQueue(self._screen, self.say, self._submit, self._changed)
        self.attention = Notifications(settings, self._screen.send, self._notify, host.notify_turn_ended)
        self._title = WindowTitle(self._screen.send) if settings.title else None
        self._draft = DraftFile(history_file.with_name("drafts"), self._now.cwd)
        self._renderer = Renderer(self.theme, settings, lambda: self._screen.columns, client.snapshot)

    @property
    def columns(self) -> int:
        """Width of the terminal in columns."""
        return self._screen.columns

    async def run(self, first_input: FirstInput) -> ExitReason:
        """Run until the user leaves."""
        with signal_handlers({number: partial(self._end, number) for number in ENDING}):
            consumer = self._spawn(self._consume())
            self._spawn(self._tick())
            self._spawn(self._begin(first_input))
            try:
                try:
                    self._first_paint.give_way()
                    await self._screen.run()
                except (EOFError, OSError):  # the terminal is gone
                    self._end(signal.SIGHUP)
                await self._conversation.close(consumer)
            finally:
                await self._stop_tasks()
        leaving = self._conversation.exit_reason
        if leaving.is_final:
            self._draft.keep(self._screen.unsent_text)
        else:
            leaving = msgspec.structs.replace(leaving, draft=self._screen.text)
            self._draft.close()
        rest = self._screen.flush_pending() + self._without_banner(self._renderer.take(final=True))
        if leaving.is_final and (how := resume_note.resume_line(self.client.snapshot())):
            rest += f"Resume with: {how}\n"
        rest += self._title.restore() if self._title else ""
        with contextlib.suppress(OSError):
            sys.stdout.write(rest)
            sys.stdout.flush()
        return leaving

    def _end(self, number: signal.Signals) -> None:
        """End the program on a signal. SIGINT from a key in the user's editor is left to the editor."""
        if number != signal.SIGINT or not self._screen.has_editor:
            self._screen.end_by(number)
            self.exit_repl(ExitReason.by_signal(number))

    async def _stop_tasks(self) -> None:
        self._conversation.stop_command()
        self.dialogs.cancel_pickers()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SHUTDOWN_S)

    async def _begin(self, first_input: FirstInput) -> None:
        """Start the work that waits until the prompt is shown."""
        await self._prompt_stands()
        self._paint()
        if self._settings.markdown:
            threading.Thread(target=warm_up, daemon=True).start()
        await self._has_started.wait()
        await self._conversation.carry_on()
        while self._screen.has_early:  # otherwise typed-ahead text would be sent together with it
            await asyncio.sleep(_POLL_S)
        self._screen.prefill(first_input.draft)
        for lost in resume_note.lost_images(first_input.draft):
            self.say(lost)
        drafts = self._draft.left_behind()
        if self._now.unsent or drafts:
            note, text = resume_note.never_sent(self._now, drafts)
            self.prefill(text, note)
        if not first_input.has_piped_text and registry.parse_input(first_input.text):
            self._renderer.echo(first_input.text)
        await self._conversation.begin(first_input)

    async def _prompt_stands(self) -> None:
        while not self._screen.app.render_counter:
            await asyncio.sleep(_POLL_S)

    def _spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self.say(f"Something broke in here: {type(problem).__name__}: {lines.one_line(str(problem))}")

    async def submit(self, operation: Operation) -> None:
        """Submit an operation to the engine."""
        await self._conversation.submit(operation)

    def _submit(self, operation: Operation) -> None:
        self._spawn(self.submit(operation))

    async def _consume(self) -> None:
        count = 0
        try:
            async for event in self._conversation.events():
                if isinstance(event, ev.SessionStarted) and event.resumed:
                    await self._prompt_stands()
                    await asyncio.to_thread(warm_up)
                self._take_in(event)
                count += 1
                if count % _BREATHE_EVERY == 0:
                    await asyncio.sleep(0)
        except Exception as problem:
            self._renderer.notice(f"The engine stopped: {type(problem).__name__}")
        self._screen.exit()

    def _take_in(self, event: ev.AnyEvent) -> None:
        self._renderer.handle(event)
        match event:
            case ev.ApprovalRequested():
                from ..dialogs.approval import ApprovalDialog

                dialog = ApprovalDialog(event, time.monotonic())
                self._make_room(dialog)
                self.dialogs.ask(dialog)
                self.attention.answer_needed(f"{_of(event.agent_name)}a call waits for your answer")
            case ev.QuestionAsked():
                from ..dialogs.question import QuestionDialog

                question = QuestionDialog(event, time.monotonic(), self._own_names)
                self._make_room(question)
                self.dialogs.ask(question)
                self.attention.answer_needed(f"{_of(event.agent_name)}a question waits for your answer")
            case ev.AgentChanged() if event.state in ENDED:
                self.dialogs.agent_ended(event.agent_name)
            case ev.ApprovalResolved():
                self.dialogs.resolved(event.request_id)
            case ev.InputReturned():
                self._take_in_returned(event)
            case ev.TurnStarted():
                self._turn_began = time.monotonic()
            case ev.SessionStarted():
                if event.resumed:
                    self._look_back()
                self._has_started.set()
            case ev.Restored(kind="rewind", what="both" | "conversation") if self._screen.remember(event.prompt):
                self.say("· Up brings the prompt back.")
            case ev.TurnCompleted() | ev.TurnAborted() | ev.TurnFailed():
                self._turn_over(event)
        self._changed()

    def _make_room(self, dialog: Dialog) -> None:
        """Print the commands or the options of a question above it if the window is too small for the question
        with them."""
        from ..dialogs.approval import ApprovalDialog
        from ..dialogs.question import QuestionDialog

        columns, rows = self._screen.columns, self._screen.dialog_rows
        if isinstance(dialog, ApprovalDialog) and (commands := dialog.move_commands(self.theme, columns, rows)):
            self._renderer.print_commands(commands)
            self._changed()
        elif isinstance(dialog, QuestionDialog) and (options := dialog.move_options(columns, rows)):
            self._renderer.print_options(options)
            self._changed()

    def _own_names(self) -> list[str]:
        """Return the names of the user's own commands."""
        return [own.name for own in self.host.own_commands()]

    def _take_in_returned(self, event: ev.InputReturned) -> None:
        """Put returned input back into the input line."""
        self._now = self.client.snapshot()
        text, said = pending_input.restore(event, self._screen.text)
        self._screen.put(text)
        if said:
            self.say(f"· {said}")

    def _look_back(self) -> None:
        """Show the end of the conversation when a session is resumed."""
        self._now = self.client.snapshot()
        self._renderer.replay(self.client.replay(), self._now.turns, self._screen.rows)
        if note := resume_note.what_stopped(self._now):
            self.say(note)

    def _turn_over(self, event: ev.TurnCompleted | ev.TurnAborted | ev.TurnFailed) -> None:
        self.dialogs.clear({each.name for each in self.client.snapshot().agents if each.background})
        self._branch = self.host.branch()
        done = "done" if isinstance(event, ev.TurnCompleted) else "stopped"
        self.attention.turn_ended(f"{done}: {self._now.title}", time.monotonic() - self._turn_began)

    def _notify(self, command: str) -> None:
        """Run the user's notifier command, ignoring its outcome."""

        async def run() -> None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self.host.run_command(command, lambda _: None), _NOTIFY_S)

        self._spawn(run())

    def _changed(self) -> None:
        """Schedule a paint, at most once per frame interval."""
        self.wake()
        if not self._paint_due:
            self._paint_due = True
            wait = self._painted_at + _FRAME_S - time.monotonic()
            asyncio.get_running_loop().call_later(max(0.0, wait), self._paint)

    def _paint(self) -> None:
        self._paint_due = False
        self._painted_at = time.monotonic()
        self._now = self.client.snapshot()
        if self._title:
            self._title.show(self._now.cwd, self._now.title)
        if text := self._without_banner(self._renderer.take()):
            self._screen.print(text)
        else:
            self._screen.repaint()

    def _without_banner(self, text: str) -> str:
        """Return the text to print without the banner, if that is on the screen already, perhaps at another
        width."""
        if self._has_banner and (banner := self._first_paint.banner_at(self._screen.columns)) in text:
            text, self._has_banner = text.replace(banner, "", 1), False
        return text

    async def _tick(self) -> None:
        """Keep clocks and spinners running while there is activity. Otherwise the program sleeps: it runs all day
        on battery."""
        while True:
            await self._awake.wait()
            await asyncio.sleep(_TICK_S)
            self.dialogs.tick()
            if self.dialogs.dialog is not None:
                self._make_room(self.dialogs.dialog)  # the window may have become smaller
            self._draft.keep(self._screen.unsent_text)
            if not self.busy():
                if not self.dialogs.waits:
                    self._awake.clear()
            elif self._screen.is_outdated:
                self._changed()

    def wake(self) -> None:
        """Resume the ticks: a key was pressed or an event arrived, so there may be activity."""
        self._awake.set()

    def frame(self, rows: int) -> list[str]:
        """Return the lines of the live region, without a dialog."""
        can_take_back = not self._screen.text
        handed_in = pending_input.rows(self._now, self._screen.columns, can_take_back=can_take_back)
        if self._conversation.may_move_command:
            handed_in.append("Ctrl-B moves it to the background")
        out = self._renderer.frame(tuple(handed_in), rows, self.busy())
        if self.dialogs.waits:
            out.append(self.theme.paint("warning", lines.truncate(_WAITING, self._screen.columns)))
        return out

    def status(self) -> str:
        """Return the line below the input."""
        sign = self._screen.vi_sign
        return sign + render_status(self._now, self._branch, self.theme, self._screen.columns - len(sign))

    def mode(self) -> Mode:
        """Return the approval mode, which sets the colour of the input line's mark."""
        return self._now.mode

    def busy(self) -> bool:
        """Return True if Esc has something to stop."""
        now = self.client.snapshot()
        working = now.busy or now.compacting or self._conversation.runs_command
        return working or self._renderer.live.busy_since is not None

    def send(self, text: str) -> None:
        """Handle Enter: carry out a line."""
        if registry.parse_input(text):
            self._renderer.echo(text)
        self._spawn(self._carry_out(self._conversation.send(text, self._images.take(text))))

    async def _carry_out(self, line: Coroutine[None, None, None]) -> None:
        await line
        self._branch = self.host.branch()  # a user command may have changed it

    def queue(self, text: str) -> None:
        """Send a prompt; it is queued while a turn is running."""
        self._submit(UserInput(text, self._images.take(text)))

    def take_back(self) -> bool:
        """Take the newest queued input back into the draft; return False if none is queued."""
        if taking := self._conversation.take_back():
            self._spawn(taking)
        return taking is not None

    def paste_picture(self) -> None:
        """Insert the image from the clipboard into the draft."""
        self._spawn(self._paste_picture())

    async def _paste_picture(self) -> None:
        found = await self.host.picture()
        if isinstance(found, str):
            self.say(f"No image: {found}")
        else:
            self._screen.type(f"{self._images.add(found)} ")

    def stop(self) -> bool:
        """Handle Esc or Ctrl-C: stop what is running and take queued input back; return False if nothing is
        running."""
        if self._conversation.stop_command():
            return True
        if isinstance(self.dialogs.dialog, Picker):
            return self.dialogs.back()
        if not (self.busy() or self.dialogs.dialog):
            return False
        self._spawn(self._conversation.interrupt())
        return True

    def runs_own_command(self) -> bool:
        """Return True if the user's shell command or a long slash command is running."""
        return self._conversation.runs_command

    def move_to_background(self) -> None:
        """Handle Ctrl-B: continue the user's shell command in the background."""
        self._conversation.move_command_to_background()

    def exit_repl(self, leaving: ExitReason | None = None) -> None:
        """End the REPL."""
        self._conversation.exit_reason = leaving or ExitReason("quit")
        self._screen.exit()

    def cycle_mode(self) -> None:
        """Handle Shift-Tab: change to the next mode."""
        self._spawn(self._conversation.cycle_mode())

    def expand(self) -> None:
        """Handle Ctrl-O: print the last folded output in full."""
        self._renderer.expand()
        self._paint()

    def say(self, text: str, wrap: bool = True) -> None:
        """Print lines that are already safe to print. Without `wrap`, do not break lines between words."""
        self._renderer.notice(text, wrap)
        self._changed()

    def prefill(self, text: str, note: str) -> None:
        """Put text into the input line for the user to change and send; `note` says so."""
        self.say(note)
        self._screen.prefill(text)

    def show_turns(self, turns: Iterator[Sequence[ev.AnyEvent]], count: int) -> None:
        """Print the newest of some turns; the earlier ones are folded."""
        self._renderer.replay(turns, count, self._screen.rows)
        self._changed()

    def summary(self) -> str:
        """Return the summary shown last."""
        return self._renderer.summary

    async def pick(self, title: str, choices: Sequence[Choice]) -> str:
        """Have the user pick a choice; return its value, empty if the user cancels."""
        if not choices:
            return ""
        picker = Picker(title, choices, time.monotonic())
        self.dialogs.pick(picker)
        return await picker.picked

    def use_theme(self, theme: Theme) -> None:
        """Use other colours from now on."""
        self.theme = theme
        self._renderer.use(theme)
        self._screen.use(theme)

    def to_clipboard(self, text: str) -> bool:
        """Ask the terminal to copy a text to the clipboard (OSC 52)."""
        import base64

        self._screen.send(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\a")
        return True


def _of(agent_name: str) -> str:
    """Return a prefix that names the sub-agent that asks."""
    return f"{lines.one_line(agent_name, 40)}: " if agent_name else ""


class PastedImages:
    """The images of a draft."""

    def __init__(self) -> None:
        self._marked: dict[str, Image] = {}

    def add(self, picture: Image) -> str:
        """Store an image and return the mark to put into the draft."""
        mark = f"[image {len(self._marked) + 1}]"
        self._marked[mark] = picture
        return mark

    def take(self, text: str) -> tuple[Image, ...]:
        """Return the images whose marks are in a text, which is about to be sent."""
        return tuple(picture for mark, picture in self._marked.items() if mark in text)
