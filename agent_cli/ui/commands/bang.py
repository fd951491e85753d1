"""The user's own shell commands, `!command`: output as it comes, with its colours and without its control of the
terminal."""

from typing import Protocol

from agent_cli.protocol.sanitize import Sanitizer

from ..services import Host
from ..text import lines
from ..text.theme import Theme


class Say(Protocol):
    """Prints lines that are safe already."""

    def __call__(self, text: str, wrap: bool = True) -> None: ...


async def run(command: str, host: Host, theme: Theme, say: Say) -> None:
    """Run it to its end; how it ended is said as well when it is cancelled."""
    say(theme.paint("prompt", "! ") + lines.one_line(command, 500), wrap=False)
    sanitizer, partial = Sanitizer(keep_sgr=theme.colour), ""

    def emit(text: str, final: bool = False) -> None:
        nonlocal partial
        *whole, partial = (partial + sanitizer.feed(text, final)).split("\n")
        if final and partial:
            whole.append(partial)
        if whole:
            say("\n".join(line + "\x1b[0m" * ("\x1b" in line) for line in whole), wrap=False)

    ended = "stopped"
    try:
        ended = f"exit {await host.run_command(command, emit)}"
    except Exception as problem:  # whatever it is, the prompt comes back
        ended = f"failed: {lines.one_line(str(problem)) or type(problem).__name__}"
    finally:
        emit("", final=True)
        say(theme.paint("muted", f"— {ended}"))
