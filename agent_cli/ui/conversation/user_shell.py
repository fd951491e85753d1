"""Run the shell commands that the user types after `!`, print their output and capture it for the model."""

import asyncio
import re

from agent_cli.protocol.operations import UserCommand
from agent_cli.protocol.sanitize import Sanitizer

from ..commands.api import CommandContext
from ..text import lines

_CAPTURE_CHARS = 500_000
"""Maximum number of characters kept at each end of an output."""
_LINE_CHARS = 16_000
"""Length from which a line is printed before its end has come: it may have none."""
_FOR_ONE_LINE = re.compile(r"(cd|pushd|export|alias|source|\.)(?: [^;&|\n]*)?")
"""A command that changes only its own shell, which ends with the line."""


class _Capture:
    """The beginning and the end of an output; the middle of an output too large for any context window is left
    out."""

    def __init__(self) -> None:
        self._head, self._tail, self._left_out = "", "", False

    def feed(self, text: str) -> None:
        """Append a piece of output."""
        room = _CAPTURE_CHARS - len(self._head)
        self._head += text[:room]
        self._tail += text[room:] if room < len(text) else ""
        if len(self._tail) > 2 * _CAPTURE_CHARS:
            self._tail, self._left_out = self._tail[-_CAPTURE_CHARS:], True

    def text(self) -> str:
        """Return the captured text."""
        return self._head + ("\n[… left out …]\n" if self._left_out else "") + self._tail


async def run_shell_command(
    command: str, context: CommandContext, background: asyncio.Event | None
) -> UserCommand:
    """Run the user's own shell command until it ends, is cancelled, or continues in the background because
    `background` was set. Without `background` its output is hidden from the model. The printed output keeps its
    colours and does not control the terminal; the returned output has no colours, and says how the command
    ended."""
    theme = context.theme
    context.say(theme.paint("prompt", "! ") + lines.one_line(command, 500), wrap=False)
    sanitizer, plain, partial, captured = Sanitizer(keep_sgr=theme.colour), Sanitizer(), "", _Capture()

    def emit(text: str, final: bool = False) -> None:
        nonlocal partial
        captured.feed(plain.feed(text, final))
        *whole, partial = (partial + sanitizer.feed(text, final)).split("\n")
        if (final and partial) or len(partial) > _LINE_CHARS:
            whole.append(partial)
            partial = ""
        if whole:
            context.say("\n".join(line + "\x1b[0m" * ("\x1b" in line) for line in whole), wrap=False)

    ended = "interrupted"
    try:
        end = await context.host.run_command(command, emit, background)
        ended = f"continues as job {end.job}" if end.job else f"exit {end.exit_code}"
    except asyncio.CancelledError:
        pass  # stopped by the user: the output so far counts
    except Exception as problem:  # report any error, so that the prompt comes back
        ended = f"failed: {lines.one_line(str(problem)) or type(problem).__name__}"
    finally:
        emit("", final=True)
        note = "not shown to the model" if background is None else "sent with your next prompt"
        note += " · /jobs lists it" * ended.startswith("continues")
        if (alone := _FOR_ONE_LINE.fullmatch(command.strip())) and ended == "exit 0":
            note += f" · `{alone[1]}` lasts for its own line only"
        context.say(theme.paint("muted", f"· {ended} · {note}"))
    return UserCommand(command, captured.text(), ended)
