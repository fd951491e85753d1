"""Parser for sub-agent definition files: Markdown with front matter, or TOML as in Codex. One table of keys serves
all products, since users copy files from one folder to another. Keys without effect here are noted, and values
that cannot be understood never grant a right: the mode is the widest it may run in, and the rules ask or deny.

Loaded only if there are such files.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from agent_cli.config.foreign_settings import parse_toml
from agent_cli.policy.rules.foreign_rules import rule_of
from agent_cli.policy.rules.rule import Effect, RuleError, parse_rule
from agent_cli.protocol.actions import Mode
from agent_cli.protocol.agent_types import AgentType
from agent_cli.tools.kit.other_names import EDIT, own_tools, plain_name

from ..found_files import UnusableError
from ..front_matter import entries, first_line, one_line, read_front_matter
from ..places import Place, callable_name

_KEYS: Mapping[str, str] = {
    "name": "name", "description": "description",
    "developer_instructions": "instructions", "prompt": "instructions",
    "tools": "tools", "allowed_tools": "tools", "disallowed_tools": "without", "without_tools": "without",
    "permission": "permission", "permission_mode": "mode", "sandbox_mode": "mode", "approval_policy": "approval",
    "mode": "mode", "model": "model",
    "effort": "effort", "model_reasoning_effort": "effort", "reasoning_effort": "effort", "variant": "effort",
    "max_turns": "turns", "steps": "turns", "max_steps": "turns",
    "timeout_mins": "minutes", "timeout": "minutes", "timeout_s": "seconds", "max_time_s": "seconds",
    "max_cost_usd": "cost", "background": "background", "is_background": "background", "readonly": "readonly",
    "isolation": "isolation", "skills": "skills", "kind": "kind", "disable": "disable",
}  # fmt: skip
"""Meanings of keys in lower case, with words separated by `_`."""
_ROLES = ("subagent", "all", "primary")
"""Values of `mode` in OpenCode."""
_LONGEST_DESCRIPTION = 4_000
_MOST_ITEMS = 200


class ToolNames(msgspec.Struct, frozen=True):
    """Tool names converted to ours."""

    names: tuple[str, ...]
    has_all: bool
    """True if all tools are meant."""
    patterns: tuple[str, ...]
    """Entries with a pattern in brackets, as written; not included in `names`."""
    notes: tuple[str, ...]


def parse_agent(text: str, path: Path, place: Place) -> tuple[AgentType, tuple[str, ...]]:
    """Parse the text of a file. Return the type under the name in the file, which another file may also use, and
    notes on settings without effect and errors that do not make the file unusable.

    Raises:
        UnusableError: it defines no sub-agent, or one that cannot be used.
    """
    values, body, problem = _toml(text) if path.suffix == ".toml" else _markdown(text, path)
    fields = _Fields(values, [problem] if problem else [])
    _refuse_unusable(fields)
    name = callable_name(one_line(fields.take("name"))) or callable_name(path.stem)
    if not name:
        raise UnusableError("neither its name nor that of its file can be typed")
    instructions = _text(fields.take("instructions")) if not body.strip() else body
    if not instructions.strip():
        raise UnusableError("it has no instructions")
    description = one_line(fields.take("description"))[:_LONGEST_DESCRIPTION]
    if not description:
        description = first_line(instructions)[:_LONGEST_DESCRIPTION]
        fields.notes.append("it has no description; its first line stands in for it")
    made = AgentType(name=name, description=description, instructions=instructions.strip("\n"))
    made = _with_limits(_with_rights(made, fields), fields)
    made = msgspec.structs.replace(made, source=str(path), origin=place.origin)
    return made, tuple(dict.fromkeys((*fields.notes, *fields.unused())))


def _markdown(text: str, path: Path) -> tuple[dict[str, Any], str, str]:
    parts = read_front_matter(text, path)
    if not parts.values:
        raise UnusableError(parts.problem or "it has no front matter")
    return parts.values, parts.body, parts.problem


def _toml(text: str) -> tuple[dict[str, Any], str, str]:
    try:
        return parse_toml(text.encode("utf-8", "replace")), "", ""
    except ValueError as error:
        raise UnusableError(f"it is not valid TOML: {error}") from error


class _Fields:
    """The values of a file by meaning. Values never taken have no effect."""

    def __init__(self, values: Mapping[str, Any], notes: list[str]) -> None:
        self.notes = notes
        self._left: dict[str, list[tuple[str, Any]]] = {}
        self._unknown: list[str] = []
        for key, value in values.items():
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(key)).replace("-", "_").lower()
            if (meaning := _KEYS.get(words)) is None:
                self._unknown.append(str(key))
            else:
                self._left.setdefault(meaning, []).append((str(key), value))

    def take(self, meaning: str) -> Any:
        """Remove a meaning and return its value; of several the first that is not None."""
        return next((value for _, value in self.take_all(meaning)), None)

    def take_all(self, meaning: str) -> list[tuple[str, Any]]:
        """Remove and return all keys and values of a meaning."""
        return [(key, value) for key, value in self._left.pop(meaning, ()) if value is not None]

    def take_as(self, meaning: str, read: Callable[[Any], Any], wanted: str) -> Any:
        """Return a value converted by `read`; None, and a note, if it cannot be converted."""
        for key, value in self.take_all(meaning):
            if (made := read(value)) is not None:
                return made
            self.notes.append(f"`{key}` has no effect: {_short(value)} is not {wanted}")
        return None

    def unused(self) -> list[str]:
        """Return the note about keys without effect."""
        names = [*self._unknown, *(key for pairs in self._left.values() for key, _ in pairs)]
        return [f"without effect: {', '.join(_short(name) for name in names[:20])}"] if names else []


def _refuse_unusable(fields: _Fields) -> None:
    kind = one_line(fields.take("kind")).lower()
    if kind and kind != "local":
        raise UnusableError(f"it is of the kind {_short(kind)}, which cannot be run here")
    if _flag(fields.take("disable")):
        raise UnusableError("it is switched off (`disable`)")


def _with_rights(made: AgentType, fields: _Fields) -> AgentType:
    """Return a type with its tools, mode and rules."""
    given, denied = fields.take("tools"), fields.take("without")
    only, without = _listed_tools(given, fields) if given is not None else (None, ())
    taken = _names(denied, fields)
    denials = {written: _rule(rule_of(written), "deny") for written in taken.patterns}
    # a pattern without an equivalent rule removes its tool, since the author meant to restrict it
    whole = [written.partition("(")[0].strip() for written, rule in denials.items() if rule is None]
    plain = [entry for entry in entries(denied)[:_MOST_ITEMS] if entry not in taken.patterns]
    gone = tool_names((*plain, *whole))
    if whole:
        fields.notes.append(f"it has no {', '.join(whole)}: {', '.join(taken.patterns)} cannot be denied alone")
    allowed, narrowed = _opencode_permission(fields.take("permission"))
    fields.notes += narrowed["note"]
    return msgspec.structs.replace(
        made,
        tools=_both(only, allowed),
        without_tools=tuple(
            dict.fromkeys((*without, *gone.names, *(["*"] if gone.has_all else []), *narrowed["without"]))
        ),
        ask_rules=narrowed["ask"],
        deny_rules=tuple(dict.fromkeys((*filter(None, denials.values()), *narrowed["deny"]))),
        mode=_mode(fields),
    )


def _both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(name for name in one if name in other)


def _listed_tools(value: Any, fields: _Fields) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the tools that a list names, and those that an OpenCode mapping switches off."""
    if isinstance(value, Mapping):
        off = [str(name) for name, is_on in value.items() if is_on is not True]
        on = [str(name) for name, is_on in value.items() if is_on is True]
        if "*" in off:
            return _names(on, fields).names, ()
        return None, _names(off, fields).names
    found = _names(value, fields)
    if found.patterns:
        fields.notes.append(f"without effect: the patterns of {', '.join(found.patterns)}; it has the whole tools")
    return (None if found.has_all else found.names), ()


def _names(value: Any, fields: _Fields) -> ToolNames:
    found = tool_names(entries(value)[:_MOST_ITEMS])
    fields.notes += found.notes
    return found


def _mode(fields: _Fields) -> Mode | None:
    """Return the narrowest mode that is named. An unknown name narrows to `ask`, since it may have been meant to
    narrow."""
    modes: list[Mode] = ["plan"] if _flag(fields.take("readonly")) else []
    for key, value in (*fields.take_all("mode"), *fields.take_all("approval")):
        text = one_line(value)
        is_role = key == "mode" and text.lower() in _ROLES
        if is_role and text.lower() == "primary":
            raise UnusableError("it is an agent for the user to talk to (`mode: primary`), not a sub-agent")
        if is_role or (key == "approval_policy" and text != "untrusted"):
            continue
        if (mode := _MODES.get(text.replace("-", "").replace("_", "").lower())) is None:
            fields.notes.append(f"`{key}: {_short(text)}` is not known here, so it asks")
        modes.append(mode or "ask")
    return min(modes, key=_WIDTH.index, default=None)


def _with_limits(made: AgentType, fields: _Fields) -> AgentType:
    """Return a type with its model, limits and skills."""
    seconds = fields.take_as("seconds", _positive, "a number of seconds")
    minutes = fields.take_as("minutes", _positive, "a number of minutes")
    isolation = fields.take_as("isolation", _isolation, "`worktree`")
    turns = fields.take_as("turns", _positive, "a number of turns")
    return msgspec.structs.replace(
        made,
        model=_model(fields),
        effort=one_line(fields.take("effort")).lower()[:40],
        max_turns=max(1, int(turns)) if turns is not None else None,
        max_cost_usd=fields.take_as("cost", _positive, "an amount in dollars"),
        max_time_s=seconds if seconds is not None or minutes is None else minutes * 60,
        background=_flag(fields.take("background")),
        isolation=isolation or "",
        skills=_skills(fields),
    )


def _model(fields: _Fields) -> str:
    """Return the name of the model; words of Cursor that stand for a choice of it are no names."""
    name = one_line(fields.take("model"))[:200]
    if name.lower() not in ("fast", "auto", "default"):
        return name
    fields.notes.append(f"`model: {name}` has no effect: it uses the model of the conversation")
    return ""


def _skills(fields: _Fields) -> tuple[str, ...]:
    value = fields.take("skills")
    if isinstance(value, Mapping):  # `skills.config` of Codex
        fields.notes.append("without effect: skills.config")
        return ()
    return tuple(dict.fromkeys(entries(value)[:_MOST_ITEMS]))


def _isolation(value: Any) -> Literal["", "worktree"] | None:
    text = one_line(value).lower()
    return "worktree" if text == "worktree" else "" if text in ("", "none") else None


def _positive(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number > 0 and not isinstance(value, bool) else None


def _flag(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() in ("true", "yes", "on"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _short(value: Any) -> str:
    text = one_line(value)
    return f"{text[:60]}…" if len(text) > 60 else text


_MODES: Mapping[str, Mode] = {
    **dict.fromkeys(("plan", "readonly"), "plan"),
    **dict.fromkeys(("ask", "default", "manual", "untrusted", "dontask"), "ask"),
    **dict.fromkeys(("autoedit", "acceptedits", "auto", "workspacewrite"), "auto-edit"),
    **dict.fromkeys(("yolo", "bypasspermissions", "dangerfullaccess"), "yolo"),
}
"""Modes by permissionMode of Claude Code, sandbox_mode and approval_policy of Codex, and our own names, in lower
case without `-` and `_`."""
_WIDTH: tuple[Mode, ...] = ("plan", "ask", "auto-edit", "yolo")
_WRITES = (*EDIT, "write_file")
_NOT_HERE = frozenset({"exitplanmode", "enterplanmode", "lsp", "slashcommand", "sendmessage", "codesearch"})
_TOOL = re.compile(r"([^\s(]+)\s*(\(.*\))?", re.DOTALL)
_ALL_TOOLS = ("*", "all")
_KINDS: Mapping[str, str] = {"bash": "shell", "read": "read", "edit": "write", "webfetch": "fetch"}
"""Keys of `permission` that have patterns, and the corresponding kind of rule."""
_ASKED: Mapping[str, str] = {**_KINDS, "write": "write", "grep": "read", "glob": "read", "list": "read"}


_Restriction = Literal["without", "ask", "deny", "note"]
_Part = tuple[_Restriction, str]


def _opencode_permission(value: Any) -> tuple[tuple[str, ...] | None, dict[_Restriction, tuple[str, ...]]]:
    """Convert OpenCode's `permission`: an action for everything, or for each tool an action or actions by pattern.
    Return the only tools allowed, None for all, and the further restrictions by kind."""
    if isinstance(value, str):
        value = {"*": value}
    only: tuple[str, ...] | None = None
    parts: list[_Part] = []
    if not isinstance(value, Mapping):
        if value is not None:
            only, parts = (), [("note", "`permission` is not a mapping, so it has no tools")]
        value = {}
    elif value.get("*") == "deny":
        given = [str(key) for key, action in value.items() if action != "deny"]
        only = tuple(dict.fromkeys(name for key in given for name in _tools(key)))
        value = {key: action for key, action in value.items() if key != "*"}
    parts += [part for key, action in value.items() for part in _permission(str(key), action)]
    return only, {
        kind: tuple(dict.fromkeys(text for each, text in parts if each == kind)) for kind in get_args(_Restriction)
    }


def _permission(key: str, action: Any) -> Iterator[_Part]:
    if isinstance(action, Mapping):
        yield from _by_pattern(key, {str(pattern): str(each).lower() for pattern, each in action.items()})
        return
    match str(action).lower():
        case "allow":
            return
        case "deny":
            yield from (("without", name) for name in _tools(key))
        case "ask" if key == "*":
            yield from (("ask", kind) for kind in ("shell", "write", "fetch", "mcp"))
        case "ask" if key in _ASKED:
            yield "ask", _ASKED[key]
        case "ask":
            yield "note", f"without effect: permission.{key}: ask"
        case _:
            yield from (("without", name) for name in _tools(key))
            yield "note", f"permission.{key}: {action!r} is no action, so it is denied"


def _tools(key: str) -> tuple[str, ...]:
    return _WRITES if key == "edit" else own_names(key)


def _by_pattern(key: str, actions: Mapping[str, str]) -> Iterator[_Part]:
    """Yield the restrictions of a mapping from patterns to actions. In OpenCode the last matching pattern wins;
    here a deny rule, then an ask rule. A denial with exceptions becomes a full denial."""
    if actions.get("*", "allow") not in ("allow", "ask"):
        yield from (("without", name) for name in _tools(key))
        if len(actions) > 1:
            yield "note", f"permission.{key}: the exceptions to `*: deny` have no effect"
        return
    kind = _KINDS.get(key)
    for pattern, action in actions.items():
        if action == "allow":
            continue
        effect: Effect = "ask" if action == "ask" else "deny"
        rule = _rule(f"{kind}({pattern})" if pattern != "*" else str(kind), effect) if kind else None
        if rule is not None:
            yield ("ask", rule) if effect == "ask" else ("deny", rule)
        elif effect == "ask":
            yield "note", f"without effect: permission.{key}: {pattern}"
        else:
            yield from (("without", name) for name in _tools(key))
            yield "note", f"permission.{key}: {pattern} is not a rule here, so all of it is denied"


def _rule(text: str, effect: Effect) -> str | None:
    try:
        return parse_rule(text, effect, "").text
    except RuleError:
        return None


def tool_names(written: Iterable[str]) -> ToolNames:
    """Convert a list of names. An unknown name is kept, since a plug-in may provide the tool."""
    names: dict[str, None] = {}
    patterns, notes = [], []
    has_all = False
    for entry in written:
        found = _TOOL.fullmatch(entry.strip())
        if found is None:
            notes.append(f"{entry!r} names no tool")
            continue
        name = found[1]
        if found[2]:
            patterns.append(entry.strip())
        has_all = has_all or name.lower() in _ALL_TOOLS
        if plain_name(name) in _NOT_HERE:
            notes.append(f"there is no tool {name} here")
        elif name.lower() not in _ALL_TOOLS:
            names.update(dict.fromkeys(own_names(name)))
    return ToolNames(tuple(names), has_all, tuple(patterns), tuple(notes))


def own_names(name: str) -> tuple[str, ...]:
    """Return our tools for a name; wildcards and unknown names are kept."""
    if name.startswith("mcp__"):
        return (name if "__" in name[5:] or name.endswith("*") else f"{name}__*",)
    if name.startswith("mcp_"):  # form of Gemini CLI
        server, _, tool = name[4:].partition("_")
        return (f"mcp__{server}__{tool}" if tool else f"mcp__{server}" + ("" if server == "*" else "__*"),)
    return own_tools(name) or (name,)
