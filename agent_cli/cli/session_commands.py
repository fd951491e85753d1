"""`agent sessions`: saved sessions listed, shown, deleted."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ..protocol.messages import AssistantMessage, ToolResult, UserMessage
from ..protocol.sanitize import clean
from ..store.session_file import read_session
from ..store.sessions import totals
from .options import Chosen, UsageError
from .setup import Setup

app = typer.Typer(help="Work with saved sessions.", no_args_is_help=True)
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Id = Annotated[str, typer.Argument(help="The beginning of the session's id is enough.")]


@app.command("list")
def list_sessions(
    everywhere: Annotated[bool, typer.Option("--all", help="Of every directory.")] = False, json: _Json = False
) -> int:
    """Sessions of this directory, newest first."""
    setup = Setup(Chosen("agent", {}))
    infos = setup.sessions.list(None if everywhere else setup.root, limit=None)
    if json:
        print(msgspec.json.encode(infos).decode())
        return 0
    for info in infos:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated))
        place = f"  {info.cwd}" if everywhere else ""
        print(f"{info.id}  {when}  {clean(info.title)}{place}")
    if not infos:
        print("No session yet. Start one with `agent`.")
    return 0


@app.command()
def show(identifier: _Id, json: _Json = False) -> int:
    """The conversation of a session."""
    setup = Setup(Chosen("agent", {}))
    path = setup.sessions.find(identifier)
    loaded = read_session(path)
    from ..config.keys import keyed
    from ..core.secrecy import environment_redactor

    mask = environment_redactor(os.environ, keyed(os.environ, setup.config_dir).held(), setup.config).mask
    if json:
        print(mask(msgspec.json.encode(loaded.records).decode()))
        return 0
    for record in loaded.records:
        match record:
            case UserMessage(origin="human", text=text):
                print(f"\n> {clean(mask(text))}")
            case AssistantMessage(text=text) if text.strip():
                print(f"\n{clean(mask(text))}")
            case ToolResult(tool=tool, status=status, text=text):
                print(f"  [{tool}: {status}] {clean(mask(text)).strip().partition(chr(10))[0][:100]}")
            case _:
                pass
    turns, used = totals(path)
    cost = "unknown" if used.cost_usd is None else f"{used.cost_usd:.4f} USD"
    print(f"\n{turns} prompts, {used.requests} model calls, cost {cost}\n{path}")
    for damage in loaded.damage:
        print(f"damaged line {damage.line}, left out: {damage.reason}")
    return 0


@app.command()
def delete(identifier: _Id, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> int:
    """Delete a session and its spilled output."""
    setup = Setup(Chosen("agent", {}))
    path = setup.sessions.find(identifier)
    if not yes and not sys.stdin.isatty():
        raise UsageError("nobody can be asked here; add --yes")
    if not yes and not typer.confirm(f"Delete {path}?"):
        print("Nothing was deleted.")
        return 1
    setup.sessions.delete(path)
    _remove_spill(setup.state / "spill" / path.stem.rpartition("-")[2])
    print(f"Deleted {path}")
    return 0


def _remove_spill(folder: Path) -> None:
    if folder.is_dir():
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
