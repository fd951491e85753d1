"""`agent plugin add` and `update`: fetch, show, ask, and only then install. Nothing of a plug-in is run."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.plugins import loaded_plugin, prepare_data, store_of
from agent_cli.bootstrap.setup import Setup
from agent_cli.extensions.plugins.fetch import fetch, what_is_there
from agent_cli.extensions.plugins.layouts import read_plugin
from agent_cli.extensions.plugins.plugin import Plugin, PluginError
from agent_cli.extensions.plugins.sources import Source, parse_source
from agent_cli.extensions.plugins.store import Installed, named
from agent_cli.extensions.plugins.tree import digest
from agent_cli.protocol.stop_reason import USAGE
from agent_cli.redaction.env_names import is_secret
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.environment import child_env

from ...services.completion import plugin_names
from ...services.config_file import refuse_for_the_model
from .report import contents, difference, line, refusing, report

_YesHash = Annotated[
    str | None,
    typer.Option(
        "--yes-hash", metavar="HASH", help="Agree to exactly this content, as shown before, without being asked."
    ),
]


_ANSWERS = "[y] Yes [n] No [v] View the files (empty: n): "


class _Offer(msgspec.Struct, frozen=True):
    """A fetched plug-in in a scratch folder, not yet installed."""

    plugin: Plugin
    installed: Installed


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
    with refusing(PluginError), refusing(OSError, words="it cannot be added: "):
        return _added(setup, parse_source(source, Path.cwd()), yes_hash)


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
    with refusing(PluginError):
        plugins = store.installed()
        chosen = {name: named(plugins, name)} if name else plugins
    for each, installed in chosen.items():
        try:
            code = _updated(setup, each, installed, yes_hash)
        except (PluginError, OSError, UsageError) as error:
            code = USAGE if isinstance(error, UsageError) else 1
            print(f"agent: {each} stays as it is: {line(str(error))}", file=sys.stderr)
        failed = max(failed, code)
    if not chosen:
        print("No plug-in is installed.")
    return failed


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
        _print_all(report(setup, offer.plugin))
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
        _print_all(report(setup, offer.plugin))
        _print_all(difference(setup, before.plugin, offer.plugin))
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
        print(f"Fetching {line(str(source))} …", file=sys.stderr)
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
    print(f"  from {line(installed.source)}" + (f" at {installed.commit}" if installed.commit else ""))
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
        _print_all(contents(offer.plugin))
    return answer in ("y", "yes")
