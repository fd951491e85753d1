"""`agent doctor`: could a task run here? One line a check, and what to do where one fails."""

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from ..model.base import ModelError
from ..model.providers import REPLAY, MissingKey, NoModel, choose_default, open_model, probe_server, resolve
from ..sandbox.process import ProcessError, ProcessRunner
from .compose import SANDBOX_IN_FORCE
from .options import Chosen
from .setup import Setup

_ENOUGH_MB = 100


class Problem(Exception):
    """A check that failed; the text says what to do."""


def run_doctor() -> int:
    """Run all checks; 0 only if a task could run."""
    setup = Setup(Chosen("agent", {}))
    return asyncio.run(_check_all(setup))


async def _check_all(setup: Setup) -> int:
    checks: tuple[tuple[str, bool, Callable[[Setup], Awaitable[str]]], ...] = (
        ("configuration", True, _configuration),
        ("model", True, _model),
        ("git", False, _git),
        ("ripgrep", True, _ripgrep),
        ("state folder", True, _state),
        ("sandbox", False, _sandbox),
        ("terminal", False, _terminal),
    )
    failed = False
    for name, needed, check in checks:
        try:
            print(f"ok    {name}: {await check(setup)}")
        except Problem as problem:
            failed = failed or needed
            print(f"{'FAIL' if needed else 'note'}  {name}: {problem}")
    return 1 if failed else 0


async def _configuration(setup: Setup) -> str:
    setup.rules()
    if setup.untrusted:
        return "read; the project's own file is ignored until you trust it (start `agent`)"
    if setup.loaded.ignored:
        keys = ", ".join(key for key, _ in setup.loaded.ignored)
        return f"{len(setup.loaded.layers)} layers read; ignored in the project's own file: {keys}"
    return f"{len(setup.loaded.layers)} layers read"


async def _model(setup: Setup) -> str:
    environment = dict(os.environ)
    try:
        name = setup.config.model or await choose_default(setup.config, environment)
        model = await open_model(name, setup.config, environment)
    except (NoModel, MissingKey, ModelError) as error:
        raise Problem(str(error)) from error
    await model.aclose()
    await _endpoint(setup, name, environment)
    window = model.info.context_window
    return f"{name}, window {window:,} tokens" if window else f"{name}, window unknown"


async def _endpoint(setup: Setup, name: str, environment: dict[str, str]) -> None:
    """A server on this machine must answer; others are not called without being asked to."""
    if name.startswith(f"{REPLAY}/"):
        return
    route = resolve(name, setup.config.providers, environment)
    host = urlsplit(route.base_url).hostname or ""
    if host not in ("localhost", "127.0.0.1", "::1"):
        return
    offered = await probe_server(route.base_url, route.api_key)
    if offered is None:
        raise Problem(f"no server answers at {route.base_url}; start it, or name another model with --model")


async def _git(setup: Setup) -> str:
    return await _version(["git", "--version"], "install git: without it undo cannot restore files")


async def _ripgrep(setup: Setup) -> str:
    beside = Path(sys.executable).parent / "rg"
    program = str(beside) if beside.exists() else "rg"
    return await _version([program, "--version"], "install ripgrep: without it nothing can be searched")


async def _version(argv: list[str], advice: str) -> str:
    try:
        done = await ProcessRunner().run(argv, cwd=Path.cwd(), timeout_s=10.0)
    except (ProcessError, TimeoutError) as error:
        raise Problem(f"{error}; {advice}") from error
    return done.stdout.decode("utf-8", "replace").partition("\n")[0]


async def _state(setup: Setup) -> str:
    try:
        setup.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = setup.state / f".probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise Problem(f"{setup.state}: {error.strerror}; set AGENT_STATE_DIR to a folder you can write") from error
    free = shutil.disk_usage(setup.state).free // 1_000_000
    if free < _ENOUGH_MB:
        raise Problem(f"only {free} MB free where {setup.state} lies")
    return f"{setup.state}, {free:,} MB free"


async def _sandbox(setup: Setup) -> str:
    if SANDBOX_IN_FORCE == "none":
        raise Problem("none in this version; commands that are not known to read ask first")
    return SANDBOX_IN_FORCE


async def _terminal(setup: Setup) -> str:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Problem("not a terminal; the REPL will read and write plain lines")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise Problem("TERM is dumb or unset; the REPL will be plain")
    return os.environ["TERM"]
