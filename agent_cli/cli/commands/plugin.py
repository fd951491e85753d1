"""`agent plugin`: list, show, add, update, switch and remove plug-ins."""

import asyncio
import difflib
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.plugins import (
    LoadedPlugin,
    data_folder,
    loaded_plugin,
    prepare_data,
    servers_of,
    store_of,
)
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.dirs import home_dir
from agent_cli.extensions.plugins import effects
from agent_cli.extensions.plugins.fetch import fetch, what_is_there
from agent_cli.extensions.plugins.layouts import read_plugin
from agent_cli.extensions.plugins.other_agents import declared_by, installed_elsewhere
from agent_cli.extensions.plugins.plugin import PRODUCTS, Plugin, PluginError
from agent_cli.extensions.plugins.sources import Source, parse_source
from agent_cli.extensions.plugins.store import Installed, named
from agent_cli.extensions.plugins.tree import digest, files
from agent_cli.fs.files import read_regular
from agent_cli.protocol.sanitize import visible, visible_line
from agent_cli.protocol.stop_reason import USAGE
from agent_cli.redaction.env_names import is_secret
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.environment import child_env

from ..services.completion import plugin_names
from ..services.config_file import refuse_for_the_model
from .sessions.output import print_json

plugin = typer.Typer(help="Add, list, update and remove plug-ins.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The plug-in.", autocompletion=plugin_names)]
_NONE = "No plug-in is installed. `agent plugin add SOURCE` adds one; `agent help plugins` explains it."
_YesHash = Annotated[
    str | None,
    typer.Option(
        "--yes-hash", metavar="HASH", help="Agree to exactly this content, as shown before, without being asked."
    ),
]
_ANSWERS = "[y] Yes [n] No [v] View the files (empty: n): "
_MOST_NAMED = 50
_LARGEST_SHOWN = 200_000
_MOST_SHOWN = 2_000_000


class _Offer(msgspec.Struct, frozen=True):
    """A fetched plug-in in a scratch folder, not yet installed."""

    plugin: Plugin
    installed: Installed


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
        print(f"  {_line(each.name)} ({each.agent}): agent plugin add {shlex.quote(_line(each.folder))}")
    if declared:
        print("\nDeclared by this project, and not used: " + _line("; ".join(declared)))
    return 0


@plugin.command()
def show(name: _Name) -> int:
    """Show one plug-in: what it runs, and which parts are not used."""
    setup = Setup()
    store = store_of(setup)
    with _refusing(PluginError):
        installed = named(store.installed(), name)
    each = loaded_plugin(store, name, installed, in_full=True)
    if each.plugin is not None:
        for row in _report(setup, each.plugin):
            print(row)
    for key, value in _facts(setup, each):
        print(f"  {key} {_line(value)}")
    return 0


@plugin.command()
def add(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder, github:OWNER/REPO[@REF], the address of a git repository [@REF], or one of a"
            " marketplace and the plug-in's name: MARKET#NAME.",
        ),
    ],
    yes_hash: _YesHash = None,
) -> int:
    """Fetch a plug-in, show what it would run, and add it once you agree to exactly that."""
    refuse_for_the_model("add a plug-in")
    setup = Setup()
    with _refusing(PluginError), _refusing(OSError, words="it cannot be added: "):
        return _added(setup, parse_source(source, Path.cwd()), yes_hash)


@plugin.command()
def update(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The plug-in; without it, all.", autocompletion=plugin_names),
    ] = None,
    yes_hash: _YesHash = None,
) -> int:
    """Fetch plug-ins again, show what changed in what they run, and ask again. Never happens by itself."""
    refuse_for_the_model("update a plug-in")
    setup = Setup()
    store, failed = store_of(setup), 0
    with _refusing(PluginError):
        plugins = store.installed()
        chosen = {name: named(plugins, name)} if name else plugins
    for each, installed in chosen.items():
        try:
            code = _updated(setup, each, installed, yes_hash)
        except (PluginError, OSError, UsageError) as error:
            code = USAGE if isinstance(error, UsageError) else 1
            print(f"agent: {each} stays as it is: {_line(str(error))}", file=sys.stderr)
        failed = max(failed, code)
    if not chosen:
        print("No plug-in is installed.")
    return failed


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
    with _refusing(PluginError, OSError):
        before = store.change(name, lambda _: None)
    later = " Its files go when the sessions that use it have ended." if store.is_in_use(name, before.hash) else ""
    print(f"Removed {name}.{later}")
    data = data_folder(setup, name)
    if data.is_dir() and any(data.iterdir()):
        print(f"What it has stored stays in {_line(str(data))}.")
    return 0


def _switch(name: str, *, enabled: bool) -> int:
    store = store_of(Setup())
    with _refusing(PluginError, OSError):
        store.change(name, lambda found: msgspec.structs.replace(found, enabled=enabled))
    print(f"{name} is {'enabled' if enabled else 'disabled'}, from the next session on.")
    return 0


def _all(setup: Setup) -> list[LoadedPlugin]:
    store = store_of(setup)
    with _refusing(PluginError):
        return [loaded_plugin(store, *each, in_full=True) for each in store.installed().items()]


def _table(listed: list[LoadedPlugin]) -> Iterator[str]:
    width = max((len(each.name) for each in listed), default=0)
    for each in listed:
        parts = ", ".join(effects.part_lines(each.plugin)) if each.plugin is not None else ""
        version = _line(each.installed.version) or "-"
        yield f"{each.name:<{width}}  {each.state:<8}  {version:<8}  {parts}    # {_line(each.installed.source)}"
        if each.problem:
            yield f"{'':<{width}}  {_line(each.problem)}"


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


def _added(setup: Setup, source: Source, yes_hash: str | None) -> int:
    store = store_of(setup)
    known = store.installed()
    with store.scratch() as scratch:
        offer = _fetched(source, scratch)
        name, hash = offer.plugin.name, offer.installed.hash
        if clash := next((each for each in known if each.lower() == name.lower()), ""):
            same = known[clash].hash == hash and not store.problem(clash, known[clash], in_full=True)
            way = "it is the same" if same else f"`agent plugin update {clash}` shows what changed"
            raise PluginError(f"there is a plug-in named {clash} already, from {known[clash].source}; {way}")
        _print_all(_report(setup, offer.plugin))
        _print_origin(offer)
        if not _agrees(offer, yes_hash, "Add it?"):
            print("Nothing was added.")
            return 1
        store.put(name, offer.plugin.root, offer.installed)
    prepare_data(setup, name)
    print(f"Added {name}. It is used from the next session on; `agent plugin disable {name}` switches it off.")
    return 0


def _updated(setup: Setup, name: str, installed: Installed, yes_hash: str | None) -> int:
    store = store_of(setup)
    with store.scratch() as scratch:
        offer = _fetched(parse_source(installed.source, Path.cwd()), scratch, name)
        if offer.plugin.name != name:
            raise PluginError(f"its name is {offer.plugin.name} now: remove it, and add that one")
        before = loaded_plugin(store, name, installed, in_full=True)
        if offer.installed.hash == installed.hash and not before.problem:
            print(f"{name}: up to date.")
            return 0
        if before.problem:
            print(f"{name}: {before.problem}")
        _print_all(_report(setup, offer.plugin))
        _print_all(_difference(setup, before.plugin, offer.plugin))
        _print_origin(offer)
        if not _agrees(offer, yes_hash, "Use this version?"):
            print(f"{name} stays as it is.")
            return 1
        changed = msgspec.structs.replace(offer.installed, enabled=installed.enabled)
        store.put(name, offer.plugin.root, changed)
        held = store.is_in_use(name, installed.hash)
    print(f"Updated {name}." + (" Sessions that are open keep the version before." if held else ""))
    return 0


def _fetched(source: Source, scratch: Path, otherwise: str = "") -> _Offer:
    """Fetch and read a plug-in; `otherwise` is its name if it does not define one."""
    return asyncio.run(_offered(source, scratch, otherwise))


async def _offered(source: Source, scratch: Path, otherwise: str) -> _Offer:
    if source.kind == "git":
        print(f"Fetching {_line(str(source))} …", file=sys.stderr)
    env = {name: value for name, value in child_env(os.environ).items() if not is_secret(name, value)}
    async with aclosing(ProcessRunner()) as processes:
        found = await fetch(source, scratch, processes.run, env)
        try:
            plugin = read_plugin(found.root, otherwise or found.name)
        except PluginError as error:
            market = "" if source.entry else await what_is_there(source, scratch, processes.run, env)
            hint = f". It is a marketplace: write {source}#NAME; {market}" if market else ""
            raise PluginError(f"{error}{hint}") from error
    hash = digest(found.root, plugin.name)
    return _Offer(plugin, Installed(hash=hash, source=str(source), commit=found.commit, version=plugin.version))


def _print_origin(offer: _Offer) -> None:
    installed = offer.installed
    print(f"  from {_line(installed.source)}" + (f" at {installed.commit}" if installed.commit else ""))
    print(f"  hash {installed.hash}")


def _print_all(lines: Iterator[str]) -> None:
    for each in lines:
        print(each)


def _agrees(offer: _Offer, yes_hash: str | None, question: str) -> bool:
    """Ask the user, unless exactly this hash was given."""
    hash = offer.installed.hash
    if yes_hash is not None:
        if yes_hash != hash:
            raise UsageError(f"--yes-hash is for other content: this has {hash}; nothing was changed")
        return True
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"this needs your confirmation: run it in a terminal, or agree with --yes-hash {hash}")
    while (answer := input(f"{question} {_ANSWERS}").strip().lower()) in ("v", "view"):
        _print_all(_contents(offer.plugin))
    return answer in ("y", "yes")


def _report(setup: Setup, plugin: Plugin) -> Iterator[str]:
    """Yield the facts about a plug-in that the user needs before approving it."""
    yield f"{plugin.name} {plugin.version}".rstrip() + f", made for {PRODUCTS[plugin.product]}"
    if plugin.description:
        yield f"  {_line(plugin.description)}"
    yield f"  brings {', '.join(effects.part_lines(plugin)) or 'nothing that is used'}"
    runs = list(_running(setup, plugin))
    yield "  What would run, with your rights:" if runs else "  It runs nothing."
    yield from (f"    {each}" for each in runs)
    unused = (*plugin.unused, *effects.agent_lines(plugin))
    notes = (*plugin.notes, *effects.hooks_of(plugin)[1], *servers_of(setup, plugin).notes)
    for title, lines in (("Not used:", unused), ("Left out:", notes)):
        if lines:
            yield f"  {title}"
            yield from (f"    {_line(each)}" for each in lines)


def _running(setup: Setup, plugin: Plugin) -> Iterator[str]:
    """Yield everything that a plug-in would run, line by line."""
    yield from map(_line, effects.hook_lines(plugin))
    servers = servers_of(setup, plugin)
    for definition, shown in zip(servers.definitions, servers.shown, strict=True):
        yield f"MCP server {_line(shown[0])}"
        yield from map(_line, shown[1:])
        yield from map(_line, effects.file_lines(plugin, (*definition.command, *definition.env.values())))
        if not definition.cwd:
            yield from map(_line, effects.outside_lines(definition.command))
    yield from map(_line, effects.text_lines(plugin))


def _difference(setup: Setup, before: Plugin | None, after: Plugin) -> Iterator[str]:
    """Yield the changes in what would run: `+` before new lines, `-` before removed ones."""
    old = list(_running(setup, before)) if before is not None else []
    found = [
        each
        for each in difflib.unified_diff(old, list(_running(setup, after)), lineterm="", n=1)
        if not each.startswith(("---", "+++", "@@"))
    ]
    yield "  What would run changes:" if found else "  What would run is the same."
    yield from (f"    {each}" for each in found)
    yield from _changed_files(before, after)


def _changed_files(before: Plugin | None, after: Plugin) -> Iterator[str]:
    """Yield the files that differ, including texts for the model, which run nothing."""
    old, new = (files(before.root) if before is not None else {}), files(after.root)
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    yield f"  {len(changed):,} file{'s' * (len(changed) != 1)} changed{':' if changed else '.'}"
    for name in changed[:_MOST_NAMED]:
        yield f"    {'+' if name not in old else '-' if name not in new else '~'}{_line(name)}"
    if len(changed) > _MOST_NAMED:
        yield f"    and {len(changed) - _MOST_NAMED:,} more"


def _contents(plugin: Plugin) -> Iterator[str]:
    """Yield the texts of a plug-in, file by file, with control and invisible characters escaped."""
    left = _MOST_SHOWN
    for name in files(plugin.root):
        try:
            data = read_regular(plugin.root / name, _LARGEST_SHOWN + 1, follow=True)
        except OSError:  # a link to a folder, or a broken link
            continue
        is_text = len(data) <= _LARGEST_SHOWN and b"\0" not in data
        left -= len(data) if is_text else 0
        if left < 0:
            yield "\nThe rest is too long to show."
            return
        yield f"\n--- {_line(name)}"
        yield visible(data.decode("utf-8", "replace")) if is_text else "(no text, or too long to show)"


@contextmanager
def _refusing(*errors: type[Exception], words: str = "") -> Iterator[None]:
    """Raise a UsageError, whose text begins with `words`, in place of one of these errors."""
    try:
        yield
    except errors as error:
        raise UsageError(f"{words}{_line(str(error))}") from error


def _line(text: str) -> str:
    """Return a text on one line, with control and invisible characters escaped; keeps an indent of two spaces."""
    indent = "  " * text.startswith("  ")
    return indent + visible_line(text.encode("utf-8", "replace").decode())
