"""Completion of slash commands, their arguments, and files and folders named with `@`."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ..protocol.sanitize import clean
from .commands import TABLE
from .desk import Desk

_MENTION = re.compile(r"(?:^|[\s(\[{])@(\"[^\"\n]*|[^\s\"]*)\Z")
_MAX_SHOWN = 30
_FRESH_S = 10.0
_NEEDS_QUOTES = re.compile(r"[\s'`<>|]|[.,;:!?)\]}*_]$")
"""What would end a name in a prompt, or be taken for the end of the sentence."""

Paths = Callable[[str], Iterable[str]]
"""The files and folders below a folder that may be offered: relative, folders with a `/` at the end."""


class InputCompleter(Completer):
    """Offers what fits the text before the cursor. Runs in a thread, since it may walk the workspace."""

    def __init__(self, desk: Desk, root: Callable[[], str], paths: Paths) -> None:
        self._desk, self._root, self._paths = desk, root, paths
        self._files: list[str] = []
        self._walked = ("", 0.0)
        self._lock = threading.Lock()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Commands for `/…`, values for `/command …`, files and folders for `@…`."""
        text = document.text_before_cursor
        if mention := _MENTION.search(text):
            fragment = mention.group(1)
            for path in _fitting(self._known(), fragment.removeprefix('"')):
                shown = f'"{path}"' if fragment.startswith('"') or _NEEDS_QUOTES.search(path) else path
                yield Completion(shown, start_position=-len(fragment), display=clean(path))
        elif text.startswith("/") and "\n" not in text:
            yield from self._commands(text[1:])

    def _commands(self, text: str) -> Iterator[Completion]:
        name, space, argument = text.partition(" ")
        if not space:
            for command in TABLE.values():
                if command.name.startswith(name.lower()):
                    yield Completion(command.name, start_position=-len(name), display_meta=command.help)
        elif (known := TABLE.get(name)) and known.values:
            fitting = [value for value in known.values(self._desk) if argument.lower() in value.lower()]
            for value in fitting[:_MAX_SHOWN]:
                yield Completion(value, start_position=-len(argument), display=clean(value))

    def _known(self) -> list[str]:
        """The paths of the workspace, read again when they are old; whoever comes meanwhile waits for that."""
        with self._lock:
            root, (walked, at) = self._root(), self._walked
            if walked != root or time.monotonic() - at > _FRESH_S:
                self._files = [path for path in self._paths(root) if path.isprintable() and '"' not in path]
                self._walked = (root, time.monotonic())
            return self._files


def _fitting(paths: Iterable[str], fragment: str) -> list[str]:
    """The paths that hold the letters of `fragment` in order, the best first; hidden ones only for a fragment that
    asks for them."""
    wants_hidden = fragment.startswith(".") or "/." in fragment
    open_ones = paths if wants_hidden else (each for each in paths if not (each.startswith(".") or "/." in each))
    if not fragment:
        return sorted(open_ones, key=lambda path: (path.rstrip("/").count("/"), path))[:_MAX_SHOWN]
    sought = fragment.lower()
    found = []
    for path in open_ones:
        low = path.lower()
        span = _span(low, sought)
        if span is not None:
            name = low.rstrip("/").rpartition("/")[2]
            begins = low.startswith(sought) or name.startswith(sought.rstrip("/"))
            found.append((0 if begins else 1 if sought in name else 2, span, len(path), path))
    return [path for *_, path in sorted(found)[:_MAX_SHOWN]]


def _span(text: str, sought: str) -> int | None:
    """How much of `text` the letters of `sought` lie in, from where their first occurrence ends backwards; None
    where they do not occur in order. Linear in the text."""
    at = -1
    for char in sought:
        at = text.find(char, at + 1)
        if at < 0:
            return None
    end = at
    at += 1
    for char in reversed(sought):
        at = text.rfind(char, 0, at)
    return end - at
