"""Find the servers that configuration files define: ours first, then those of other agents where they lie.

The nearest definition of a name counts. What a repository brings is inert until the user has agreed to that very
entry, and to the bytes of the files of the workspace that it names.
"""

import hashlib
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.dirs import SERVER_FILES_OF_PROJECTS, SERVER_FILES_OF_USERS, home_dir
from agent_cli.config.schema import McpServer
from agent_cli.fs.files import read_regular

from ..types.definition import ServerDefinition
from .configured import configured
from .formats import FormatError, claude, codex, cursor, gemini, json_with_comments, opencode

_MAX_BYTES = 32_000_000
_MAX_NAMED_BYTES = 200_000_000

Entries = Callable[[Any, Path], Any]


class _File(msgspec.Struct, frozen=True):
    """A file that may define servers."""

    path: Path
    entries: Entries
    """Finds the mapping of names to entries in its content, for a workspace."""
    read: Callable[[Any], McpServer]
    is_project: bool = False


class ProjectServer(msgspec.Struct, frozen=True):
    """A server that a repository brings, and what a yes to it is bound to."""

    definition: ServerDefinition
    place: str
    content: bytes
    shown: tuple[str, ...]
    """What would be started or contacted, a line each; variables by their names."""


class Found(msgspec.Struct, frozen=True):
    """What configuration files define."""

    usable: tuple[ServerDefinition, ...]
    inert: tuple[ProjectServer, ...]
    """Of the project, and not trusted."""
    notes: tuple[str, ...]
    """Files and entries that cannot be read, and entries that others hide."""


def find_servers(
    own: Mapping[str, McpServer],
    *,
    own_source: str,
    root: Path,
    home: Path,
    env: Mapping[str, str],
    trusts: Callable[[str, bytes], bool],
) -> Found:
    """Return the servers of the user's configuration, of the project, and of the user's other agents.

    Args:
        own: entries under `mcp_servers`.
        own_source: where these stand, for people.
        root: the workspace.
        home: the user's home directory.
        env: variables that entries may name.
        trusts: whether the user has agreed to a place and its content.
    """
    usable = {each.name: each for each in configured(own, env, root, own_source)}
    inert: list[ProjectServer] = []
    notes: list[str] = []
    for file in _files(root, home):
        for name, raw in _entries(file, root, notes):
            _add(file, name, raw, root, env, (usable, inert, notes), trusts)
    return Found(tuple(usable.values()), tuple(inert), tuple(notes))


def _add(
    file: _File,
    name: str,
    raw: Any,
    root: Path,
    env: Mapping[str, str],
    found: tuple[dict[str, ServerDefinition], list[ProjectServer], list[str]],
    trusts: Callable[[str, bytes], bool],
) -> None:
    usable, inert, notes = found
    source = _shown_path(file.path)
    try:
        server = file.read(raw)
    except FormatError as error:
        notes.append(f"{source}: the MCP server {name} is left out: {error}")
        return
    (definition,) = configured({name: server}, env, root, source)
    definition = msgspec.structs.replace(definition, is_project=file.is_project)
    if file.is_project:
        place, content = f"{file.path}#{name}", _content(raw, server, root)
        if not trusts(place, content):
            inert.append(ProjectServer(definition, place, content, tuple(_effects(name, server))))
            return
    known = usable.get(name)
    if known is None:
        usable[name] = definition
    elif known.fingerprint != definition.fingerprint:
        notes.append(f"{source}: the MCP server {name} is not used; {known.source} defines another of that name")


def _files(root: Path, home: Path) -> Iterator[_File]:
    """Yield the files that may define servers, the nearest first."""
    yield _File(home / ".claude.json", _of_claude_project, claude)
    for name in SERVER_FILES_OF_PROJECTS:
        yield _File(root / name, *_FORMATS[name], is_project=True)
    for name in SERVER_FILES_OF_USERS:
        yield _File(home / name, *_FORMATS[name])


def _under(key: str) -> Entries:
    return lambda content, root: content.get(key)


def _of_claude_project(content: Any, root: Path) -> Any:
    """Return the servers that the user gave Claude Code for this folder alone."""
    projects = content.get("projects")
    project = projects.get(str(root)) if isinstance(projects, dict) else None
    return project.get("mcpServers") if isinstance(project, dict) else None


_CLAUDE = (_under("mcpServers"), claude)
_FORMATS: dict[str, tuple[Entries, Callable[[Any], McpServer]]] = {
    ".claude.json": _CLAUDE,
    ".mcp.json": _CLAUDE,
    ".codex/config.toml": (_under("mcp_servers"), codex),
    ".gemini/settings.json": (_under("mcpServers"), gemini),
    "opencode.json": (_under("mcp"), opencode),
    "opencode.jsonc": (_under("mcp"), opencode),
    ".config/opencode/opencode.json": (_under("mcp"), opencode),
    ".cursor/mcp.json": (_under("mcpServers"), cursor),
    ".vscode/mcp.json": (_under("servers"), cursor),
}


def _entries(file: _File, root: Path, notes: list[str]) -> Iterator[tuple[str, Any]]:
    try:
        data = read_regular(file.path, _MAX_BYTES, follow=True)
    except OSError:
        return
    try:
        content = tomllib.loads(data.decode("utf-8")) if file.path.suffix == ".toml" else json_with_comments(data)
        found = file.entries(content, root) if isinstance(content, dict) else None
    except (FormatError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        notes.append(f"{_shown_path(file.path)} is left out: {error}")
        return
    if isinstance(found, dict):
        yield from ((str(name), raw) for name, raw in found.items())


def _content(raw: Any, server: McpServer, root: Path) -> bytes:
    """Return what a yes to an entry is bound to: itself, and the files of the workspace that it names."""
    words = (word for word in (server.command or "", *server.args, *server.env.values()) if word)
    return msgspec.json.encode([raw, hashes_of(words, root)], order="sorted")


def files_of(definition: ServerDefinition, root: Path) -> dict[str, str]:
    """Return the files of the workspace that starting a server would run, with the hashes of their contents."""
    return hashes_of((*definition.command, *definition.env.values()), root)


def hashes_of(words: Iterable[str], root: Path) -> dict[str, str]:
    """Return the files of the workspace that are named among words of a command, with hashes of their contents."""
    named = {path for word in words for path in _files_named(word, root)}
    return {str(path.relative_to(root)): _hash(path) for path in sorted(named)}


def _files_named(word: str, root: Path) -> Iterator[Path]:
    for each in {word, word.partition("=")[2]} - {""}:
        path = Path(os.path.normpath(root / os.path.expanduser(each)))
        if path.is_relative_to(root) and path.is_file():
            yield path


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(read_regular(path, _MAX_NAMED_BYTES, follow=True)).hexdigest()
    except OSError:  # what cannot be read is never what it was
        return os.urandom(16).hex()


def _effects(name: str, server: McpServer) -> Iterator[str]:
    what = f"connects to {server.url}" if server.url else f"runs {' '.join((server.command or '', *server.args))}"
    yield f"{name}: {what}"
    if server.env:
        yield f"  with the variables {', '.join(f'{key}={value}' for key, value in server.env.items())}"
    if server.headers:
        yield f"  with the headers {', '.join(f'{key}: {value}' for key, value in server.headers.items())}"
    if server.cwd:
        yield f"  in {server.cwd}"


def _shown_path(path: Path) -> str:
    home = str(home_dir())
    return f"~{str(path)[len(home) :]}" if str(path).startswith(f"{home}/") else str(path)
