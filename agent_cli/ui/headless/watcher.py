"""A front end that only watches: prints events as the REPL prints them, without input."""

import shutil
from collections.abc import Callable
from typing import TextIO

from agent_cli.config.schema import Ui
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.events import AnswerCompleted, AnyEvent

from ..render.renderer import Renderer
from ..text.theme import NONE, choose

_WIDTH = 100
"""Line width in columns if there is no terminal."""


class Watcher:
    """Prints finished output to a stream, in colour only on a terminal."""

    def __init__(self, settings: Ui, out: TextIO, snapshot: Callable[[], Snapshot]) -> None:
        theme = choose(settings) if out.isatty() else NONE
        self._out = out
        self._is_terminal = out.isatty()
        self._renderer = Renderer(theme, settings, self._width, snapshot, "")

    def _width(self) -> int:
        return shutil.get_terminal_size().columns if self._is_terminal else _WIDTH

    def show(self, event: AnyEvent) -> None:
        """Print what an event has finished."""
        self._renderer.handle(event)
        if text := self._renderer.take():
            self._out.write(text)
            self._out.flush()


def render_answer(text: str, settings: Ui, width: int, snapshot: Callable[[], Snapshot]) -> str:
    """Render an answer as the REPL prints it on a terminal."""
    renderer = Renderer(choose(settings), settings, lambda: width, snapshot, "")
    renderer.handle(
        AnswerCompleted(
            message_id="", text=text, finish="stop", calls=0, usage=None, cost_usd=None, duration_s=0.0
        )
    )
    return renderer.take()
