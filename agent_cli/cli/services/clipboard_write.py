"""The clipboard of this machine's desktop, filled by whichever program there is for it. Some of these programs
stay in the background for as long as the clipboard holds the text: they are let go of, so that it outlives the
agent."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agent_cli.fs.which import program
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner
from agent_cli.sandbox.profile.environment import child_env

_LIMIT_S = 3.0
_SSH = ("SSH_CONNECTION", "SSH_TTY")
_UTF16 = frozenset({"clip.exe"})
"""Programs that take UTF-8 for something else."""


async def copy_text(
    processes: ProcessRunner, text: str, roots: Iterable[Path] = (), env: Mapping[str, str] = os.environ
) -> str:
    """Give a text to the desktop's clipboard; the name of the program that took it, empty where none does. Over
    SSH this machine's clipboard is not the user's. Programs that lie in `roots` are not run."""
    if any(env.get(name) for name in _SSH):
        return ""
    kept = tuple(roots)
    for name, *arguments in _commands(env):
        found = program(name, env.get("PATH", os.defpath), kept)
        data = text.encode("utf-16" if name in _UTF16 else "utf-8", "replace")
        if found is not None and await _fed(processes, [found, *arguments], data, env):
            return name
    return ""


def _commands(env: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield what may be there on this desktop, the likeliest first."""
    if sys.platform == "darwin":
        yield ("pbcopy",)
    if env.get("WAYLAND_DISPLAY"):
        yield ("wl-copy",)
    if env.get("DISPLAY"):
        yield ("xclip", "-selection", "clipboard")
        yield ("xsel", "--clipboard", "--input")
    if env.get("WSL_DISTRO_NAME"):
        yield ("clip.exe",)


async def _fed(processes: ProcessRunner, argv: list[str], data: bytes, env: Mapping[str, str]) -> bool:
    """Run a program with this as its input; whether it said that all went well."""
    child = {**child_env(env), "LC_CTYPE": "UTF-8"} if argv[0].endswith("pbcopy") else child_env(env)
    try:
        running = await processes.start(argv, cwd=Path("/"), env=child, on_output=lambda _: None, takes_input=True)
    except ProcessError:
        return False
    try:
        await running.send(data)
        running.close_input()
        in_time = await running.ended_within(_LIMIT_S)
    except ProcessError:
        in_time = False
    if not in_time or running.exit_code != 0:
        await running.stop()
        return False
    if running.background:
        with contextlib.suppress(OSError):
            running.keep(Path(os.devnull))
    return True
