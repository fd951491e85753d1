"""The desktop clipboard: read an image, write a text, through any available program. Some programs stay in the
background while the clipboard contains their text; they outlive the agent."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agent_cli.fs.which import program
from agent_cli.protocol.messages import Image
from agent_cli.sandbox.process.runner import OverdueError, ProcessError, ProcessRunner
from agent_cli.sandbox.profile.environment import child_env

_READ_LIMIT_S = 2.0
_WRITE_LIMIT_S = 3.0
_MAX_BYTES = 50_000_000
_WAYLAND = ("wl-paste", "--no-newline", "--type", "image/png")
_X11 = ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")
_MAC = ("pngpaste", "-")
_SSH = ("SSH_CONNECTION", "SSH_TTY")
_UTF16 = frozenset({"clip.exe"})
"""Programs that misread UTF-8."""


class NoPicture(Exception):
    """No image is available; the text says why, or what to do."""


async def clipboard_image(
    processes: ProcessRunner, roots: Iterable[Path] = (), env: Mapping[str, str] = os.environ
) -> Image:
    """Return the image in the clipboard, fitted for a model. Programs in `roots` are not run.

    Raises:
        NoPicture: there is none, it cannot be opened, or no program can read it.
    """
    from agent_cli.tools.files.images import PictureError, fit

    name, *arguments = _read_command(env)
    found = program(name, env.get("PATH", os.defpath), roots)
    if found is None:
        raise NoPicture(f"{name} is needed to paste an image; install it, or attach the image file with @")
    try:
        done = await processes.run(
            [found, *arguments],
            cwd=Path("/"),
            env=child_env(env),
            timeout_s=_READ_LIMIT_S,
            max_output_bytes=_MAX_BYTES,
        )
    except (ProcessError, OverdueError) as error:
        raise NoPicture(f"the clipboard cannot be read: {error}") from error
    if done.exit_code != 0 or not done.stdout:
        raise NoPicture("there is no image in the clipboard")
    try:
        return (await asyncio.to_thread(fit, done.stdout)).image
    except PictureError as error:
        raise NoPicture(f"the image in the clipboard cannot be sent: {error}") from error


def _read_command(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command of this desktop."""
    if sys.platform == "darwin":
        return _MAC
    if env.get("WAYLAND_DISPLAY"):
        return _WAYLAND
    if env.get("DISPLAY"):
        return _X11
    raise NoPicture("there is no desktop here whose clipboard could be read; attach the image file with @")


async def copy_text(
    processes: ProcessRunner, text: str, roots: Iterable[Path] = (), env: Mapping[str, str] = os.environ
) -> str:
    """Copy a text to the desktop's clipboard; return the name of the program used, empty if there is none. Over
    SSH this machine's clipboard is not the user's. Programs in `roots` are not run."""
    if any(env.get(name) for name in _SSH):
        return ""
    roots = tuple(roots)
    for name, *arguments in _write_commands(env):
        found = program(name, env.get("PATH", os.defpath), roots)
        data = text.encode("utf-16" if name in _UTF16 else "utf-8", "replace")
        if found is not None and await _feed(processes, [found, *arguments], data, env):
            return name
    return ""


def _write_commands(env: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield commands that this desktop may have, most likely first."""
    if sys.platform == "darwin":
        yield ("pbcopy",)
    if env.get("WAYLAND_DISPLAY"):
        yield ("wl-copy",)
    if env.get("DISPLAY"):
        yield ("xclip", "-selection", "clipboard")
        yield ("xsel", "--clipboard", "--input")
    if env.get("WSL_DISTRO_NAME"):
        yield ("clip.exe",)


async def _feed(processes: ProcessRunner, argv: list[str], data: bytes, env: Mapping[str, str]) -> bool:
    """Run a program with this input; return True if it succeeded."""
    child = {**child_env(env), "LC_CTYPE": "UTF-8"} if argv[0].endswith("pbcopy") else child_env(env)
    try:
        running = await processes.start(argv, cwd=Path("/"), env=child, on_output=lambda _: None, takes_input=True)
    except ProcessError:
        return False
    try:
        await running.send(data)
        running.close_input()
        in_time = await running.ended_within(_WRITE_LIMIT_S)
    except ProcessError:
        in_time = False
    if not in_time or running.exit_code != 0:
        await running.stop()
        return False
    if running.background:
        with contextlib.suppress(OSError):
            running.keep(Path(os.devnull))
    return True
