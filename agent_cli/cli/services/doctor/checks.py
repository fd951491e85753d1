"""Checks whether a task could run here: one finding per check, with its result and place, and advice if it
fails."""

import asyncio
import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Literal

from agent_cli.bootstrap.sandbox_setup import measured, wanted_for
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.api_keys import KEY_FILE, KeyedEnvironment, keyed
from agent_cli.config.dirs import defines_hooks, defines_servers, has_plugins, home_dir, worktrees_dir
from agent_cli.config.layer import ConfigError
from agent_cli.fs.which import program
from agent_cli.model import routing
from agent_cli.model.http_model import NativeModel
from agent_cli.model.types.base import Model, ModelError
from agent_cli.protocol.sanitize import one_line
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner
from agent_cli.sandbox.profile.confinement import EnforcedLevel
from agent_cli.ui.text.lines import number

from ..extensions.unused_files import unused_files, unused_files_of_user
from .endpoint import Finding, examine

_ENOUGH_MB = 100
_SERVER_S = 0.5
"""Seconds to wait for a server's figures."""
_INDENT = " " * 6
_KEPT = ("held", "asks, held", "refused")
"""How a promise may be kept such that nothing more needs to be said about it."""


class Problem(Exception):
    """A failed check."""

    def __init__(self, text: str, todo: str = "") -> None:
        super().__init__(text)
        self.todo = todo


def shown(finding: Finding, width: int | None) -> list[str]:
    """Return the lines of a finding, wrapped between words if `width` is given."""
    rows = [f"{finding.verdict:4}  {finding.name}: {one_line(finding.text)}"]
    rows += [f"      → {one_line(finding.todo)}"] if finding.todo else []
    if width is None:
        return rows
    hangs = (_INDENT, f"{_INDENT}  ")
    return [
        part
        for row, hang in zip(rows, hangs, strict=False)
        for part in textwrap.wrap(row, width, subsequent_indent=hang, break_on_hyphens=False)
    ]


def summary(failed: int) -> str:
    """Return the conclusion for a number of failed checks."""
    what = f"{number(failed, 'check')} {'has' if failed == 1 else 'have'} failed"
    return f"No task could run here: {what}." if failed else "A task could run here."


async def findings(setup: Setup) -> AsyncGenerator[Finding, None]:
    """Yield the finding of each check, one after another."""
    yield await _found("configuration", "note", _configuration(setup))
    async with aclosing(_model(setup)) as model:
        async for finding in model:
            yield finding
    for name in setup.config.fallback_models:
        yield await _found("fallback model", "note", _other_model(setup, name, "fallback_models"))
    if small := setup.config.small_model:
        yield await _found("small model", "note", _other_model(setup, small, "small_model"))
    root = setup.workspace.root
    every = ((str(path.relative_to(root)), why) for path, why in unused_files(root))
    yours = ((f"~/{path.relative_to(home_dir())}", why) for path, why in unused_files_of_user(home_dir()))
    if unused := [f"{path} ({why.partition(':')[0]})" for path, why in (*every, *yours)]:
        todo = "`agent doctor --files` says more of each, and lists what is read."
        yield Finding("note", "not used", ", ".join(unused), todo)
    yield await _found("git", "note", _git(setup))
    yield await _found("ripgrep", "FAIL", _ripgrep(setup))
    yield await _found("state folder", "FAIL", _state(setup))
    if text := _worktrees(setup):
        yield Finding("ok", "worktrees", text)
    strength = await measured()
    yield await _found("sandbox", "note", _sandbox(setup, strength))
    if text := _promises(setup, strength):
        yield Finding("ok", "promises", text)
    if setup.config.hooks or defines_hooks(setup.workspace.root):
        for finding in _hooks(setup):
            yield finding
    if setup.config.mcp_servers or defines_servers(setup.workspace.root) or has_plugins(setup.state):
        from .servers import server_findings

        for finding in await server_findings(setup):
            yield finding
    if has_plugins(setup.state):
        yield await _found("plug-ins", "note", _plugins(setup))
    yield await _found("terminal", "note", _terminal())


async def _found(name: str, otherwise: Literal["note", "FAIL"], check: Awaitable[str]) -> Finding:
    try:
        return Finding("ok", name, await check)
    except Problem as problem:
        return Finding(otherwise, name, str(problem), problem.todo)


async def _configuration(setup: Setup) -> str:
    if setup.untrusted:
        raise Problem(
            "the project's own file is ignored until you trust it", "Start `agent` here; it shows the file."
        )
    if setup.loaded.ignored:
        keys = ", ".join(key for key, _ in setup.loaded.ignored)
        text = f"ignored in the project's own file: {keys}"
        raise Problem(text, "Put them into your own file if you want them; `agent config path` names it.")
    places = ", ".join(dict.fromkeys(layer.name for layer in setup.loaded.layers))
    return places or f"built-in defaults; {setup.config_dir / 'config.yaml'} is not there"


def _hooks(setup: Setup) -> Iterator[Finding]:
    """Yield the finding about hooks, if there are any. One that cannot be read refuses what it may guard."""
    from agent_cli.bootstrap.hooks import found_hooks

    found = found_hooks(setup)
    if any(hook.fault for hook in found.usable):
        todo = "Every call is refused until the file is fixed; --no-hooks runs a task without any hook."
        yield Finding("FAIL", "hooks", "; ".join(found.notes), todo)
    elif found.notes or found.usable:
        text = "; ".join((number(len(found.usable), "hook"), *found.notes))
        yield Finding("note" if found.notes else "ok", "hooks", text)


async def _plugins(setup: Setup) -> str:
    from agent_cli.bootstrap.plugins import installed_plugins

    loaded = installed_plugins(setup)
    if loaded.notes:
        raise Problem("; ".join(loaded.notes), "`agent plugin list` reads all files of all plug-ins.")
    return ", ".join(f"{each.name} ({each.state})" for each in loaded.listed) or "none is installed"


async def _model(setup: Setup) -> AsyncGenerator[Finding, None]:
    """Yield the finding about the model, then one for each hop to its server."""
    try:
        environment = keyed(os.environ, setup.config_dir)
        name = setup.config.model or await routing.choose_default(setup.config, environment)
        model = await routing.open_model(name, setup.config, environment)
    except (ConfigError, routing.NoModel, ModelError) as error:
        text = (
            "none is named, no key is set, and no local server answers"
            if isinstance(error, routing.NoModel)
            else str(error)
        )
        yield Finding("FAIL", "model", text, _todo(error, setup, "model"))
        return
    named = setup.loaded.place("model") if setup.config.model else "the first that can be used"
    size = await _window(name, model, setup, environment)
    window = f"window {size:,} tokens" if size else "window unknown"
    yield Finding("ok", "model", f"{name} ({named}), {window}{_key(name, setup, environment)}")
    for problem in environment.problems:
        yield Finding("note", "keyring", problem)
    if isinstance(model, NativeModel):
        route = routing.resolve(name, setup.config.providers, environment)
        async with aclosing(examine(route, model)) as found:
            async for finding in found:
                yield finding
    elif not name.startswith(f"{routing.REPLAY}/"):
        yield Finding("note", "http", "this provider is reached through LiteLLM; the way to it was not tried")
    await model.aclose()


async def _window(name: str, model: Model, setup: Setup, environment: KeyedEnvironment) -> int | None:
    """Return the size of a model's context window; its server is asked if nothing else tells."""
    if model.info.context_window or not isinstance(model, NativeModel):
        return model.info.context_window
    probe = routing.probe_of(routing.resolve(name, setup.config.providers, environment), setup.config)
    await probe.ask(_SERVER_S)
    return probe.info.context_window


def _todo(error: Exception, setup: Setup, key: str) -> str:
    """Return advice on an unusable model; `key` is the configuration key that names it."""
    keys = setup.config_dir / KEY_FILE
    match error:
        case routing.NoModel():
            return (
                "Set ANTHROPIC_API_KEY or the key of another provider, or start Ollama, LM Studio, llama.cpp or "
                "vLLM with a model; `agent help providers` has them all."
            )
        case routing.MissingKey():
            return f"Export it, or write it into {keys}; or name another model with --model or `model`."
        case routing.BadModelName():
            return f"Correct it in {setup.loaded.place(key)}; `agent models` lists known models."
        case routing.BadAddress():
            return "Correct the address, or take it away to use the built-in one."
        case _:
            return ""


def _key(name: str, setup: Setup, environment: KeyedEnvironment) -> str:
    """Return the source of the key for a model."""
    if name.startswith(f"{routing.REPLAY}/"):
        return ""
    source = routing.key_source(name, setup.config.providers, environment)
    return f", key from {source}" if source else ""


async def _other_model(setup: Setup, name: str, key: str) -> str:
    """Check whether a model that `key` names could be used, as far as possible without contacting it."""
    try:
        model = await routing.open_model(name, setup.config, keyed(os.environ, setup.config_dir))
    except (ConfigError, ModelError) as error:
        raise Problem(f"{name} cannot be used: {error}", _todo(error, setup, key)) from error
    await model.aclose()
    return f"{name}, not tried"


async def _git(setup: Setup) -> str:
    found = program("git", os.environ.get("PATH", ""), setup.workspace.roots)
    return await _version(found, "git", "Install git: without it undo restores only what tools have changed.")


async def _ripgrep(setup: Setup) -> str:
    beside = Path(sys.executable).parent / "rg"
    own = str(beside) if beside.exists() else program("rg", os.environ.get("PATH", ""), setup.workspace.roots)
    return await _version(own, "rg", "Install ripgrep: without it nothing can be searched.")


async def _version(found: str | None, name: str, advice: str) -> str:
    if found is None:
        raise Problem(f"{name} was not found outside the workspace", advice)
    try:
        done = await ProcessRunner().run([found, "--version"], cwd=Path.cwd(), timeout_s=10.0)
    except (ProcessError, TimeoutError) as error:
        raise Problem(str(error), advice) from error
    return done.stdout.decode("utf-8", "replace").partition("\n")[0]


async def _state(setup: Setup) -> str:
    try:
        setup.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = setup.state / f".probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise Problem(
            f"{setup.state}: {error.strerror}", "Set AGENT_STATE_DIR to a folder that you can write to."
        ) from error
    free = shutil.disk_usage(setup.state).free // 1_000_000
    if free < _ENOUGH_MB:
        advice = "`agent sessions prune` deletes old sessions; AGENT_STATE_DIR names another place."
        raise Problem(f"only {free} MB free on the disk of {setup.state}", advice)
    return f"{setup.state}, {free:,} MB free{await asyncio.to_thread(_held, setup.state)}"


def _held(state: Path) -> str:
    """Return what takes the space in the state folder; empty if it takes little."""
    sizes: Counter[str] = Counter()
    for folder, _, files in os.walk(state):
        top, *below = Path(folder).relative_to(state).parts or ("",)
        place = f"{top}/*/{below[1]}" if top == "projects" and below[1:] else top
        for name in files:
            with suppress(OSError):  # just deleted
                sizes[place] += os.lstat(f"{folder}/{name}").st_size
    if sizes.total() < _ENOUGH_MB * 1_000_000:
        return ""
    most = ", ".join(f"{size // 1_000_000:,} MB in {place}" for place, size in sizes.most_common(3))
    return f"; it holds {sizes.total() // 1_000_000:,} MB: {most}"


def _worktrees(setup: Setup) -> str:
    """Return the worktrees kept beside the state: those of users and sub-agents, and trees of batches."""
    from agent_cli.workspace.worktrees.worktree import worktrees

    folder = worktrees_dir(setup.state)
    own = len(worktrees(folder)) if folder.is_dir() else 0
    batches = sum(len(worktrees(each)) for each in folder.glob("batches/*"))
    of_batches = f", {number(batches, 'tree')} of batches (`agent batch clean OUT`)" if batches else ""
    found = f"{own} kept in {folder} (`agent worktree list`){of_batches}"
    return found if own or batches else ""


async def _sandbox(setup: Setup, strength: EnforcedLevel) -> str:
    if setup.config.sandbox == "off":
        advice = "Commands run with all your rights; `sandbox: workspace-write` confines them."
        raise Problem(f"switched off ({setup.loaded.place('sandbox')})", advice)
    if not strength.is_available:
        raise Problem(f"none: {strength.why}", "Until then commands that are not known to be read-only ask first.")
    holes = [] if strength.hides_inside else ["cannot protect single files of the workspace"]
    holes += [] if strength.cuts_network else ["does not cut the network"]
    holes += [] if strength.shares_network else ["cannot let commands reach single hosts"]
    text = "; ".join([f"{setup.config.sandbox} by {strength.mechanism}, tried just now", *holes])
    if strength.why:
        raise Problem(text, strength.why)
    return text


def _promises(setup: Setup, strength: EnforcedLevel) -> str:
    """Return how many of the promises of the docs are kept here in the configured mode, and name the others."""
    from agent_cli.sandbox.promises import promises

    wanted = wanted_for(setup)
    here = EnforcedLevel("none") if wanted.level == "off" else strength
    found = promises(here, setup.config.mode, wanted.asked_for and wanted.level != "off")
    if not found:
        return ""
    kept = sum(len(texts) for cell, texts in found.items() if cell in _KEPT)
    others = [f"{cell}: {', '.join(texts)}" for cell, texts in found.items() if cell not in _KEPT]
    count = f"{kept} of {sum(map(len, found.values()))} kept in mode {setup.config.mode}"
    return "; ".join([f"{count} (`agent help security` lists them)", *others])


async def _terminal() -> str:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Problem("not a terminal; the REPL will read and write plain lines")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise Problem("TERM is dumb or unset; the REPL will be plain", "Set TERM, such as xterm-256color.")
    return os.environ["TERM"]
