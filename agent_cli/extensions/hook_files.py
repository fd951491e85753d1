"""Find hooks: those of our configuration, and those of the user's other agents.

User files need no trust. A repository's hooks are inert until the user has agreed to their exact definition and to
the content of the workspace files that their commands name.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.foreign_settings import json_with_comments, parse_toml, settings_in
from agent_cli.config.schema import HookEntry
from agent_cli.fs.files import read_regular
from agent_cli.fs.named_files import named_files
from agent_cli.hooks.condition import problem
from agent_cli.hooks.definition import DECIDING, Dialect, Event, Hook, HttpRequest, event_named, nearest_event
from agent_cli.protocol.records import storable_json

from .expansion import shell_words

_MAX_BYTES = 8_000_000
_MAX_PROJECT_BYTES = 500_000
"""Limit for a project file: before the user is asked, each word of its commands is looked up on the disk."""
_END_S = 2.0
_LONGEST_S = 86_400.0
_USUAL_S: dict[Dialect, float] = {"native": 60.0, "claude": 600.0, "codex": 600.0, "gemini": 60.0, "cursor": 60.0}
_CLAUDE_SHORT_S: dict[Event, float] = {"UserPromptSubmit": 30.0, "SessionEnd": 1.5}

HOOK_FILES_OF_PROJECTS: Mapping[str, Dialect] = {
    ".claude/settings.json": "claude",
    ".claude/settings.local.json": "claude",
    ".codex/hooks.json": "codex",
    ".codex/config.toml": "codex",
    ".gemini/settings.json": "gemini",
    ".cursor/hooks.json": "cursor",
}
"""Files below a project's root, in reading order."""
HOOK_FILES_OF_USERS: Mapping[str, Dialect] = {
    name: dialect for name, dialect in HOOK_FILES_OF_PROJECTS.items() if name != ".claude/settings.local.json"
}
"""Files below the home directory."""
PLACE = "hooks of "
"""Prefix of a file path in a trust place; places of servers in the same file begin with the path."""


class ProjectHooks(msgspec.Struct, frozen=True):
    """The hooks of a project file, with the content that the user's consent is bound to."""

    place: str
    content: bytes
    hooks: tuple[Hook, ...]


class FoundHooks(msgspec.Struct, frozen=True):
    """The hooks found in configuration files."""

    usable: tuple[Hook, ...]
    inert: tuple[ProjectHooks, ...]
    """Hooks of the project that are not trusted."""
    notes: tuple[str, ...]
    """Entries that cannot be parsed or run, with their place."""


def find_hooks(
    own: Mapping[str, Sequence[HookEntry]],
    *,
    own_source: Callable[[str], str],
    root: Path,
    home: Path,
    trusts: Callable[[str, bytes], bool],
    plugins: Sequence[Hook] = (),
    reads: Collection[str] = ("user", "project"),
) -> FoundHooks:
    """Return the hooks of the user's configuration, of the user's other agents, of plug-ins, and of the project.

    Args:
        own: entries under `hooks`, by event.
        own_source: returns where those of an event are defined, for display.
        root: the workspace.
        home: the user's home directory.
        trusts: returns True if the user has agreed to a place and its content.
        plugins: hooks of plug-ins that the user has agreed to.
        reads: owners (`user`, `project`) whose files of other agents are read.
    """
    notes: list[str] = []
    usable = list(_own(own, own_source))
    inert: list[ProjectHooks] = []
    off: set[str] = set()
    for name, dialect in HOOK_FILES_OF_USERS.items() if "user" in reads else ():
        # Cursor starts the user's hooks in the folder of their file, those of a project in its root.
        folder = str((home / name).parent) if dialect == "cursor" else ""
        try:
            read = _hooks(_content_of(home / name), dialect, str(home / name), notes, off)
        except _UnreadableError as error:
            notes.append(f"{home / name} is left out: {error}")
            read = _refusing(home / name, error)
        if read and not _is_off(home, dialect):
            usable += [msgspec.structs.replace(hook, folder=folder) for hook in read]
    usable += plugins
    of_user = {os.path.realpath(home / name) for name in HOOK_FILES_OF_USERS} if "user" in reads else ()
    for name, dialect in HOOK_FILES_OF_PROJECTS.items() if "project" in reads else ():
        if os.path.realpath(root / name) in of_user:
            continue  # the workspace is the home directory
        content = _content_or_note(root / name, str(root / name), notes, _MAX_PROJECT_BYTES)
        hooks = _runnable(_hooks(content, dialect, str(root / name), notes, off))
        if not hooks or _is_off(home, dialect) or _is_off(root, dialect):
            continue
        place, agreed = f"{PLACE}{root / name}", _content(hooks, root)
        if trusts(place, agreed):
            usable += hooks
        else:
            inert.append(ProjectHooks(place, agreed, tuple(hooks)))
    notes += [
        f"{hook.source}: the matcher {hook.command_pattern or hook.matcher!r} of {hook.label} cannot be read, so"
        " it is run for everything"
        for hook in usable
        if hook.has_bad_matcher
    ]
    notes += [f"{hook.source}: {wrong}" for hook in usable if (wrong := problem(hook))]
    return FoundHooks(tuple(usable), tuple(inert), tuple(notes))


def _own(own: Mapping[str, Sequence[HookEntry]], own_source: Callable[[str], str]) -> Iterator[Hook]:
    for name, entries in own.items():
        event, source = event_named(name), own_source(name)
        if event is None:
            continue  # the configuration with it has been refused
        for entry in entries:
            usual_s = _END_S if event == "SessionEnd" else _USUAL_S["native"]
            yield Hook(
                event, entry.command, entry.match, entry.timeout_s or usual_s,
                on_error=entry.on_error, name=entry.name, source=source, condition=entry.only_if,
                is_async=entry.runs_beside, is_once=entry.once,
            )  # fmt: skip


def plugin_hooks(
    root: Path, dialect: Dialect, plugin: str, file: Path | Mapping[str, Any]
) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
    """Return the hooks of a plug-in, and notes on those that are not run.

    Args:
        root: the folder of the plug-in.
        dialect: the agent it was written for.
        plugin: its name.
        file: the file that defines them, or that part of its manifest.
    """
    notes: list[str] = []
    source = f"plug-in {plugin}"
    if isinstance(file, Path):
        source = f"{source} ({os.path.relpath(file, root)})"
        file = _content_or_note(file, source, notes) or {}
    # Events may stand at the top, in a manifest and, as in plug-ins of Claude Code itself, in a file.
    content = file if not isinstance(file, Mapping) or "hooks" in file else {"hooks": file}
    found = _runnable(_hooks(content, dialect, source, notes, set()))
    return tuple(msgspec.structs.replace(hook, root=str(root)) for hook in found), tuple(notes)


def _runnable(hooks: Sequence[Hook]) -> list[Hook]:
    """Return hooks without those that refuse because their definition cannot be read: only what the user wrote for
    all projects may be a guard that is missed."""
    return [hook for hook in hooks if not hook.fault]


def _refusing(path: Path, error: "_UnreadableError") -> list[Hook]:
    """Return a hook that refuses every call, instead of those that a file of the user mentions and that cannot be
    read: one of them may be a guard."""
    fault = f"its file cannot be read: {error}"
    return [Hook("PreToolUse", "", name=path.name, source=str(path), fault=fault)] if error.defines_any else []


class _UnreadableError(Exception):
    """A file is there and cannot be read; the text says why."""

    def __init__(self, why: str, *, defines_any: bool = False) -> None:
        super().__init__(why)
        self.defines_any = defines_any
        """True if hooks are mentioned in it."""


def _content_of(path: Path, most_bytes: int = _MAX_BYTES) -> Any:
    """Return the decoded content of a file; None if it is missing.

    Raises:
        _UnreadableError: it cannot be read.
    """
    try:
        data = read_regular(path, most_bytes + 1, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _UnreadableError(f"it cannot be read: {error.strerror or error}") from error
    is_toml, defines_any = path.suffix == ".toml", b"hooks" in data
    if len(data) > most_bytes:
        raise _UnreadableError(f"it is larger than {most_bytes:,} bytes", defines_any=defines_any)
    try:
        return parse_toml(data) if is_toml else json_with_comments(data)
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        why = f"not valid TOML: {error}" if is_toml else str(error)
        raise _UnreadableError(why, defines_any=defines_any) from error


def _content_or_note(path: Path, source: str, notes: list[str], most_bytes: int = _MAX_BYTES) -> Any:
    """Return the decoded content of a file; None if it is missing, and with a note if it cannot be read."""
    try:
        return _content_of(path, most_bytes)
    except _UnreadableError as error:
        notes.append(f"{source} is left out: {error}")
        return None


def _hooks(content: Any, dialect: Dialect, source: str, notes: list[str], off: set[str]) -> list[Hook]:
    """Return the hooks in the content of a file. `off` holds the names of those switched off in Gemini CLI by the
    files read before; those of this file are added."""
    hooks = content.get("hooks") if isinstance(content, Mapping) else None
    if not isinstance(hooks, Mapping):
        if hooks:
            notes.append(f"{source}: its hooks are not run: `hooks` is not an object with events")
        return []
    if content.get("disableAllHooks") is True:
        return []
    if dialect == "gemini":
        # Before `hooksConfig`, its settings stood beside the events.
        settings = [each for each in (content.get("hooksConfig"), hooks) if isinstance(each, Mapping)]
        if any(each.get("enabled") is False for each in settings):
            return []
        listed = (each["disabled"] for each in settings if isinstance(each.get("disabled"), list))
        off.update(str(name) for names in listed for name in names)
        hooks = {name: groups for name, groups in hooks.items() if name not in _SETTINGS_OF_GEMINI}
    found = [hook for name, groups in hooks.items() for hook in _event(str(name), groups, dialect, source, notes)]
    unknown = [str(name) for name, groups in hooks.items() if groups and isinstance(groups, list)]
    if unknown := [name for name in unknown if event_named(name) is None]:
        are = "is no such event" if len(unknown) == 1 else "are no such events"
        named = (f"{name} (did you mean {near}?)" if (near := nearest_event(name)) else name for name in unknown)
        notes.append(f"{source}: hooks for {', '.join(named)} are not run: there {are} here")
    return [hook for hook in found if (hook.name or hook.line) not in off] if dialect == "gemini" else found


def _is_off(folder: Path, dialect: Dialect) -> bool:
    """Return True if the hooks of Codex are switched off in its configuration in this folder."""
    if dialect != "codex":
        return False
    features = settings_in(folder / ".codex/config.toml", _MAX_BYTES).get("features")
    return isinstance(features, Mapping) and False in (features.get("hooks"), features.get("codex_hooks"))


_SETTINGS_OF_GEMINI = ("enabled", "disabled", "notifications")


def _event(name: str, groups: Any, dialect: Dialect, source: str, notes: list[str]) -> Iterator[Hook]:
    event = event_named(name)
    if event is None:
        return
    if groups and not (isinstance(groups, list) and all(isinstance(group, dict) for group in groups)):
        fault = f"{name} is not a list of objects"
        notes.append(f"{source}: hooks: {fault}; what is not one is not run")
        if event in DECIDING:
            yield Hook(event, "", name=os.path.basename(source), source=source, written_event=name, fault=fault)
    for group in groups if isinstance(groups, list) else ():
        if not isinstance(group, dict):
            continue
        matcher = _matcher(name, group.get("matcher"))
        handlers = group["hooks"] if isinstance(group.get("hooks"), list) else [group]
        for handler in handlers:
            if isinstance(handler, dict):
                yield from _handler(event, name, matcher, handler, dialect, source, notes)


def _handler(
    event: Event,
    name: str,
    matcher: str,
    handler: Mapping[str, Any],
    dialect: Dialect,
    source: str,
    notes: list[str],
) -> Iterator[Hook]:
    kind = handler.get("type", "command")
    command, request = handler.get("command"), _request(handler)
    if kind == "http" and request is not None:
        command = ""
    elif kind != "command" or not isinstance(command, str) or not command.strip():
        notes.append(f"{source}: a hook of the type {kind} for {name} is not run")
        return
    arguments = handler.get("args")
    command = command.replace("${/}", os.sep)  # path separator in Gemini CLI
    yield Hook(
        event,
        (command, *map(str, arguments)) if isinstance(arguments, list) else command,
        matcher,
        _timeout_s(event, handler.get("timeout"), dialect),
        dialect,
        on_error="block" if handler.get("failClosed") is True else None,
        name=_text(handler, "name"),
        source=source,
        written_event=name,
        command_pattern=_text(handler, "matcher") if name.lower() in _ABOUT_SHELL else "",
        condition=_text(handler, "if"),
        is_async=handler.get("async") is True or handler.get("asyncRewake") is True,
        is_once=handler.get("once") is True,
        status=_text(handler, "statusMessage"),
        shell=_text(handler, "shell"),
        request=request if kind == "http" else None,
    )


def _text(handler: Mapping[str, Any], key: str) -> str:
    value = handler.get(key)
    return value if isinstance(value, str) else ""


def _request(handler: Mapping[str, Any]) -> HttpRequest | None:
    """Return the HTTP request of a handler; None if it has none."""
    url, headers, names = handler.get("url"), handler.get("headers"), handler.get("allowedEnvVars")
    if not isinstance(url, str) or not url.strip():
        return None
    pairs = headers.items() if isinstance(headers, dict) else ()
    listed = names if isinstance(names, list) else ()
    return HttpRequest(url, tuple((str(key), str(value)) for key, value in pairs), tuple(map(str, listed)))


_ABOUT_SHELL = ("beforeshellexecution", "aftershellexecution")


def _matcher(name: str, written: Any) -> str:
    """Return the matcher of a group; some events of Cursor imply the tool."""
    if name.lower() in _ABOUT_SHELL:
        return "^Shell$"
    fixed = {"beforereadfile": "^Read$", "afterfileedit": "^Write$", "beforemcpexecution": "^MCP:"}
    fixed["aftermcpexecution"] = "^MCP:"
    if usual := fixed.get(name.lower()):
        return usual
    if isinstance(written, dict):
        written = written.get("tool_name") or written.get("subagent_type")
    return written if isinstance(written, str) else ""


def _timeout_s(event: Event, written: Any, dialect: Dialect) -> float:
    if isinstance(written, int | float) and written > 0:
        longest_s = min(written, _LONGEST_S * 1000)  # an integer may be too large for a float
        return min(longest_s / 1000 if dialect == "gemini" else float(longest_s), _LONGEST_S)
    short = _CLAUDE_SHORT_S.get(event) if dialect == "claude" else None
    return short or (_END_S if event == "SessionEnd" else _USUAL_S[dialect])


def _content(hooks: Sequence[Hook], root: Path) -> bytes:
    """Return the content that consent to hooks is bound to: the hooks, and the workspace files they name."""
    words = [word for hook in hooks for word in words_of(hook, root)]
    return storable_json([hooks, named_files(words, root)], "sorted")


def words_of(hook: Hook, root: Path) -> list[str]:
    """Return the words of a hook's command, with the project folder's variable expanded."""
    words = shell_words(hook.command) if isinstance(hook.command, str) else hook.command
    folders = ("${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR")
    return [word.replace(folders[0], str(root)).replace(folders[1], str(root)) for word in words]
