"""The tools of a session in a fixed order: their declarations for the model, and parsing of a call's arguments
into a tool and typed parameters."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from agent_cli.protocol.json_text import NestedTooDeeplyError, decode_json, place_of_error

from .files.edit import EditFile
from .files.patch import ApplyPatch, PatchInCommand
from .files.read import ReadFile
from .files.write import WriteFile
from .kit.base import ForeignTool, NamesTool, Tool, ToolError, UnknownTool, describe
from .kit.output import first_of
from .kit.schema import fields_in_words, object_schema
from .search.grep_glob import Glob, Grep
from .search.list_dir import ListDir
from .search.repo_map import RepoMap
from .session.memory import MemoryTool
from .session.recall import Recall, SearchHistory
from .session.turn import AskUser, Finish, UpdatePlan
from .shell.jobs import JobsTool
from .shell.shell import Shell
from .web.fetch import WebFetch

_NOTHING_RUN = "Nothing was run."
_JSON_KINDS = {str: "a string", int: "a number", float: "a number", bool: "a boolean", list: "an array"}


class ToolDeclaration(msgspec.Struct, frozen=True):
    """The declaration of a tool for the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object, without references."""


class ParsedCall(NamedTuple):
    """A call as its tool understands it."""

    tool: Tool
    params: Any
    arguments: dict[str, Any]
    """What `params` were made of, under the tool's own names. Hooks see this, so that nothing can be hidden from
    them in a form that only the tool understands."""
    text: str
    """The arguments of the call as JSON: as written if they were understood as written."""


class Registry:
    """Tools by name, in the given order. The same tools always give the same bytes."""

    def __init__(self, tools: Iterable[Tool], others: Callable[[str], Tool | None] = lambda name: None) -> None:
        """`others` finds tools by name that can be called although the model learns of them elsewhere."""
        self._tools = {tool.name: tool for tool in tools}
        self._others = others
        self._specs: tuple[ToolDeclaration, ...] | None = None

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools in their order."""
        return tuple(self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def extended(
        self, tools: Iterable[Tool], others: Callable[[str], Tool | None] = lambda name: None
    ) -> "Registry":
        """Return a registry with additional tools at the end; see `__init__` for `others`."""
        return Registry((*self._tools.values(), *tools), others)

    def get(self, name: str) -> Tool | None:
        """Return the tool with exactly this name."""
        return self._tools.get(name) or self._others(name)

    def specs(self) -> tuple[ToolDeclaration, ...]:
        """Return the declarations for a model request."""
        if self._specs is None:
            self._specs = tuple(
                ToolDeclaration(tool.name, describe(tool), _schema(tool)) for tool in self._tools.values()
            )
        return self._specs

    def parse(self, name: str, arguments_json: str) -> tuple[Tool, Any]:
        """Return the tool and its parameters for a call, see `read`."""
        read = self.read(name, arguments_json)
        return read.tool, read.params

    def read(self, name: str, arguments_json: str) -> ParsedCall:
        """Parse a call as written by the model; empty text means `{}`.

        Raises:
            UnknownTool: there is no such tool; the message suggests similar names.
            ToolError: the arguments are wrong; the message says what would be right.
        """
        tool = self.get(name)
        if tool is None:
            raise UnknownTool(f"{self.unknown(name)} {_NOTHING_RUN}")
        written = _object(name, arguments_json)
        params, arguments = _read(tool, written)
        if isinstance(tool, NamesTool):
            tool, params = tool.meant_call(params)
        if isinstance(tool, ForeignTool):
            return ParsedCall(tool, params, dict(getattr(params, "values", written)), arguments_json)
        if isinstance(tool, Shell) and params.command.lstrip().startswith(("apply_patch", "applypatch")):
            return self._as_patch(params.command) or ParsedCall(tool, params, arguments, arguments_json)
        text = arguments_json if arguments is written else msgspec.json.encode(arguments).decode()
        return ParsedCall(tool, params, arguments, text)

    def _as_patch(self, command: str) -> ParsedCall | None:
        """Return the call of `apply_patch` that a command means; None if it is a command."""
        from .files.patch_format import patch_in_command

        tool, patch = self.get(ApplyPatch.name), patch_in_command(command)
        if not isinstance(tool, ApplyPatch) or not patch:
            return None
        arguments = {"patch": patch}
        params, text = tool.Params(**arguments), msgspec.json.encode(arguments).decode()
        return ParsedCall(PatchInCommand(), params, arguments, text)

    def unknown(self, name: str) -> str:
        """Return a message that there is no such tool, with suggestions."""
        for tool in self._tools.values():
            if isinstance(tool, NamesTool) and (told := tool.unknown(name)):
                return told
        from .kit.other_names import meant_tools

        near = meant_tools(name, self._tools)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"The tools are: {', '.join(self._tools)}."
        return f"There is no tool named {name!r}. {hint}"


def _read(tool: Tool, written: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the parameters of a call, and the arguments that they were made of."""
    if isinstance(tool, ForeignTool):
        return tool.read_arguments(written), written
    try:
        return msgspec.convert(written, tool.Params, strict=False), written
    except msgspec.ValidationError as error:
        for arguments in _other_readings(tool, written):
            with contextlib.suppress(msgspec.ValidationError):
                return msgspec.convert(arguments, tool.Params, strict=False), arguments
        why = _wrong_in(tool, written)
        raise ToolError(
            f"Wrong arguments for {tool.name}: {why or error}. Its fields: {fields_in_words(tool.Params)}."
            f" {_NOTHING_RUN}"
        ) from error


def _wrong_in(tool: Tool, written: dict[str, Any]) -> str:
    """Return what is wrong once the names of other agents are understood, so that these are not blamed."""
    from .kit.other_names import own_arguments

    schema = object_schema(tool.Params)
    arguments = own_arguments(schema, _without_nulls(written))
    unknown = [f"`{key[:40]}`" for key in arguments if key not in schema["properties"]]
    if len(unknown) > 1:
        return f"Object contains unknown fields {first_of(unknown, 5)}"
    try:
        msgspec.convert(arguments, tool.Params, strict=False)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _other_readings(tool: Tool, written: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from .kit.other_names import own_arguments

    yield _without_nulls(written)
    unwrapped = _without_nulls({key: _from_text(value) for key, value in written.items()})
    yield unwrapped
    schema = object_schema(tool.Params)
    yield own_arguments(schema, _without_nulls(written))
    yield own_arguments(schema, unwrapped)


def _schema(tool: Tool) -> dict[str, Any]:
    return tool.schema if isinstance(tool, ForeignTool) else object_schema(tool.Params)


def _object(name: str, text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    data = text.encode("utf-8", "replace")
    try:
        value = decode_json(data)
    except NestedTooDeeplyError as error:
        raise ToolError(f"The arguments for {name} are nested too deeply. {_NOTHING_RUN}") from error
    except msgspec.DecodeError as error:
        raise ToolError(
            f"The arguments for {name} are not valid JSON{_place(str(error), data)}. {_NOTHING_RUN}"
            " Send the call again with one complete JSON object."
        ) from error
    if not isinstance(value, dict):
        kind = _JSON_KINDS.get(type(value), "null")
        raise ToolError(f"The arguments for {name} must be a JSON object, not {kind}. {_NOTHING_RUN}")
    return value


def _place(message: str, data: bytes) -> str:
    """Convert msgspec's message with a byte offset to ` at line 2, column 4: trailing comma in object`."""
    if (found := place_of_error(message, data)) is None:
        return f": {message} (they end after {len(data)} bytes)"
    line, column, reason = found
    return f" at line {line}, column {column}: {reason}"


def _without_nulls(value: Any) -> Any:
    """Remove nulls, which some models use for omitted values."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _from_text(value: Any) -> Any:
    """Decode an array or object that some models write as JSON text within a string."""
    if not isinstance(value, str) or value.strip()[:1] not in ("[", "{"):
        return value
    try:
        return decode_json(value.encode("utf-8", "replace"))
    except msgspec.DecodeError:
        return value


def built_in(private_hosts: tuple[str, ...] = ()) -> tuple[Tool, ...]:
    """Return all built-in tools, in the order of their declarations."""
    return (
        ReadFile(), ListDir(), Glob(), Grep(), RepoMap(), EditFile(), WriteFile(), ApplyPatch(), Shell(),
        JobsTool(), Recall(), SearchHistory(), MemoryTool(), WebFetch(private_hosts), UpdatePlan(), AskUser(),
        Finish(),
    )  # fmt: skip


PRESETS: dict[str, tuple[str, ...]] = {
    "core": (
        "read_file", "list_dir", "glob", "grep", "edit_file", "write_file", "shell", "jobs", "recall",
        "search_history", "ask_user",
    ),
    "read-only": (
        "read_file", "list_dir", "glob", "grep", "repo_map", "recall", "search_history",
        "update_plan", "ask_user", "finish",
    ),
    "full": (),
}  # fmt: skip
"""Named selections of tools; empty means all tools."""


def default_registry(
    enabled: tuple[str, ...] = (),
    interactive: bool = True,
    extra: Iterable[Tool] = (),
    private_hosts: tuple[str, ...] = (),
) -> Registry:
    """Return the tools selected by `enabled`, see `selected_names`; `ask_user` only if a user is present.
    `private_hosts` may be fetched although they are not public.

    Raises:
        ToolError: `enabled` names a tool that does not exist.
    """
    tools = (*built_in(private_hosts), *extra)
    wanted = selected_names(enabled, Registry(tools))
    if Shell.name not in wanted:
        wanted -= {JobsTool.name}
    return Registry(tool for tool in tools if tool.name in wanted and (interactive or tool.name != AskUser.name))


LATE_TOOL_GROUPS = ("agent", "skill", "mcp")
"""Words in a selection for tools that are added later: those of sub-agents, skills and MCP servers."""
LATE_TOOLS = ("agent", "agents", "skill", "find_skills", "find_tools", "call_tool")
"""Names of these tools, except those of the servers themselves."""


def without_late_groups(enabled: Sequence[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return a selection without the words of `LATE_TOOL_GROUPS`, and the words whose tools it includes. If only
    specific tools are selected, such a word must be among them."""
    words = tuple(word for word in enabled if word.removeprefix("-") not in LATE_TOOL_GROUPS)
    named = [word for word in words if not word.startswith("-")]
    usual = () if named and "full" not in named else LATE_TOOL_GROUPS
    return words, frozenset((*usual, *enabled)) & frozenset(
        word for word in LATE_TOOL_GROUPS if f"-{word}" not in enabled
    )  # fmt: skip


def selected_names(enabled: tuple[str, ...], known: Registry) -> frozenset[str]:
    """Return the tool names that a selection includes: tools and presets in any order, `-NAME` to exclude one. A
    selection that is empty or only excludes starts from all tools.

    Raises:
        ToolError: a name is unknown.
    """
    names: set[str] = set()
    without: set[str] = set()
    for word in enabled:
        name = word.removeprefix("-")
        if name not in PRESETS and known.get(name) is None:
            raise ToolError(known.unknown(name) + f" Presets: {', '.join(PRESETS)}.")
        meant = (PRESETS[name] or known.names) if name in PRESETS else (name,)
        (without if word.startswith("-") else names).update(meant)
    return frozenset((names or set(known.names)) - without)
