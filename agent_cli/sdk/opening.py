"""Open the engine of a session with the options of an agent, as the command line does with its own."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from agent_cli.protocol.agent_types import AgentType

from . import hook
from .approvals import Answers
from .options import AgentDefinition, AgentError, AgentOptions
from .tool import adapted

if TYPE_CHECKING:
    from agent_cli.bootstrap.session_builder import OpenSession
    from agent_cli.bootstrap.setup import Setup

    from .tool import FunctionTool

_ANSWER_S = 60.0
_READS: dict[str, frozenset[Literal["user", "project"]]] = {
    "all": frozenset(("user", "project")),
    "user": frozenset(("user",)),
    "none": frozenset(),
}
_SAME = ("model", "mode", "sandbox", "effort", "max_turns")
"""Options with the same name on the command line."""


async def open_engine(options: AgentOptions) -> "OpenSession":
    """Return the engine of a session, not running yet.

    Raises:
        AgentError: it cannot be opened, or no model can be used.
    """
    from agent_cli.bootstrap.compose import open_session
    from agent_cli.bootstrap.options import UsageError
    from agent_cli.bootstrap.session_builder import FrontEnd
    from agent_cli.config.layer import ConfigError
    from agent_cli.model.routing import NoModel
    from agent_cli.model.types.base import ModelError
    from agent_cli.policy.rules.rule import RuleError
    from agent_cli.store.session_file import StoreError

    answers = answers_of(options)
    front = FrontEnd(approves=answers.approve is not None, answers=answers.answer is not None)
    try:
        return await open_session(_setup_of(options), front)
    except (UsageError, ConfigError, RuleError, NoModel, ModelError, StoreError) as error:
        raise AgentError(str(error)) from error


def session_file(options: AgentOptions, name: str) -> Path:
    """Return the file of a session, given by a prefix of its id, its name or its file.

    Raises:
        StoreError: there is no such session.
    """
    return _setup_of(options).sessions.find(name)


def answers_of(options: AgentOptions) -> Answers:
    """Return the program's callbacks for approvals and questions."""
    return Answers(options.get("approve"), options.get("answer"), options.get("approve_timeout", _ANSWER_S))


def _setup_of(options: AgentOptions) -> "Setup":
    from agent_cli.bootstrap.options import ParsedOptions
    from agent_cli.bootstrap.setup import Embedding, Setup

    state = options.get("state")
    embedding = Embedding(
        reads=_READS[options.get("settings", "all")],
        state=_absolute(state) if state is not None else None,
        system_prompt=options.get("system_prompt"),
        values=_configuration(options),
        agents=tuple(_agent_type(name, given) for name, given in options.get("agents", {}).items()),
        hooks=tuple(map(hook.adapted, options.get("hooks", ()))),
        budget=budget.shared() if (budget := options.get("budget")) is not None else None,
        tools=adapted(functions) if (functions := _functions(options)) else (),
    )
    return Setup(ParsedOptions("run", _values(options)), embedding=embedding)


def _configuration(options: AgentOptions) -> dict[str, Any]:
    """Return the configuration values that the program provides."""
    values = msgspec.to_builtins(options.get("config", {}))
    if servers := options.get("mcp_servers"):
        values["mcp_servers"] = {**values.get("mcp_servers", {}), **msgspec.to_builtins(servers)}
    return dict(values)


def _agent_type(name: str, given: AgentDefinition) -> AgentType:
    fields = {_AGENT_FIELDS.get(key, key): value for key, value in given.items()}
    unknown = given.keys() - AgentDefinition.__annotations__.keys()
    try:
        if unknown:
            raise AgentError(f"agents: {name}: there is no key {min(unknown)!r}")
        return msgspec.convert({"name": name, **fields, "origin": "user"}, AgentType)
    except msgspec.ValidationError as error:
        raise AgentError(f"agents: {name}: {error}") from error


_AGENT_FIELDS = {"cost_usd": "max_cost_usd", "timeout": "max_time_s"}
"""Names of agent options in the engine, where they differ."""


def _values(options: AgentOptions) -> dict[str, Any]:
    """Return the equivalent options of the command line."""
    values: dict[str, Any] = {name: options[name] for name in _SAME if name in options}  # type: ignore[literal-required]
    values["cd"] = str(_absolute(options.get("cwd", ".")))
    values["no_session"] = not options.get("save", True)
    if "cost_usd" in options:
        values["max_cost"] = options["cost_usd"]
    if words := [each for each in options.get("tools", ()) if isinstance(each, str)]:
        is_choice = any(not word.startswith("-") for word in words)
        values["tools"] = ",".join([*words, *(each.name for each in _functions(options) if is_choice)])
    session = options.get("fork") or options.get("resume")
    if session == "last":
        values["continue"] = True
    elif session:
        values["resume"] = session
    values["fork"] = "fork" in options
    return values


def _functions(options: AgentOptions) -> "list[FunctionTool[..., Any]]":
    return [each for each in options.get("tools", ()) if not isinstance(each, str)]


def _absolute(path: str | Path) -> Path:
    return Path(os.path.expanduser(path)).absolute()
