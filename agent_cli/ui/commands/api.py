"""What a slash command is, and what it works with."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from agent_cli.protocol.client import Client
from agent_cli.protocol.events import AnyEvent
from agent_cli.protocol.operations import Operation

from ..services import Host
from ..text.theme import Theme


class ExitReason(msgspec.Struct, frozen=True):
    """Why the REPL ended, for the composition root."""

    kind: Literal["quit", "new", "resume", "fork", "interrupted", "terminated"]
    """`fork`: to go on in a copy of a session; `interrupted`: by SIGINT; `terminated`: by another signal."""
    session_id: str = ""
    turn_id: str = ""
    """The copy ends before this turn; empty for all of it."""
    add_dir: str = ""
    """A folder to add to the workspace of the same session."""
    signal: int = 0
    """The signal that has ended it, which the exit code tells; 0 for none."""

    @classmethod
    def by_signal(cls, number: int) -> "ExitReason":
        """Return the reason where a signal ends the program."""
        from signal import SIGINT

        return cls("interrupted" if number == SIGINT else "terminated", signal=int(number))

    @property
    def is_final(self) -> bool:
        """Whether the program ends, and no other session is opened."""
        return self.kind == "quit" or bool(self.signal)

    @property
    def exit_code(self) -> int:
        """The exit code of the program, as a shell counts it."""
        return 128 + self.signal if self.signal else 0


class FirstInput(msgspec.Struct, frozen=True):
    """What the REPL begins with: the prompt of the command line, and text that was piped in."""

    text: str = ""
    is_data: bool = False
    """Whether piped text is in it: it is sent as a prompt, and never read as a command."""
    has_prompt: bool = False
    """Whether the user wrote a prompt before it, in which names are followed."""


NOTHING = FirstInput()


class Choice(msgspec.Struct, frozen=True):
    """One row to pick from."""

    value: str
    label: str
    """What is shown, safe already, and searched as somebody types."""
    detail: str = ""
    """Shown behind it, muted."""
    key: str = ""
    """The letter that picks it. Where rows have letters, typing does not search, and none is selected yet."""


Group = Literal["Conversation", "Context", "Files and undo", "Model", "Session", "Settings", "Help"]


class CommandContext(Protocol):
    """What a command works with."""

    client: Client
    host: Host
    theme: Theme
    keys: tuple[str, ...]
    """What keys do and what else can be typed, a line each."""

    @property
    def columns(self) -> int:
        """Columns that a line may have."""
        ...

    async def submit(self, operation: Operation) -> None:
        """Hand an operation to the engine."""
        ...

    def say(self, text: str, wrap: bool = True) -> None:
        """Print lines that are safe already; without `wrap` they are not broken between words."""
        ...

    def propose(self, text: str, note: str) -> None:
        """Put text where the user types, to be changed and sent; `note` says so where that is possible."""
        ...

    def summary(self) -> str:
        """The summary that was shown last; empty when there was none."""
        ...

    def expand(self) -> None:
        """Print in full what was shortened last; asked again, what was before it."""
        ...

    def show_turns(self, turns: Iterator[Sequence[AnyEvent]], count: int) -> None:
        """Print the newest of `count` turns, given newest first; those before them are folded."""
        ...

    async def pick(self, title: str, choices: Sequence[Choice]) -> str:
        """Have the user pick one; gives its value, empty when they do not want any."""
        ...

    def use_theme(self, theme: Theme) -> None:
        """Other colours from now on."""
        ...

    def to_clipboard(self, text: str) -> bool:
        """Ask the terminal to keep a text for pasting (OSC 52); False where there is no terminal to ask."""
        ...

    def leave(self, leaving: ExitReason) -> None:
        """End the REPL."""
        ...


class Command(msgspec.Struct, frozen=True):
    """One row of the table."""

    group: Group
    """Where `/help` lists it."""
    name: str
    arguments: str
    help: str
    run: Callable[[CommandContext, str], Awaitable[None]]
    values: Callable[[CommandContext], Iterable[str]] | None = None
    """What completion offers as the argument."""
    idle: bool = False
    """Only when no turn runs."""
    is_long: bool = False
    """Whether it works for minutes: Esc stops it."""

    @property
    def needs_argument(self) -> bool:
        """Whether it does nothing without an argument."""
        return bool(self.arguments) and not self.arguments.startswith("[")
