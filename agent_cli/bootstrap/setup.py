"""The setup of a command: directory, configuration and state folders, derived from the options."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import msgspec

from agent_cli.config.api_keys import KeyedEnvironment, keyed
from agent_cli.config.dirs import config_dir, has_plugins, home_dir, state_dir
from agent_cli.config.layer import ConfigError, Layer
from agent_cli.config.load import Loaded, assignment, load, nested, with_flags
from agent_cli.config.schema import Config
from agent_cli.config.trust import TOOLS_FOLDER, Trust, tool_sources
from agent_cli.config.yaml_file import parse as parse_file
from agent_cli.engine.tool_calls.call_rules import BoundRule, as_permissions, bind
from agent_cli.fs.files import make_private
from agent_cli.policy.rules.rule import Effect, Rule, RuleError, parse_rule
from agent_cli.protocol.agent_types import AgentType
from agent_cli.protocol.paths import is_inside
from agent_cli.protocol.records import Header, storable_json, storable_text
from agent_cli.store.catalog import Sessions
from agent_cli.store.session_file import read_session
from agent_cli.store.state.learned_limits import LearnedLimitsFile
from agent_cli.workspace.instructions import instruction_bytes
from agent_cli.workspace.paths import PathError, Workspace

from .options import NO_DIRECTORY, ParsedOptions, UsageError

if TYPE_CHECKING:
    from agent_cli.engine.model_calls.budget import SharedBudget
    from agent_cli.extensions.places import Kind, Place
    from agent_cli.hooks.definition import Hook
    from agent_cli.tools.kit.base import Buffers, Tool

T = TypeVar("T")

_FLAG_KEYS = {
    "model": "model",
    "mode": "mode",
    "sandbox": "sandbox",
    "effort": "effort",
    "max_turns": "limits.turns",
    "max_cost": "limits.cost_usd",
}


CARRIED = "carried"
"""Key of the options that a session takes over from the one before it: nobody wrote them on the command line."""
_CARRIED_FROM = "this session"
_LONGEST_TEXT_CHARS = 50_000_000
NO_OPTIONS = ParsedOptions("agent", {})
"""For commands that take none of the options of a session."""


class Embedding(msgspec.Struct, frozen=True):
    """Values from a program that embeds the agent, in place of files."""

    reads: frozenset[Literal["user", "project"]] = frozenset(("user", "project"))
    """Whose settings files are read; access lists and keys always apply."""
    state: Path | None = None
    """State folder, instead of the user's."""
    values: dict[str, Any] = {}
    """Configuration values; flags take precedence."""
    system_prompt: str | None = None
    """Replaces the built-in system prompt."""
    tools: "tuple[Tool, ...]" = ()
    """Additional tools."""
    agents: tuple[AgentType, ...] = ()
    """Additional types of sub-agents."""
    hooks: "tuple[Hook, ...]" = ()
    """Additional hooks."""
    buffers: "Buffers | None" = None
    """Files in the user's editor."""
    budget: "SharedBudget | None" = None
    """A cost limit shared with other sessions of the process."""


class Setup:
    """The setup of a command. Creating it opens and writes nothing.

    Raises:
        UsageError: a directory or file does not exist, or a permission rule is invalid, with its place.
        ConfigError: the configuration is invalid.
    """

    def __init__(
        self,
        chosen: ParsedOptions = NO_OPTIONS,
        *,
        root: Path | None = None,
        own: Path | None = None,
        embedding: Embedding | None = None,
    ) -> None:
        """`own` is a folder to use instead of the user's configuration and state."""
        self.chosen = chosen
        self.purpose = ""
        """Purpose of its sessions if they are not conversations."""
        self.embedding = embedding or Embedding()
        self.reads_user = "user" in self.embedding.reads
        self.reads_project = "project" in self.embedding.reads
        self.root = root or _directory(chosen.text("cd") or os.curdir)
        self.state = own / "state" if own else self.embedding.state or state_dir()
        self.config_dir = own / "config" if own else config_dir()
        extra = tuple(Path(folder).absolute() for folder in chosen.several("add_dir"))
        for folder in extra:
            if not folder.is_dir():
                why = "is a file; name its folder" if folder.exists() else _NO_FOLDER
                raise UsageError(f"--add-dir {folder}: {why}")
            if is_inside(os.path.realpath(home_dir()), [os.path.realpath(folder)]):
                raise UsageError(f"--add-dir {folder}: is your home directory or contains it; name a folder in it")
        try:
            self.workspace = Workspace(self.root, extra)
        except PathError as error:
            raise UsageError(str(error)) from error
        file = chosen.text("system_prompt")
        self.system_prompt = self.embedding.system_prompt or (text_of("--system-prompt", file) if file else None)
        """The user's replacement of the built-in system prompt."""
        self.trust = Trust(self.state / "trust.json")
        self.memory = LearnedLimitsFile(self.state / "learnt.json")
        self.reload()

    def elsewhere(self, root: Path) -> "Setup":
        """Return the same configuration for another folder, such as a worktree of the repository."""
        from copy import copy

        other = copy(self)
        other.root, other.workspace, other._found = root, Workspace(root), {}
        return other

    def with_options(self, chosen: ParsedOptions) -> "Setup":
        """Return the same configuration, as it was read, for other options of a session in the same folder."""
        from copy import copy

        other = copy(self)
        other.chosen, other._found = chosen, {}
        other.loaded = with_flags(self.loaded, _flag_layers(chosen))
        other.config = other.loaded.config
        return other

    def once(self, find: "Callable[[Setup], T]") -> T:
        """Return the result of `find`, cached until `reload`."""
        if find not in self._found:
            self._found[find] = find(self)
        found: T = self._found[find]
        return found

    def reload(self) -> None:
        """Read the configuration again, for example after the project's file was trusted."""
        self._found: dict[object, Any] = {}
        project: Layer | None = None
        self.untrusted: bytes | None = None
        """Content of the project's configuration file, if it is not trusted."""
        if self.reads_project:
            project, self.untrusted = self.trust.project_layer(self.workspace.root)
        explicit = self.chosen.text("config")
        given = self.embedding.values
        self.loaded: Loaded = load(
            self.config_dir / "config.yaml" if self.reads_user else None,
            project=project,
            environment=os.environ if self.reads_user else {},
            explicit=Path(explicit).absolute() if explicit else None,
            flags=[*([Layer("Agent", given)] if given else ()), *_flag_layers(self.chosen)],
        )
        self.config = self.loaded.config
        self.tool_sources = tool_sources(self.workspace.root) if self.reads_project else {}
        folder = self.config.sessions.dir
        self.sessions = Sessions(Path(folder) if folder else self.state / "sessions", self.state / "cache")
        _check_events(self.loaded)
        self.rules, self.tool_rules = _rules(self.loaded)
        """The permission rules of the configuration, and those on the order of calls."""

    def make_state(self) -> None:
        """Create the folder of the program's state; errors that need not stop the command are left to the code
        that uses the folder.

        Raises:
            UsageError: it cannot be created.
        """
        try:
            make_private(self.state)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"{self.state} cannot be made: a file is in its place. {_MOVE_STATE}") from None
        except (FileNotFoundError, PermissionError) as error:
            if not self.chosen.flag("no_session"):
                raise UsageError(f"{self.state} cannot be made: {error.strerror}. {_MOVE_STATE}") from error
        except OSError:
            pass

    def tools_are_trusted(self) -> bool:
        """Return True if the user approved the project's tools, if any, in their present form."""
        return not self.tool_sources or self.trust.knows(*self.tools_as_one())

    def skill_places(self) -> "tuple[Place, ...]":
        """Return the folders of skills, by descending precedence; none if the configuration disables skills."""
        if not self.config.skills.enabled:
            return ()
        return self._places("skills")

    def places_of(self, kind: "Literal['commands', 'agents']") -> "tuple[Place, ...]":
        """Return the folders of commands or of sub-agent definitions, the user's first."""
        return tuple(sorted(self._places(kind), key=lambda place: place.origin == "project"))

    def changed_plugin(self, place: "Place") -> str:
        """Return a message if the plug-in of a skill or command differs from what the user approved; empty
        otherwise, and for files of no plug-in."""
        if place.plugin_root is None:
            return ""
        from .plugins import changed_plugin

        changed = changed_plugin(self, str(place.plugin_root))
        return f"{changed} has changed since you agreed to it" if changed else ""

    def is_of_project(self, place: "Place", file: str) -> bool:
        """Return True if a file comes with the project. This includes a file of the user's reached through a link
        into the workspace, where the model and whoever changes the project can write."""
        if place.origin != "user":
            return place.origin == "project"
        lies_here = self.workspace.contains(os.path.realpath(file))
        return lies_here and not self.workspace.contains(str(place.folder))

    def has_plugins(self) -> bool:
        """Return True if plug-ins may be in force."""
        return self.reads_user and has_plugins(self.state)

    def _places(self, kind: "Kind") -> "tuple[Place, ...]":
        """Return the folders of a kind whose owners' files are read, by descending precedence."""
        if not self.embedding.reads:
            return ()
        from agent_cli.extensions.places import places

        found = places(kind, root=self.workspace.root, home=home_dir(), config_dir=self.config_dir)
        read = tuple(place for place in found if place.origin in self.embedding.reads)
        if not self.has_plugins():
            return read
        from .plugins import plugin_places

        return (*read, *plugin_places(self, kind))

    def doubt(self, real: str, content: bytes) -> None:
        """Record that the content of an instruction file may come from others.

        Raises:
            OSError: it could not be saved.
        """
        try:
            self.trust.doubt(real, content)
        except ConfigError as error:
            raise OSError(0, str(error)) from error

    def is_doubtful(self, real: str) -> bool:
        """Return True if the content of an instruction file may come from others."""
        try:
            return self.trust.doubts(real, lambda: instruction_bytes(real))
        except ConfigError:  # unknown: treat the file as data
            return True
        except OSError:
            return False

    def tools_as_one(self) -> tuple[str, bytes]:
        """Return the path of the project's tools, and a digest of their content as read."""
        return str(self.workspace.root / TOOLS_FOLDER), storable_json(
            [(path, hashlib.sha256(source).hexdigest()) for path, source in self.tool_sources.items()]
        )

    def environment(self) -> KeyedEnvironment:
        """Return the environment with the user's keys; the keyring is asked once.

        Raises:
            ConfigError: the key file is readable by others, or invalid.
        """
        return self.once(_environment)

    def own_folders(self) -> tuple[Path, ...]:
        """Return the folders of the program's state, which may be in the workspace."""
        return self.state, self.sessions.folder, self.sessions.project_folder(self.root)

    def project_state(self) -> Path:
        """Return the folder of this directory's checkpoints and saved rules."""
        return self.state / "projects" / self.sessions.project_folder(self.root).name


def session_setup(chosen: ParsedOptions) -> Setup:
    """Return the setup of a session. A resumed session works in its original directory, unless --cd is given.

    Raises:
        UsageError, ConfigError, StoreError: nothing was started.
    """
    setup = Setup(chosen)
    identifier = chosen.text("resume")
    if identifier and not chosen.text("cd"):
        header = read_session(setup.sessions.find(identifier)).records[0]
        if isinstance(header, Header) and header.cwd != storable_text(str(setup.root)):
            if not Path(header.cwd).is_dir():
                raise UsageError(f"the session worked in {header.cwd}, which is gone; --cd . continues it here")
            return Setup(chosen, root=Path(header.cwd))
    return setup


def _environment(setup: Setup) -> KeyedEnvironment:
    return keyed(os.environ, setup.config_dir)


def check_file(text: str, path: Path) -> None:
    """Validate the text of a configuration file against the schema, and parse its rules.

    Raises:
        ConfigError, UsageError: it is invalid, with the place.
    """
    loaded = Loaded(Config(), (parse_file(text.encode(), path),))
    _check_events(loaded)
    _rules(loaded)


def _check_events(loaded: Loaded) -> None:
    """Check the names of the events of hooks: a guard at an event that does not exist would never run.

    Raises:
        UsageError: there is no such event.
    """
    for layer in loaded.layers:
        for name in layer.values.get("hooks") or ():
            from agent_cli.hooks.definition import event_named, nearest_event

            if event_named(name) is None:
                near = nearest_event(name)
                hint = f"did you mean `{near}`?" if near else "`agent help hooks` lists the events"
                raise UsageError(f"{layer.place(f'hooks.{name}')}: there is no hook event `{name}`; {hint}")


def _rules(loaded: Loaded) -> tuple[tuple[Rule, ...], tuple[BoundRule, ...]]:
    """Return the permission rules, and the rules on the order of calls."""
    found: list[Rule] = []
    for effect in get_args(Effect):
        for text, place in loaded.rules(effect):
            with _placed(place):
                found.append(parse_rule(text, effect, place))
    bound: list[BoundRule] = []
    for rule in loaded.tool_rules():
        with _placed(rule[1]):
            found += as_permissions([rule])
            bound += bind([rule])
    return tuple(found), tuple(bound)


@contextmanager
def _placed(place: str) -> Iterator[None]:
    try:
        yield
    except RuleError as error:
        raise UsageError(f"{place}: {error}") from error


def text_of(option: str, name: str) -> str:
    """Return the text of a file.

    Raises:
        UsageError: it is missing, unreadable, too large, or not UTF-8 text.
    """
    try:
        with Path(name).open(encoding="utf-8-sig") as file:
            text = file.read(_LONGEST_TEXT_CHARS + 1)
        if len(text) <= _LONGEST_TEXT_CHARS:
            return text
        why = f"longer than {_LONGEST_TEXT_CHARS:,} characters"
    except FileNotFoundError:
        why = "there is no such file; check the path"
    except IsADirectoryError:
        why = "this is a folder; name a file in it"
    except UnicodeDecodeError as error:
        why = f"not UTF-8 text (byte {error.start}); save it as UTF-8"
    except (OSError, ValueError) as error:  # a path with a NUL
        why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise UsageError(f"{option} {name}: {why}")


def check_output_file(option: str, name: str) -> None:
    """Check that a result could be written to a file, before there is one.

    Raises:
        UsageError: it is a directory, its folder does not exist, or it cannot be reached.
        OSError: its name is too long.
    """
    try:
        os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise
        raise UsageError(f"{option} {name}: {error.strerror}") from error
    if Path(name).is_dir():
        raise UsageError(f"{option} {name}: is a directory")
    if not Path(name).absolute().parent.is_dir():
        raise UsageError(f"{option} {name}: its folder does not exist")


_NO_FOLDER = "there is no such folder; make it, or check the name"
_MOVE_STATE = "Set AGENT_STATE_DIR to a folder that you can write to."


def _directory(name: str) -> Path:
    try:
        return Path(name).absolute()
    except FileNotFoundError:
        raise UsageError(NO_DIRECTORY) from None


def _flag_layers(chosen: ParsedOptions) -> list[Layer]:
    layers = [assignment(text) for text in chosen.several("set")]
    if tools := chosen.text("tools"):
        names = [name.strip() for name in tools.split(",") if name.strip()]
        layers.append(nested("--tools", "tools.enabled", names))
    if chosen.flag("plain"):
        layers.append(nested("--plain", "ui.plain", True))
    for option, key in _FLAG_KEYS.items():
        value: Any = chosen.values.get(option)
        if value is not None:
            is_carried = option in chosen.several(CARRIED)
            layers.append(nested(_CARRIED_FROM if is_carried else f"--{option.replace('_', '-')}", key, value))
    return layers


def with_values(chosen: ParsedOptions, **values: Any) -> ParsedOptions:
    """Return the command line with some options replaced."""
    return msgspec.structs.replace(chosen, values={**chosen.values, **values})
