"""Completion of slash commands, their arguments, and files named with `@`."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ..protocol.sanitize import clean
from .commands import TABLE, Desk

_MENTION = re.compile(r"(?:^|\s)@(\S*)$")
_MAX_FILES = 20_000
_MAX_SHOWN = 30
_FRESH_S = 10.0
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})


class InputCompleter(Completer):
    """Offers what fits the text before the cursor. Runs in a thread, since it may walk the workspace."""

    def __init__(self, desk: Desk, root: Callable[[], str]) -> None:
        self._desk, self._root = desk, root
        self._files: list[str] = []
        self._read_at = 0.0

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Commands for `/…`, values for `/command …`, files for `@…`."""
        text = document.text_before_cursor
        if mention := _MENTION.search(text):
            fragment = mention.group(1)
            for path in self._matching(fragment):
                yield Completion(path, start_position=-len(fragment), display=clean(path))
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

    def _matching(self, fragment: str) -> list[str]:
        if time.monotonic() - self._read_at > _FRESH_S:
            self._files = list(_walk(Path(self._root())))
            self._read_at = time.monotonic()
        if not fragment:
            return self._files[:_MAX_SHOWN]
        pattern = re.compile(".*?".join(re.escape(char) for char in fragment), re.IGNORECASE)
        found = []
        for path in self._files:
            if hit := pattern.search(path):
                in_name = fragment.lower() in path.rsplit("/", 1)[-1].lower()
                found.append((not in_name, hit.end() - hit.start(), len(path), path))
        return [path for *_, path in sorted(found)[:_MAX_SHOWN]]


def _walk(root: Path) -> Iterator[str]:
    """Files below `root` by relative path, without hidden and generated folders; bounded."""
    seen = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(files):
            seen += 1
            if seen > _MAX_FILES:
                return
            yield os.path.relpath(os.path.join(folder, name), root)
