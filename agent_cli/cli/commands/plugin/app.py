"""`agent plugin`: list, show, add, update, switch and remove plug-ins."""

import shlex
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from agent_cli.bootstrap.plugins import LoadedPlugin, data_folder, loaded_plugin, store_of
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.dirs import home_dir
from agent_cli.extensions.plugins.effects import part_lines
from agent_cli.extensions.plugins.other_agents import declared_by, installed_elsewhere
from agent_cli.extensions.plugins.plugin import PluginError
from agent_cli.extensions.plugins.store import named

from ...services.completion import plugin_names
from ...services.config_file import refuse_for_the_model
from ..sessions.output import print_json
from .add import add, update
from .report import line, refusing, report

plugin = typer.Typer(help="Add, list, update and remove plug-ins.", no_args_is_help=True)
plugin.command("add")(add)
plugin.command("update")(update)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The plug-in.", autocompletion=plugin_names)]
_NONE = "No plug-in is installed. `agent plugin add SOURCE` adds one; `agent help plugins` explains it."


@plugin.command("list")
def list_plugins(json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> int:
    """List the plug-ins, and those installed in other agents. Reads all their files; runs nothing."""
    setup = Setup()
    listed = _all(setup)
    others = [each for each in installed_elsewhere(home_dir()) if each.name not in {mine.name for mine in listed}]
    declared = declared_by(setup.workspace.root, home_dir())
    if json:
        content = {"plugins": list(map(_as_json, listed)), "elsewhere": others, "declared_by_project": declared}
        print_json(content)
        return 0
    print("\n".join(_table(listed)) or _NONE)
    if others:
        print("\nInstalled in other agents, and not used here:")
    for each in others:
        print(f"  {line(each.name)} ({each.agent}): agent plugin add {shlex.quote(line(each.folder))}")
    if declared:
        print("\nDeclared by this project, and not used: " + line("; ".join(declared)))
    return 0


@plugin.command()
def show(name: _Name) -> int:
    """Show one plug-in: what it runs, and which parts are not used."""
    setup = Setup()
    store = store_of(setup)
    with refusing(PluginError):
        installed = named(store.installed(), name)
    each = loaded_plugin(store, name, installed, in_full=True)
    if each.plugin is not None:
        for row in report(setup, each.plugin):
            print(row)
    for key, value in _facts(setup, each):
        print(f"  {key} {line(value)}")
    return 0


@plugin.command()
def enable(name: _Name) -> int:
    """Enable a plug-in from the next session on."""
    refuse_for_the_model("enable a plug-in")
    return _switch(name, enabled=True)


@plugin.command()
def disable(name: _Name) -> int:
    """Disable a plug-in from the next session on; it stays installed."""
    refuse_for_the_model("disable a plug-in")
    return _switch(name, enabled=False)


@plugin.command()
def remove(name: _Name) -> int:
    """Remove a plug-in. Sessions that are open keep its files until they end."""
    refuse_for_the_model("remove a plug-in")
    setup = Setup()
    store = store_of(setup)
    with refusing(PluginError, OSError):
        before = store.change(name, lambda _: None)
    later = " Its files go when the sessions that use it have ended." if store.is_in_use(name, before.hash) else ""
    print(f"Removed {name}.{later}")
    data = data_folder(setup, name)
    if data.is_dir() and any(data.iterdir()):
        print(f"What it has stored stays in {line(str(data))}.")
    return 0


def _switch(name: str, *, enabled: bool) -> int:
    store = store_of(Setup())
    with refusing(PluginError, OSError):
        store.change(name, lambda found: msgspec.structs.replace(found, enabled=enabled))
    print(f"{name} is {'enabled' if enabled else 'disabled'}, from the next session on.")
    return 0


def _all(setup: Setup) -> list[LoadedPlugin]:
    store = store_of(setup)
    with refusing(PluginError):
        return [loaded_plugin(store, *each, in_full=True) for each in store.installed().items()]


def _table(listed: list[LoadedPlugin]) -> Iterator[str]:
    width = max((len(each.name) for each in listed), default=0)
    for each in listed:
        parts = ", ".join(part_lines(each.plugin)) if each.plugin is not None else ""
        version = line(each.installed.version) or "-"
        yield f"{each.name:<{width}}  {each.state:<8}  {version:<8}  {parts}    # {line(each.installed.source)}"
        if each.problem:
            yield f"{'':<{width}}  {line(each.problem)}"


def _facts(setup: Setup, each: LoadedPlugin) -> Iterator[tuple[str, str]]:
    installed = each.installed
    yield "state:", each.state + (f": {each.problem}" if each.problem else "")
    yield "from:", f"{installed.source}{f' at {installed.commit}' if installed.commit else ''}"
    yield "added:", installed.added
    yield "hash:", installed.hash
    yield "files:", str(store_of(setup).root(each.name, installed))
    yield "data:", str(data_folder(setup, each.name))


def _as_json(each: LoadedPlugin) -> dict[str, object]:
    facts: dict[str, object] = msgspec.to_builtins(each.installed)
    return {"name": each.name, "state": each.state, "problem": each.problem, **facts}
