"""The picture in the clipboard, by whichever program of the desktop hands it out. Apart from `mentions`, since no
prompt names it: a front end asks for it when a key is pressed."""

import asyncio
import base64
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_cli.fs.which import program
from agent_cli.protocol.messages import Image
from agent_cli.sandbox.process.runner import OverdueError, ProcessError, ProcessRunner
from agent_cli.sandbox.profile.environment import child_env

_LIMIT_S = 2.0
_MAX_BYTES = 50_000_000
_WAYLAND = ("wl-paste", "--no-newline", "--type", "image/png")
_X11 = ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")
_MAC = ("pngpaste", "-")


class NoPicture(Exception):
    """There is none to be had; the text says why, or what to do."""


async def clipboard_image(
    processes: ProcessRunner, roots: Iterable[Path] = (), env: Mapping[str, str] = os.environ
) -> Image:
    """Return the picture in the clipboard, fit for a model. Programs that lie in `roots` are not run.

    Raises:
        NoPicture: there is none, it cannot be opened, or no program hands it out.
    """
    from agent_cli.tools.files.images import PictureError, fit

    name, *arguments = _command(env)
    found = program(name, env.get("PATH", os.defpath), roots)
    if found is None:
        raise NoPicture(f"{name} is needed to paste a picture; install it, or name the picture's file with @")
    try:
        done = await processes.run(
            [found, *arguments],
            cwd=Path("/"),
            env=child_env(env),
            timeout_s=_LIMIT_S,
            max_output_bytes=_MAX_BYTES,
        )
    except (ProcessError, OverdueError) as error:
        raise NoPicture(f"the clipboard cannot be read: {error}") from error
    if done.exit_code != 0 or not done.stdout:
        raise NoPicture("there is no picture in the clipboard")
    try:
        fitted = await asyncio.to_thread(fit, done.stdout)
    except PictureError as error:
        raise NoPicture(f"the picture in the clipboard cannot be sent: {error}") from error
    return Image(fitted.media_type, base64.b64encode(fitted.data).decode("ascii"))


def _command(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the program of this desktop.

    Raises:
        NoPicture: there is no desktop.
    """
    if sys.platform == "darwin":
        return _MAC
    if env.get("WAYLAND_DISPLAY"):
        return _WAYLAND
    if env.get("DISPLAY"):
        return _X11
    raise NoPicture("there is no desktop here whose clipboard could be read; name the picture's file with @")
