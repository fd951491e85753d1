"""Completion of slash commands, their arguments, and files and folders named with `@`."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.application.current import get_app_or_none
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.sanitize import clean

from ..commands.api import CommandContext
from ..commands.registry import OTHER_NAMES, TABLE
from ..services import OwnCommand
from ..text.fuzzy_paths import Fragment

_MENTION = lazy_regex(r"(?:^|[\s(\[{])@(\"[^\"\n]*|[^\s\"]*)\Z")
_MAX_SHOWN = 30
_FRESH_S = 10.0
_OWN_FRESH_S = 1.0
_LOOK_EVERY_S = 0.03
_BREATHE_EVERY = 200
"""Number of paths after which the walk yields to other threads."""
_NEEDS_QUOTES = lazy_regex(r"[\s'`<>|]|[.,;:!?)\]}*_]$")
"""Characters that would end a name in a prompt, or be taken for the end of the sentence."""

Paths = Callable[[str], Iterable[str]]
"""Yields the files and folders to offer below a folder: relative, folders with a trailing `/`."""


class InputCompleter(Completer):
    """Completes the text before the cursor. Runs in a thread, because it may wait for the walk of the
    workspace."""

    def __init__(
        self, context: CommandContext, root: Callable[[], str], paths: Paths, *, fresh_s: float = _FRESH_S
    ) -> None:
        self._context, self._root, self._paths, self._fresh_s = context, root, paths, fresh_s
        self._walk: _Walk | None = None
        self._next_walk: _Walk | None = None
        """A second walk of the same root, until it is finished."""
        self._own: tuple[OwnCommand, ...] = ()
        self._own_until = 0.0
        self._lock = threading.Lock()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield commands for `/…`, values for `/command …`, files and folders for `@…`."""
        text = document.text_before_cursor
        if mention := _MENTION.search(text):
            fragment = mention.group(1)
            for path in self._mentioned(fragment.removeprefix('"'), text):
                shown = f'"{path}"' if fragment.startswith('"') or _NEEDS_QUOTES.search(path) else path
                yield Completion(shown, start_position=-len(fragment), display=clean(path))
        elif text.startswith("/") and "\n" not in text:
            yield from self._commands(text[1:])
        elif text.startswith("$") and " " not in text and "\n" not in text:
            yield from self._skills(text[1:])

    def _commands(self, text: str) -> Iterator[Completion]:
        name, space, argument = text.partition(" ")
        if not space:
            for known, meaning in self._named(name.lower()):
                yield Completion(known, start_position=-len(name), display=f"/{known}", display_meta=meaning)
        elif (command := TABLE.get(name)) and command.values:
            fitting = [value for value in command.values(self._context) if argument.lower() in value.lower()]
            for value in fitting[:_MAX_SHOWN]:
                yield Completion(value, start_position=-len(argument), display=clean(value))

    def _skills(self, begun: str) -> Iterator[Completion]:
        """Yield the skills whose names have this prefix."""
        for own in self._own_commands():
            name = own.name.removeprefix("skill:")
            if own.is_skill and (name.startswith(begun) or f":{begun}" in name):
                meaning = clean(f"{own.hint}  {own.description}".strip())
                yield Completion(name, start_position=-len(begun), display=f"${name}", display_meta=meaning)

    def _named(self, begun: str) -> Iterator[tuple[str, str]]:
        """Yield the names of commands and their descriptions: an exact match first, then prefixes, the user's own
        commands, and last commands with another name that has this prefix."""
        named = [command for command in TABLE.values() if command.name.startswith(begun)]
        for command in sorted(named, key=lambda command: command.name != begun):
            yield command.name, command.help
        for own in self._own_commands():
            if own.name not in TABLE and (own.name.startswith(begun) or f":{begun}" in own.name):
                yield own.name, clean(f"{own.hint}  {own.description}".strip())
        others = {name: other for other, name in OTHER_NAMES.items() if begun and other.startswith(begun)}
        for name, other in others.items():
            if TABLE[name] not in named:
                yield name, f"{TABLE[name].help} (/{other})"

    def _own_commands(self) -> tuple[OwnCommand, ...]:
        """Return the usable custom commands; reloaded after a moment."""
        if time.monotonic() > self._own_until:
            self._own = tuple(each for each in self._context.host.own_commands() if not each.problem)
            self._own_until = time.monotonic() + _OWN_FRESH_S
        return self._own

    def _mentioned(self, sought: str, text: str) -> Iterator[str]:
        """Yield matching paths, best of those found so far first; more while the walk continues and the user types
        nothing else. Poor matches come last, once no better one can come."""
        fragment, shown = Fragment(sought), set[str]()
        walk, seen = self._walked(), 0
        found = near = self._named_folder(fragment)
        while True:
            is_over = walk.over.wait(_LOOK_EVERY_S)
            until = len(walk.found)
            found, seen = [*found, *walk.found[seen:until]], until
            if is_over:
                found = list(dict.fromkeys([*near, *walk.found]))
            for path in fragment.best(found, _MAX_SHOWN, loosely=is_over):
                if path not in shown and len(shown) < _MAX_SHOWN:
                    shown.add(path)
                    yield path
            app = get_app_or_none()
            goes_on = app is None or app.current_buffer.document.text_before_cursor == text
            if is_over or len(shown) >= _MAX_SHOWN or not goes_on:
                return
            found = []

    def _named_folder(self, fragment: Fragment) -> list[str]:
        """Return the entries of the folder that the fragment names, even if it is deep and the walk would reach it
        late."""
        if not fragment.folder and not fragment.name:
            return []
        found = self._context.host.paths_in(self._root(), fragment.folder, fragment.name)
        return [path for path in found if _can_be_typed(path)]

    def _walked(self) -> "_Walk":
        """Return the walk of the workspace: a new one replaces an old one once it is finished."""
        with self._lock:
            root = self._root()
            if self._walk is None or self._walk.root != root:
                self._walk, self._next_walk = _Walk(root, self._paths), None
            elif self._next_walk is not None and self._next_walk.over.is_set():
                self._walk, self._next_walk = self._next_walk, None
            elif self._next_walk is None and self._walk.ended_before(self._fresh_s):
                self._next_walk = _Walk(root, self._paths)
            return self._walk


class _Walk:
    """The paths of a workspace, collected in a daemon thread that is never joined."""

    def __init__(self, root: str, paths: Paths) -> None:
        self.root = root
        self.found: list[str] = []
        self.over = threading.Event()
        self._began = time.monotonic()
        threading.Thread(target=self._go, args=(paths,), daemon=True).start()

    def ended_before(self, seconds: float) -> bool:
        """Return True if the walk is finished and began more than `seconds` ago."""
        return self.over.is_set() and time.monotonic() - self._began > seconds

    def _go(self, paths: Paths) -> None:
        try:
            for count, path in enumerate(paths(self.root)):
                if _can_be_typed(path):
                    self.found.append(path)
                if count % _BREATHE_EVERY == 0:
                    time.sleep(0.0005)  # keep typing responsive
        finally:
            self.over.set()


def _can_be_typed(path: str) -> bool:
    return path.isprintable() and '"' not in path
