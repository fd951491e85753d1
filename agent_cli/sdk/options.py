"""What an agent is made with, and how that becomes the options and values that the command line works with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from agent_cli.config.schema import Effort
from agent_cli.protocol.actions import Mode, SandboxLevel

if TYPE_CHECKING:
    from agent_cli.cli.setup.setup import Setup


class AgentError(Exception):
    """The agent is used wrongly, or cannot be started; the text says what to do instead. A turn that fails is no
    such error: its result says why in `stop_reason` and `error`."""


SettingsFiles = Literal["all", "user", "none"]
"""Whose settings are read: those of user and project, of the user alone, or of nobody."""
_READS: dict[str, frozenset[Literal["user", "project"]]] = {
    "all": frozenset(("user", "project")),
    "user": frozenset(("user",)),
    "none": frozenset(),
}


class AgentOptions(TypedDict, total=False):
    """What an agent is made with. What is left out is as the settings say, else as `agent run` has it."""

    cwd: str | Path
    """The folder to work in; `~` is the home directory. The current one if left out."""
    model: str
    """As `provider/model`; `replay/FILE` gives the answers of a recorded session."""
    mode: Mode
    """What runs without asking: plan, ask, auto-edit or yolo."""
    sandbox: SandboxLevel
    """What commands may reach: read-only, workspace-write or off."""
    effort: Effort
    """Reasoning effort."""
    cost_usd: float
    """Limit on the cost of one prompt."""
    max_turns: int
    """Limit on the model calls of one prompt."""
    timeout: float
    """Limit on the time of one prompt, in seconds; it then ends with `time_limit`."""
    tools: Sequence[str]
    """The tools to offer: `core`, `read-only`, `full` or names; `-NAME` leaves one out."""
    system_prompt: str
    """A text to use as the system prompt, in place of the built-in one."""
    settings: SettingsFiles
    """Which files are read: `all`, those of the `user`, or `none`. Keys of providers always are."""
    state: str | Path
    """The folder for sessions, checkpoints and caches, in place of the user's."""
    save: bool
    """Whether the session is saved; it is if left out."""
    resume: str
    """Resume a session: `last` of the folder, or an id, name or file."""
    fork: str
    """Work on a copy of a session: `last` of the folder, or an id, name or file."""


_SAME = ("model", "mode", "sandbox", "effort", "max_turns")
"""The options that the command line has by the same names."""


def checked(options: Mapping[str, Any]) -> AgentOptions:
    """Return options, each of which exists.

    Raises:
        AgentError: one is unknown, or two exclude each other.
    """
    for name in options:
        if name not in AgentOptions.__annotations__:
            raise AgentError(
                f"there is no option {name!r}; the options are {', '.join(AgentOptions.__annotations__)}"
            )
    if "resume" in options and "fork" in options:
        raise AgentError("resume and fork exclude each other: fork copies the session that it names")
    if options.get("settings", "all") not in _READS:
        raise AgentError(f"settings is one of {', '.join(_READS)}, not {options['settings']!r}")
    return cast(AgentOptions, dict(options))


def setup_of(options: AgentOptions) -> "Setup":
    """Return what the engine is built from.

    Raises:
        UsageError, ConfigError: an option has a value that cannot be.
    """
    from agent_cli.cli.setup.options import ParsedOptions
    from agent_cli.cli.setup.setup import Embedding, Setup

    state = options.get("state")
    embedding = Embedding(
        reads=_READS[options.get("settings", "all")],
        state=_absolute(state) if state is not None else None,
        system_prompt=options.get("system_prompt"),
    )
    return Setup(ParsedOptions("run", _values(options)), embedding=embedding)


def _values(options: AgentOptions) -> dict[str, Any]:
    """Return the options of the command line that say the same."""
    values: dict[str, Any] = {name: options[name] for name in _SAME if name in options}  # type: ignore[literal-required]
    values["cd"] = str(_absolute(options.get("cwd", ".")))
    values["no_session"] = not options.get("save", True)
    if "cost_usd" in options:
        values["max_cost"] = options["cost_usd"]
    if "tools" in options:
        values["tools"] = ",".join(options["tools"])
    session = options.get("fork") or options.get("resume")
    if session == "last":
        values["continue"] = True
    elif session:
        values["resume"] = session
    values["fork"] = "fork" in options
    return values


def _absolute(path: str | Path) -> Path:
    return Path(path).expanduser().absolute()
