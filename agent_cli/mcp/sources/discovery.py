"""Find servers in configuration files: ours first, then those of other agents. The nearest definition of a name
counts. A repository's servers are inert until the user has agreed to the exact entry and to the content of the
workspace files that it names.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.dirs import SERVER_FILES_OF_PROJECTS, SERVER_FILES_OF_USERS, home_dir
from agent_cli.config.expand import expand
from agent_cli.config.foreign_settings import json_with_comments, parse_toml
from agent_cli.config.layer import ConfigError
from agent_cli.config.schema import McpServer
from agent_cli.fs.files import read_regular
from agent_cli.fs.named_files import named_files
from agent_cli.protocol.records import storable_json

from ..types.definition import OAuthSettings, ServerDefinition, Transport
from .formats import FormatError, claude, codex, codex_json, cursor, gemini, of_plugin, opencode, without_effect

_MAX_BYTES = 32_000_000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OTHER = re.compile(r"[^A-Za-z0-9_.-]")
"""Characters not allowed in server names: a slash would make `a/b` a tool of `a` in rules, and `*` a pattern."""
_LONGEST_NAME = 64

Entries = Callable[[Mapping[str, Any], Path], Any]


class _File(msgspec.Struct, frozen=True):
    """A file that may define servers."""

    path: Path
    entries: Entries
    """Returns the mapping of names to entries in its content, for a workspace."""
    read: Callable[[Any], McpServer]
    is_project: bool = False


class ProjectServer(msgspec.Struct, frozen=True):
    """A server that a repository defines, with the content that the user's consent is bound to."""

    definition: ServerDefinition
    place: str
    content: bytes
    shown: tuple[str, ...]
    """Commands and addresses to be used, one per line; variables are shown by name."""


class Found(msgspec.Struct, frozen=True):
    """The servers found in configuration files."""

    usable: tuple[ServerDefinition, ...]
    inert: tuple[ProjectServer, ...]
    """Servers of the project that are not trusted."""
    notes: tuple[str, ...]
    """Files and entries that cannot be read, and entries hidden by others."""


def find_servers(
    own: Mapping[str, McpServer],
    *,
    own_source: Callable[[str], str],
    root: Path,
    home: Path,
    env: Mapping[str, str],
    trusts: Callable[[str, bytes], bool],
    plugins: Sequence[ServerDefinition] = (),
    reads: Collection[str] = ("user", "project"),
) -> Found:
    """Return the servers of the user's configuration, of plug-ins, of the project, and of the user's other agents.

    Args:
        own: entries under `mcp_servers`.
        own_source: returns where one of them is defined, for display.
        root: the workspace.
        home: the user's home directory.
        env: variables that entries may refer to.
        trusts: returns True if the user has agreed to a place and its content.
        plugins: servers of plug-ins that the user has agreed to.
        reads: owners (`user`, `project`) whose files of other agents are read.
    """
    servers = {name: _definition(name, server, env, root, own_source(name)) for name, server in own.items()}
    found = _Found(root, env, trusts, servers)
    for definition in plugins:
        found.add_known(definition)
    contents: dict[Path, Mapping[str, Any]] = {}
    files = list(_files(root, home))
    of_user = {os.path.realpath(file.path) for file in files if not file.is_project and "user" in reads}
    for file in files:
        if ("project" if file.is_project else "user") not in reads:
            continue
        if file.is_project and os.path.realpath(file.path) in of_user:
            continue  # the workspace is the home directory
        for name, raw in _entries(file, root, contents, found.notes):
            found.add(file, name, raw)
    return Found(tuple(found.usable.values()), tuple(found.inert), tuple(found.notes))


class PluginServers(msgspec.Struct, frozen=True):
    """The servers of a plug-in."""

    definitions: tuple[ServerDefinition, ...] = ()
    shown: tuple[tuple[str, ...], ...] = ()
    """Commands and addresses used by each, one per line; variables are shown by name."""
    notes: tuple[str, ...] = ()
    """Entries that cannot be read."""


def plugin_servers(
    plugin: str,
    entries: Mapping[str, Any],
    product: str,
    root: Path,
    *,
    env: Mapping[str, str],
    variables: Mapping[str, str],
) -> PluginServers:
    """Return the servers of a plug-in.

    Args:
        plugin: its name.
        entries: servers by name, as written.
        product: the product it was made for.
        root: its folder, to which relative folders refer.
        env: variables that entries may refer to.
        variables: those of the plug-in, which entries may also refer to and its servers get.
    """
    servers: list[ServerDefinition] = []
    shown, notes = [], []
    for written, raw in entries.items():
        name = _OTHER.sub("_", f"plugin_{plugin}_{written}")[:_LONGEST_NAME]
        try:
            server = _OF_PLUGINS[product](of_plugin(raw))
        except FormatError as error:
            notes.append(f"plug-in {plugin}: the MCP server {written} is left out: {error}")
            continue
        found = _definition(name, server, {**env, **variables}, root, f"plug-in {plugin}")
        env_of_server = {**variables, **found.env}
        servers.append(msgspec.structs.replace(found, env=env_of_server, plugin_root=str(root)))
        shown.append(tuple(_effects(written, server)))
    return PluginServers(tuple(servers), tuple(shown), tuple(notes))


class _Found:
    """Collector of entries, to which the nearest are added first."""

    def __init__(
        self,
        root: Path,
        env: Mapping[str, str],
        trusts: Callable[[str, bytes], bool],
        own: dict[str, ServerDefinition],
    ) -> None:
        self.usable = own
        self.inert: list[ProjectServer] = []
        self.notes: list[str] = []
        self._root = root
        self._env = {**env, "CLAUDE_PROJECT_DIR": str(root)}
        self._trusts = trusts

    def add(self, file: _File, written: str, raw: Any) -> None:
        """Add an entry, unless its name is taken or the user must agree to it first."""
        source = _shown_path(file.path)
        name = _OTHER.sub("_", written)[:_LONGEST_NAME]
        try:
            server = file.read(raw)
        except FormatError as error:
            self.notes.append(f"{source}: the MCP server {name} is left out: {error}")
            return
        self.notes += [f"{source}: the MCP server {name}: {wrong}" for wrong in without_effect(raw)]
        definition = _definition(name, server, self._env, self._root, source)
        definition = msgspec.structs.replace(definition, is_project=file.is_project)
        if self._is_known(definition):
            return
        if file.is_project:
            place = f"{file.path}#{written}"
            # Consent is bound to the entry, and to the workspace files that it names.
            content = storable_json([raw, files_of(definition, self._root)], "sorted")
            if not self._trusts(place, content):
                if not server.enabled:
                    self.notes.append(f"{source}: the MCP server {name} is switched off")
                    return
                if self._is_asked_about(definition):
                    return
                effects = tuple(_effects(name, server))
                self.inert.append(ProjectServer(definition, place, content, effects))
                return
        self.usable[name] = definition

    def add_known(self, definition: ServerDefinition) -> None:
        """Add a server that the user has agreed to, unless its name is taken."""
        if not self._is_known(definition):
            self.usable[definition.name] = definition

    def _is_known(self, definition: ServerDefinition) -> bool:
        return self._is_hidden(definition, self.usable.get(definition.name))

    def _is_asked_about(self, definition: ServerDefinition) -> bool:
        """Return True if a nearer file has a server of this name, which the user is asked about."""
        inert = (each.definition for each in self.inert)
        return self._is_hidden(definition, next((each for each in inert if each.name == definition.name), None))

    def _is_hidden(self, definition: ServerDefinition, nearer: ServerDefinition | None) -> bool:
        name, source = definition.name, definition.source
        if nearer and nearer.fingerprint != definition.fingerprint:
            self.notes.append(
                f"{source}: the MCP server {name} is not used; {nearer.source} defines another of that name"
            )
        return nearer is not None


def _files(root: Path, home: Path) -> Iterator[_File]:
    """Yield the files that may define servers, the nearest first."""
    yield _File(home / ".claude.json", _of_claude_project, claude)
    for name in SERVER_FILES_OF_PROJECTS:
        entries, read = _FORMATS[name]
        if name == ".mcp.json":
            entries = _without_those_off(home)
        yield _File(root / name, entries, read, is_project=True)
    for name in SERVER_FILES_OF_USERS:
        yield _File(home / name, *_FORMATS[name])


def _under(key: str) -> Entries:
    return lambda content, root: _plain(content.get(key))


def _of_claude_project(content: Mapping[str, Any], root: Path) -> Any:
    """Return the servers configured in Claude Code for this folder only."""
    return _but_off_here(_claude_project(content, root).get("mcpServers"), content, root)


def _of_claude_user(content: Mapping[str, Any], root: Path) -> Any:
    """Return the servers configured in Claude Code for every folder."""
    return _but_off_here(_plain(content.get("mcpServers")), content, root)


def _but_off_here(servers: Any, content: Mapping[str, Any], root: Path) -> Any:
    """Return servers, those marked that `.claude.json` switches off in a folder."""
    off = _claude_project(content, root).get("disabledMcpServers") if servers else None
    return _switched_off(servers, off) if isinstance(servers, dict) and isinstance(off, list) else servers


def _claude_project(content: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
    """Return what `.claude.json` says of a folder."""
    projects = content.get("projects")
    project = json_with_comments(bytes(projects), dict[str, msgspec.Raw]).get(str(root)) if projects else None
    found = _plain(project)
    return found if isinstance(found, dict) else {}


def _without_those_off(home: Path) -> Entries:
    """Return the reader of a project's servers of Claude Code, in whose settings some may be switched off."""

    def entries(content: Mapping[str, Any], root: Path) -> Any:
        servers = _plain(content.get("mcpServers"))
        return _switched_off(servers, _off_in_claude(root, home)) if isinstance(servers, dict) else servers

    return entries


def _off_in_claude(root: Path, home: Path) -> set[str]:
    """Return the names of the project's servers that settings of Claude Code switch off."""
    places = (home / ".claude/settings.json", root / ".claude/settings.json", root / ".claude/settings.local.json")
    listed: list[Any] = []
    for path in places:
        with suppress(OSError, msgspec.DecodeError, FormatError):
            listed.append(_plain(_decoded(path).get("disabledMcpjsonServers")))
    with suppress(OSError, msgspec.DecodeError, FormatError):
        project = _claude_project(_decoded(home / ".claude.json"), root)
        listed += [project.get("disabledMcpjsonServers"), project.get("disabledMcpServers")]
    return {str(name) for names in listed if isinstance(names, list) for name in names}


def _switched_off(servers: Mapping[str, Any], off: Collection[str]) -> dict[str, Any]:
    return {
        name: {**entry, "disabled": True} if isinstance(entry, dict) and name in off else entry
        for name, entry in servers.items()
    }


def _of_gemini(content: Mapping[str, Any], root: Path) -> Any:
    """Return the servers of Gemini CLI; those that its settings leave out are marked as switched off."""
    servers, chosen = _plain(content.get("mcpServers")), _plain(content.get("mcp"))
    if not isinstance(servers, dict) or not isinstance(chosen, dict):
        return servers
    allowed, excluded = chosen.get("allowed"), chosen.get("excluded")
    off = {name for name in servers if isinstance(allowed, list) and name not in allowed}
    return _switched_off(servers, off.union(excluded if isinstance(excluded, list) else ()))


def _plain(value: Any) -> Any:
    """Decode one part of a JSON file; the other parts may be large and are not decoded."""
    return json_with_comments(bytes(value)) if isinstance(value, msgspec.Raw) else value


_CLAUDE = (_under("mcpServers"), claude)
_OF_PLUGINS: dict[str, Callable[[Any], McpServer]] = {"claude": claude, "codex": codex_json, "gemini": gemini}
_FORMATS: dict[str, tuple[Entries, Callable[[Any], McpServer]]] = {
    ".claude.json": (_of_claude_user, claude),
    ".mcp.json": _CLAUDE,
    ".codex/config.toml": (_under("mcp_servers"), codex),
    ".gemini/settings.json": (_of_gemini, gemini),
    "opencode.json": (_under("mcp"), opencode),
    "opencode.jsonc": (_under("mcp"), opencode),
    ".config/opencode/opencode.json": (_under("mcp"), opencode),
    ".config/opencode/opencode.jsonc": (_under("mcp"), opencode),
    ".opencode/opencode.json": (_under("mcp"), opencode),
    ".opencode/opencode.jsonc": (_under("mcp"), opencode),
    ".cursor/mcp.json": (_under("mcpServers"), cursor),
    ".vscode/mcp.json": (_under("servers"), cursor),
}


def _entries(
    file: _File, root: Path, contents: dict[Path, Mapping[str, Any]], notes: list[str]
) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a file by name; none if it is missing or not a regular file."""
    try:
        if file.path not in contents:
            contents[file.path] = _decoded(file.path)
        found = file.entries(contents[file.path], root)
        if not isinstance(found, dict | None):
            raise FormatError("the list of MCP servers is not a mapping")
    except OSError:
        return
    except (FormatError, msgspec.DecodeError) as error:
        contents[file.path] = {}  # noted once, though two parts of it are read
        notes.append(f"{_shown_path(file.path)} is left out: {error}")
        return
    yield from ((str(name), raw) for name, raw in (found or {}).items())


def _decoded(path: Path) -> Mapping[str, Any]:
    """Read a settings file; raises as `read_regular` and `json_with_comments`."""
    data = read_regular(path, _MAX_BYTES, follow=True)
    if path.suffix != ".toml":
        decoded: dict[str, msgspec.Raw] = json_with_comments(data, dict[str, msgspec.Raw]) if data.strip() else {}
        return decoded
    try:
        return parse_toml(data)
    except ValueError as error:
        raise FormatError(f"not valid TOML: {error}") from error


def files_of(definition: ServerDefinition, root: Path) -> dict[str, str]:
    """Return the workspace files that starting a server would run, with the hashes of their content."""
    words = (*definition.command, *definition.env.values())
    return named_files(words, root, Path(definition.cwd) if definition.cwd else None)


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


def _definition(name: str, server: McpServer, env: Mapping[str, str], root: Path, source: str) -> ServerDefinition:
    """Return the definition of a server with variables expanded; `problem` says why it cannot start."""
    problems: list[str] = []

    def filled(text: str) -> str:
        try:
            return expand(text, env, f"mcp_servers.{name}")
        except ConfigError as error:
            problems.append(str(error))
            return text

    transport = _transport(server, problems, name)
    return ServerDefinition(
        name=name,
        transport=transport,
        command=tuple(map(filled, (server.command, *server.args))) if server.command else (),
        env={key: filled(value) for key, value in server.env.items()},
        cwd=os.path.normpath(root / os.path.expanduser(filled(server.cwd))) if server.cwd else "",
        url=filled(server.url or ""),
        headers={key: filled(value) for key, value in server.headers.items()},
        oauth=_oauth(server, filled),
        enabled=server.enabled,
        timeout_s=server.timeout_s,
        idle_timeout_s=server.idle_timeout_s,
        start_timeout_s=server.start_timeout_s,
        tools=server.tools,
        max_result_tokens=server.max_result_tokens,
        sampling=server.sampling,
        sandbox=server.sandbox,
        source=source,
        problem="; ".join(dict.fromkeys(problems)),
    )


def _transport(server: McpServer, problems: list[str], name: str) -> Transport:
    key = f"mcp_servers.{name}"
    if not _NAME.fullmatch(name):
        problems.append(f"{key}: a name has letters, digits, `.`, `_` and `-`, at most 64")
    if bool(server.command) == bool(server.url):
        problems.append(f"{key}: give either `command` or `url`")
    elif server.command and server.type in ("http", "sse"):
        problems.append(f"{key}: type {server.type} needs a `url`, not a `command`")
    elif server.url and server.type == "stdio":
        problems.append(f"{key}: type stdio needs a `command`, not a `url`")
    if server.url and not server.url.startswith(("http://", "https://", "${")):
        problems.append(f"{key}: the url must begin with http:// or https://")
    return server.type or ("stdio" if server.command else "http")


def _oauth(server: McpServer, filled: Callable[[str], str]) -> OAuthSettings:
    given = server.oauth
    secret = filled(given.client_secret or "")
    return OAuthSettings(
        filled(given.client_id or ""), secret, given.scopes, given.callback_port, given.callback_host
    )
