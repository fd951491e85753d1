"""The plug-ins of a session: installed, enabled, and with the files that the user approved. All others are
inert."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli.config.dirs import home_dir, plugins_dir
from agent_cli.config.layer import ConfigError
from agent_cli.extensions.places import Kind, Place
from agent_cli.extensions.plugins.effects import hooks_of
from agent_cli.extensions.plugins.layouts import read_plugin
from agent_cli.extensions.plugins.other_agents import declared_by
from agent_cli.extensions.plugins.plugin import Plugin, PluginError
from agent_cli.extensions.plugins.store import Installed, PluginStore
from agent_cli.fs.files import make_private
from agent_cli.hooks.definition import Hook
from agent_cli.mcp.sources.discovery import PluginServers, plugin_servers
from agent_cli.protocol.sanitize import visible

if TYPE_CHECKING:
    from .setup import Setup

_TRIES = 3
_WAY_OUT = "`agent plugin update` shows it and asks again, `agent plugin remove` removes it."
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class LoadedPlugin(msgspec.Struct, frozen=True):
    """An installed plug-in, and why it is not used."""

    name: str
    installed: Installed
    plugin: Plugin | None
    problem: str = ""
    """Empty if the plug-in is used or disabled."""

    @property
    def state(self) -> str:
        """State as `enabled`, `disabled` or `not used`."""
        if not self.installed.enabled:
            return "disabled"
        return "not used" if self.problem else "enabled"


class LoadedPlugins(msgspec.Struct, frozen=True):
    """The plug-ins of a session."""

    listed: tuple[LoadedPlugin, ...] = ()
    notes: tuple[str, ...] = ()
    """Problems, for the user."""

    @property
    def used(self) -> tuple[Plugin, ...]:
        """The plug-ins in force."""
        return tuple(each.plugin for each in self.listed if each.plugin is not None and each.state == "enabled")


def store_of(setup: "Setup") -> PluginStore:
    """Return the user's plug-in store."""
    return PluginStore(plugins_dir(setup.state))


def data_folder(setup: "Setup", name: str) -> Path:
    """Return the folder for a plug-in's persistent data."""
    return setup.state / "plugin-data" / name


def installed_plugins(setup: "Setup") -> LoadedPlugins:
    """Return the plug-ins; they are read once, until the configuration is read again."""
    return setup.once(_loaded) if setup.has_plugins() else LoadedPlugins()


def _loaded(setup: "Setup") -> LoadedPlugins:
    store, found = store_of(setup), []
    try:
        for name in store.installed():
            if (each := _load_locked(store, name)) is not None:
                found.append(each)
    except PluginError as error:
        return LoadedPlugins(notes=(visible(str(error)),))
    notes = [f"the plug-in {each.name} is not used: {each.problem}. {_WAY_OUT}" for each in found if each.problem]
    return LoadedPlugins(tuple(found), tuple(map(visible, notes)))


def _load_locked(store: PluginStore, name: str) -> LoadedPlugin | None:
    """Return a plug-in and, if it is enabled, lock its files; None if it was removed meanwhile."""
    installed = None
    for _ in range(_TRIES):  # another program may be updating it
        installed = store.installed().get(name)
        if installed is None:
            return None
        if not installed.enabled:
            return LoadedPlugin(name, installed, None)
        if store.hold(name, installed):
            return loaded_plugin(store, name, installed)
    return LoadedPlugin(name, installed, None, "its files are gone") if installed else None


def loaded_plugin(store: PluginStore, name: str, installed: Installed, *, in_full: bool = False) -> LoadedPlugin:
    """Return a plug-in if its files are those that the user approved, else with the problem."""
    if problem := store.problem(name, installed, in_full=in_full):
        return LoadedPlugin(name, installed, None, problem)
    try:
        return LoadedPlugin(name, installed, read_plugin(store.root(name, installed), name))
    except (PluginError, OSError) as error:
        return LoadedPlugin(name, installed, None, str(error))


def plugin_places(setup: "Setup", kind: Kind) -> tuple[Place, ...]:
    """Return the folders and files in which plug-ins provide skills, commands or agents."""
    return tuple(place for plugin in installed_plugins(setup).used for place in plugin.places(kind))


def hooks_of_plugins(setup: "Setup") -> tuple[tuple[Hook, ...], tuple[str, ...]]:
    """Return the hooks of the plug-ins, and the problems of plug-ins and their hooks."""
    loaded = installed_plugins(setup)
    hooks: list[Hook] = []
    notes = list(loaded.notes)
    for plugin in loaded.used:
        found, more = hooks_of(plugin)
        variables = _variables(setup, plugin)
        hooks += [_filled(hook, variables) for hook in found]
        notes += more
    return tuple(hooks), tuple(notes)


def _filled(hook: Hook, variables: dict[str, str]) -> Hook:
    """Return a hook with its plug-in's variables. A shell expands them itself, quoted where a folder has a space,
    such as `Application Support`; for a program without a shell they are substituted."""
    command: str | tuple[str, ...]
    if isinstance(hook.command, str):
        from agent_cli.extensions.expansion import with_quotes

        command = with_quotes(hook.command.replace("${/}", "/"), variables)
    else:
        command = tuple(
            _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), word.replace("${/}", "/"))
            for word in hook.command
        )
    return msgspec.structs.replace(hook, command=command, variables=tuple(variables.items()))


def _variables(setup: "Setup", plugin: Plugin) -> dict[str, str]:
    return plugin.variables(data_folder(setup, plugin.name), setup.workspace.root)


def servers_of_plugins(setup: "Setup") -> PluginServers:
    """Return the MCP servers of the plug-ins."""
    found = [servers_of(setup, plugin) for plugin in installed_plugins(setup).used]
    return PluginServers(
        tuple(server for each in found for server in each.definitions),
        tuple(lines for each in found for lines in each.shown),
        tuple(note for each in found for note in each.notes),
    )


def servers_of(setup: "Setup", plugin: Plugin) -> PluginServers:
    """Return the MCP servers of a plug-in."""
    variables = _variables(setup, plugin)
    return plugin_servers(
        plugin.name, plugin.servers, plugin.product, plugin.root, env=os.environ, variables=variables
    )


def changed_plugin(setup: "Setup", root: str) -> str:
    """Return the plug-in in a folder if its files differ from those that the user approved; empty otherwise."""
    for each in installed_plugins(setup).used:
        if str(each.root) == root:
            path = Path(root)
            version = Installed(hash=path.name, source="")
            problem = store_of(setup).problem(each.name, version)
            return f"the plug-in {each.name}" if problem else ""
    return ""


def note_on_project(setup: "Setup") -> tuple[str, ...]:
    """Note once that plug-ins declared by a project are not used, and again when the declaration changes."""
    declared = declared_by(setup.workspace.root, home_dir())
    place, content = f"plug-ins of {setup.workspace.root}", "\n".join(declared).encode()
    try:
        if not declared or setup.trust.refuses(place, content):
            return ()
        setup.trust.remember(place, content, agreed=False)
    except ConfigError:  # it is reported again next time
        pass
    return (
        f"this project declares plug-ins, which are not used: {visible('; '.join(declared))}. `agent plugin add`"
        " adds one.",
    )


def prepare_data(setup: "Setup", name: str) -> None:
    """Create the folder for a plug-in's persistent data, ignoring errors."""
    try:
        make_private(data_folder(setup, name))
    except OSError:
        pass
