"""Check the options of an agent before anything starts. Apart from the options because it knows the classes of the
library, whose modules raise the options' error."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, cast, get_args

from agent_cli.protocol.actions import Mode, SandboxLevel
from agent_cli.protocol.usage import Effort

from .options import AgentError, AgentOptions, SettingsFiles, is_amount


def checked(options: Mapping[str, Any]) -> AgentOptions:
    """Return the options after checking that each exists and has a possible value. None counts as omitted.

    Raises:
        AgentError: one is unknown or has a wrong value, or two exclude each other.
    """
    for name in options:
        if name not in AgentOptions.__annotations__:
            raise AgentError(
                f"there is no option {name!r}; the options are {', '.join(AgentOptions.__annotations__)}"
            )
    given = {name: value for name, value in options.items() if value is not None}
    if "resume" in given and "fork" in given:
        raise AgentError("resume and fork exclude each other: fork copies the session that it names")
    for name, value in given.items():
        is_possible, what = _POSSIBLE[name]
        if not is_possible(value):
            raise AgentError(f"{name} is {what}, not {_shown(value)}")
    return cast(AgentOptions, given)


def _shown(value: object) -> str:
    """Return a wrong value for a message. Those in a dict are left out: they may be secrets."""
    if isinstance(value, Mapping):
        value = {name: type(each).__name__ for name, each in value.items()}
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_path(value: object) -> bool:
    return isinstance(value, str | PurePath) and str(value) != "" and "\0" not in str(value)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_mapping_of_mappings(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in value.values())


def _are_tools(value: object) -> bool:
    from .tool import FunctionTool

    return _is_list(value) and all(isinstance(each, str | FunctionTool) for each in cast(Iterable[Any], value))


def _are_hooks(value: object) -> bool:
    from .hook import Hook

    return _is_list(value) and all(isinstance(each, Hook) for each in cast(Iterable[Any], value))


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_budget(value: object) -> bool:
    from .budget import Budget

    return isinstance(value, Budget)


def _one_of(values: Any) -> "_Possible":
    names: tuple[str, ...] = get_args(values)
    return (lambda value: isinstance(value, str) and value in names), f"one of {', '.join(names)}"


_LONGEST_SHOWN = 80
_Possible = tuple[Callable[[Any], bool], str]
_PATH: _Possible = (_is_path, "a path")
_AMOUNT: _Possible = (is_amount, "a number greater than 0")
_SESSION: _Possible = (_is_name, "'last', or the id, name or file of a session")
_CALLBACK: _Possible = (callable, "a function")
_POSSIBLE: dict[str, _Possible] = {
    "cwd": _PATH,
    "model": (_is_text, "a text: 'PROVIDER/MODEL'"),
    "mode": _one_of(Mode),
    "sandbox": _one_of(SandboxLevel),
    "effort": _one_of(Effort),
    "cost_usd": _AMOUNT,
    "max_turns": (_is_count, "a whole number of at least 1"),
    "timeout": _AMOUNT,
    "tools": (_are_tools, "a list of names, and of functions decorated with @tool"),
    "system_prompt": (_is_text, "a text"),
    "settings": _one_of(SettingsFiles),
    "state": _PATH,
    "save": (_is_flag, "True or False"),
    "approve": _CALLBACK,
    "answer": _CALLBACK,
    "approve_timeout": _AMOUNT,
    "agents": (_is_mapping_of_mappings, "a dict: name → a dict with `description`"),
    "hooks": (_are_hooks, "a list of Hook(event, function)"),
    "mcp_servers": (_is_mapping_of_mappings, "a dict: name → a dict such as {'command': …}"),
    "config": (_is_mapping, "a dict with keys of the configuration"),
    "budget": (_is_budget, "a Budget"),
    "resume": _SESSION,
    "fork": _SESSION,
}
"""Whether a value of an option is possible, and what a possible one is."""
