"""A server's tool as one of our tools: every call is an external call, whatever the server says about it."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from agent_cli.protocol.actions import Action, CallExternal
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import ResultKind
from agent_cli.protocol.sanitize import clip, visible, visible_line
from agent_cli.tools.kit.base import (
    ForeignTool,
    NeedsPreparation,
    Preview,
    ToolContext,
    ToolError,
    ToolOutcome,
)
from agent_cli.tools.kit.output import bounded, keep_whole, opened_by, result_tokens

from ..catalog.changes import changed_parts, definition_diff
from ..types.client import ServerError, Unanswered
from ..types.definition import ServerDefinition
from ..types.offer import CallOutcome, Entry, ToolDefinition
from .elicitation import asked_in_session
from .schemas import object_schema, server_arguments

_TITLE_CHARS = 120
_ABOUT = "# MCP servers\nWhat servers say about their tools; it does not come from the user."
_CLOSING = lazy_regex(r"</(?=\s*server\b)", re.IGNORECASE)
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class Link(Protocol):
    """The part of a server connection that a tool needs."""

    definition: ServerDefinition

    @property
    def instructions(self) -> str:
        """What the server says about its tools, as approved by the user; empty for nothing."""

    async def ready(self) -> object: ...

    async def call(
        self, tool: ToolDefinition, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> CallOutcome: ...

    def current(self, name: str) -> ToolDefinition | None:
        """Return a tool as the server describes it now; None if it no longer offers it."""

    def approved(self, name: str) -> ToolDefinition | None: ...

    def approve(self, tool: ToolDefinition) -> None: ...

    def asking(self, elicit: Any) -> AbstractContextManager[None]: ...


class Arguments(msgspec.Struct, frozen=True):
    """The arguments of a call, checked as far as the schema is simple."""

    values: dict[str, Any]
    shown: list[str] = []
    """The digest of a changed definition, once the user has been shown the change with this call."""


class ServerTool(ForeignTool, NeedsPreparation):
    """A tool of a server."""

    Params = Arguments
    editable = ""
    result_kind: ResultKind = "text"
    counted = ""

    def __init__(self, entry: Entry, link: Link) -> None:
        """Create the tool. `entry` is the definition given to the model."""
        self.name = entry.name
        self._told = entry.tool
        self._server = entry.server
        self._link = link
        self.label = f"{_word(entry.server)}: {_word(entry.tool.title or entry.tool.name)}"
        self.description = described(entry.tool)
        """The description given to the model."""

    @property
    def words(self) -> str:
        """What its server says about its tools, for the model; empty for nothing."""
        return server_words(self._server, self._link.instructions)

    @property
    def schema(self) -> dict[str, Any]:
        return object_schema(self._told.input_schema)

    def read_arguments(self, arguments: dict[str, Any]) -> Arguments:
        given, arguments = arguments, server_arguments(self._told.input_schema, arguments)
        if len(arguments) < len(given):
            raise ToolError(f"{self.name} was given one parameter under two names. Nothing was run.")
        schema = self._now.input_schema
        required, properties = schema.get("required"), schema.get("properties")
        parts = properties if isinstance(properties, dict) else {}
        listed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        # Schemas made by zod 4 call parameters with a default required; the server fills them in.
        if missing := [name for name in listed if name not in arguments and "default" not in _part(parts, name)]:
            raise ToolError(f"{self.name} needs {', '.join(missing)}. Nothing was run.")
        for name, value in arguments.items():
            kinds = _kinds(_part(parts, name))
            if any(_fits(value, kind) for kind in kinds):
                continue
            converted = _converted(value)
            if any(_fits(converted, kind) for kind in kinds):
                arguments[name] = converted
            elif kinds == [_part(parts, name).get("type")]:
                raise ToolError(f"{self.name}: `{name}` must be of type {kinds[0]}. Nothing was run.")
        return Arguments(arguments)

    def title(self, params: Arguments) -> str:
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in params.values.items())
        return shown[:_TITLE_CHARS] or "()"

    def actions(self, params: Arguments, context: ToolContext) -> tuple[Action, ...]:
        return (CallExternal(self._server, self._now.name, self._changed(), self._now.says_read_only),)

    async def make_ready(self, context: ToolContext) -> None:
        """Start the server, so that a call is judged by the current definition."""
        try:
            await self._link.ready()
        except ServerError as error:
            raise ToolError(f"{error} Nothing was run.") from error
        if self._link.current(self._told.name) is None:
            raise ToolError(f"The MCP server {self._server} no longer offers {self._told.name}. Nothing was run.")

    async def preview(self, params: Arguments, context: ToolContext) -> Preview:
        arguments = msgspec.json.format(msgspec.json.encode(params.values)).decode()
        if not self._changed():
            about = visible(self._now.description.strip().split("\n")[0])[:200]
            return Preview(visible(arguments) if params.values else "", note=about)
        params.shown[:] = [self._now.digest]
        change = definition_diff(self._link.approved(self._told.name), self._now)
        return Preview(f"{change}\n\n{visible(arguments)}", note="allowing the call approves the new definition")

    async def run(self, params: Arguments, context: ToolContext) -> ToolOutcome:
        """Call the tool. If its definition has changed, it runs only with the user's approval of that exact
        change."""
        now = self._now
        if changed := self._changed():
            if now.digest not in params.shown:
                why = f"The definition of {self.name} has changed since the call was allowed: {changed}."
                raise ToolError(f"{why} Nothing was run.")
            self._link.approve(now)
        elicit = asked_in_session(context.ask)
        try:
            with self._link.asking(elicit):
                outcome = await self._link.call(now, params.values, context.emit)
        except Unanswered as error:
            look = "" if now.may_be_repeated else " It may have done it all the same: look before you repeat it."
            raise ToolError(f"{error}{look}") from error
        except ServerError as error:
            raise ToolError(str(error)) from error
        return self._result(outcome, context)

    @property
    def _now(self) -> ToolDefinition:
        """The current definition, or the one given to the model while the server is not running."""
        return self._link.current(self._told.name) or self._told

    def _changed(self) -> str:
        return changed_parts(self._link.approved(self._told.name), self._now)

    def _result(self, outcome: CallOutcome, context: ToolContext) -> ToolOutcome:
        text = outcome.text or ("" if outcome.images else "(no output)")
        most = self._link.definition.max_result_tokens
        if most and most < context.max_tokens() and result_tokens(text) > most:
            path = keep_whole(context.spill_dir, context.call_id, text, context.redactor)
            text = bounded(text, most, f"{opened_by(path)} or recall {context.call_id}" if path else "")
        shown = bounded(text, context.max_tokens(), "")
        return ToolOutcome(text=text, display=shown, ok=not outcome.is_error, images=outcome.images)


def server_words(server: str, instructions: str) -> str:
    """Return the instructions of a server as an element for the model; empty if it has none."""
    inner = _CLOSING.sub("<\\\\/", visible(instructions))
    return f'<server name="{server}">\n{inner}\n</server>' if inner else ""


def introduction(tools: Iterable[object]) -> str:
    """Return the section of the system prompt with what servers say about these tools; empty for nothing."""
    said = dict.fromkeys(tool.words for tool in tools if isinstance(tool, ServerTool))
    return "\n".join((_ABOUT, *filter(None, said))) if any(said) else ""


def described(tool: ToolDefinition) -> str:
    """Return a tool's description for the model, with control and invisible characters escaped."""
    return visible((tool.description or tool.title or tool.name).strip())


def _part(properties: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the schema of a parameter; empty if there is none."""
    part = properties.get(name)
    return part if isinstance(part, dict) else {}


def _fits(value: Any, kind: str) -> bool:
    wanted = _KINDS.get(kind)
    if wanted is None or value is None:
        return True
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, wanted) and (isinstance(value, bool) <= (kind == "boolean"))


def _kinds(part: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names, or its alternatives, but `null`; empty if one of them names none."""
    alternatives = [part] if "type" in part else part.get("anyOf", part.get("oneOf"))
    kinds: list[str] = []
    for each in alternatives if isinstance(alternatives, list) else ():
        named = each.get("type") if isinstance(each, dict) else None
        listed = named if isinstance(named, list) else [named]
        words = [kind for kind in listed if isinstance(kind, str)]
        if len(words) < len(listed):
            return []
        kinds += words
    return [kind for kind in kinds if kind != "null"]


def _converted(value: Any) -> Any:
    """Return a value that was written as JSON in a string: some models, and servers that do not know the schema,
    write every value so."""
    try:
        return decode_json(value) if isinstance(value, str) else value
    except msgspec.DecodeError:
        return value


def _word(text: str) -> str:
    return visible_line(text)[:40]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return clip(visible_line(text), 60)
