"""The interface of a slash command: its table row, its context and its results."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from agent_cli.protocol.client import Client
from agent_cli.protocol.events import AnyEvent
from agent_cli.protocol.operations import Operation, UserCommand

from ..services import FrontEndServices
from ..text.theme import Theme


class ExitReason(msgspec.Struct, frozen=True):
    """The reason why the REPL ended, for the composition root."""

    kind: Literal["quit", "new", "resume", "fork", "interrupted", "terminated"]
    """`fork`: continue in a copy of a session; `interrupted`: by SIGINT; `terminated`: by another signal."""
    session_id: str = ""
    turn_id: str = ""
    """The copy ends before this turn; empty to copy the whole session."""
    add_dir: str = ""
    """A folder to add to the workspace of the same session."""
    signal: int = 0
    """Number of the signal that ended the REPL, used for the exit code; 0 for none."""
    commands: tuple[UserCommand, ...] = ()
    """The user's shell commands whose output goes with the next prompt, in whichever session that is."""
    draft: str = ""
    """The text that stays in the input line for the next session."""

    @classmethod
    def by_signal(cls, number: int) -> "ExitReason":
        """Return the reason for a program that a signal ends."""
        from signal import SIGINT

        return cls("interrupted" if number == SIGINT else "terminated", signal=int(number))

    @property
    def is_final(self) -> bool:
        """True if the program ends and no other session is opened."""
        return self.kind == "quit" or bool(self.signal)

    @property
    def exit_code(self) -> int:
        """Exit code of the program, by the convention of shells."""
        return 128 + self.signal if self.signal else 0


class FirstInput(msgspec.Struct, frozen=True):
    """First input of the REPL: the prompt from the command line, and piped text."""

    text: str = ""
    has_piped_text: bool = False
    """True if it contains piped text, which is sent as a prompt and never read as a command."""
    has_prompt: bool = False
    """True if the user wrote a prompt before the piped text; names in such a prompt are followed."""
    commands: tuple[UserCommand, ...] = ()
    """The user's shell commands, in the session that was left, whose output goes with the next prompt."""
    draft: str = ""
    """Text for the input line, which is not sent."""
    note: str = ""
    """A message to print below a resumed conversation."""


NOTHING = FirstInput()


class Choice(msgspec.Struct, frozen=True):
    """A row to pick from."""

    value: str
    label: str
    """The text shown, already safe to print; the search matches it."""
    detail: str = ""
    """Shown after the label, muted."""
    key: str = ""
    """The letter that picks the row. If rows have letters, typing does not search and no row is selected at
    first."""


Group = Literal["Conversation", "Context", "Files and undo", "Model", "Session", "Settings", "Help"]


class KeyGroup(NamedTuple):
    """Help on the keys of one situation."""

    title: str
    rows: tuple[tuple[str, str], ...]
    """The keys, or nothing, and what they do."""


class CommandContext(Protocol):
    """The context in which a command runs."""

    client: Client
    host: FrontEndServices
    theme: Theme
    keys: tuple[KeyGroup, ...]
    """Help on keys and other input."""

    @property
    def columns(self) -> int:
        """Maximum width of a line in columns."""

    async def submit(self, operation: Operation) -> None:
        """Submit an operation to the engine."""

    def say(self, text: str, wrap: bool = True) -> None:
        """Print lines that are already safe to print. Without `wrap`, do not break lines between words."""

    def prefill(self, text: str, note: str) -> None:
        """Put text into the input line for the user to change and send; `note` says so if that is possible."""

    def summary(self) -> str:
        """Return the summary shown last; empty if there was none."""

    def expand(self) -> None:
        """Print the text shortened last in full; a second call prints the one before it."""

    def show_turns(self, turns: Iterator[Sequence[AnyEvent]], count: int) -> None:
        """Print the newest of `count` turns, given newest first; the earlier turns are folded."""

    async def pick(self, title: str, choices: Sequence[Choice]) -> str:
        """Have the user pick a choice; returns its value, empty if the user cancels."""

    def use_theme(self, theme: Theme) -> None:
        """Use other colours from now on."""

    def to_clipboard(self, text: str) -> bool:
        """Ask the terminal to copy a text to the clipboard (OSC 52); False if there is no terminal."""

    def exit_repl(self, leaving: ExitReason) -> None:
        """End the REPL."""


class Command(msgspec.Struct, frozen=True):
    """A row of the table of commands."""

    group: Group
    """The group that `/help` lists it under."""
    name: str
    arguments: str
    help: str
    run: Callable[[CommandContext, str], Awaitable[None]]
    values: Callable[[CommandContext], Iterable[str]] | None = None
    """Completions for the argument."""
    idle: bool = False
    """True if the command runs only while no turn is running."""
    is_long: bool = False
    """True if the command runs for minutes: Esc stops it."""

    @property
    def needs_argument(self) -> bool:
        """True if the command does nothing without an argument."""
        return bool(self.arguments) and not self.arguments.startswith("[")
