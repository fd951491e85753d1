"""What it costs to confine a command: bare and confined ones by turns, in one run, and the looks for what a
command has left behind."""

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from agent_cli.engine.permissions.egress import EgressProxy
from agent_cli.policy.rules.rule import Rules, parse_rule
from agent_cli.protocol.actions import Allow
from agent_cli.sandbox.git_tamper_guard import take_git_state
from agent_cli.sandbox.mechanisms import bubblewrap
from agent_cli.sandbox.mechanisms.select import Mechanism
from agent_cli.sandbox.probe import measure as measure_strength
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.sandbox.profile.environment import child_env, confined_env

ROUNDS = 60
_ALONE = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--ro-bind", "/", "/"),
    *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),
)
_BEYOND_MS = {"bubblewrap": 25.0, "landlock": 10.0}
"""What may come on top of a command that is not confined; most of it is the kernel's."""


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound). A mechanism that this machine has not is left out."""
    base = folder / "sandbox"
    base.mkdir()
    runner = ProcessRunner()
    await runner.run(["/bin/true"], cwd=base)
    began = time.perf_counter()
    await measure_strength(runner, base)
    probe_s = time.perf_counter() - began
    ways = [None, *await _ways(runner, base)]
    times: dict[Mechanism | None, list[float]] = {means: [] for means in ways}
    alone = []
    for _ in range(ROUNDS):
        if program := bubblewrap.program():
            began = time.perf_counter()
            subprocess.run([program, *_ALONE, "bash", "-c", "true"], stdin=subprocess.DEVNULL, capture_output=True)
            alone.append(time.perf_counter() - began)
        for means in ways:
            times[means].append(await _once(runner, base, means))
    await runner.aclose()
    rows = [("sandbox: to find out what this machine has", probe_s * 1000, "ms", 60.0)]
    plain = median(times[None])
    for means in filter(None, ways):
        took, name = median(times[means]), means.name
        rows.append(
            (f"a command in {name}, beyond a supervised one", (took - plain) * 1000, "ms", _BEYOND_MS[name])
        )
        if name == "bubblewrap":
            rows.append(("a command in bubblewrap, over bwrap alone", took / median(alone), "x", 2.5))
    return [*rows, *_looks(base), *await _way_out(base)]


async def _ways(runner: ProcessRunner, base: Path) -> list[Mechanism]:
    program = bubblewrap.program()
    each = [Mechanism("bubblewrap", program, os.getuid() != 0)] if program else []
    found = []
    for means in (*each, Mechanism("landlock")):
        with suppress(ProcessError, RuntimeError):
            await _once(runner, base, means)
            found.append(means)
    return found


async def _once(runner: ProcessRunner, base: Path, means: Mechanism | None) -> float:
    """Seconds from the request to the end, with all that a confined command needs."""
    home = Path.home()
    confinement = Confinement(
        writable=(str(base),), hidden=(str(home / ".ssh"), str(home / ".netrc")), tmp=str(base)
    )
    began = time.perf_counter()
    env = child_env(os.environ)
    if means:
        env = confined_env(env, offline=True, cache=base)
    running = await runner.start(
        ["bash", "-c", "true"],
        cwd=base,
        env=env,
        on_output=lambda _: None,
        confinement=confinement if means else None,
        mechanism=means,
    )
    await running.ended_within(10.0)
    if running.exit_code != 0:
        raise RuntimeError("it does not work here")
    return time.perf_counter() - began


async def _way_out(base: Path) -> list[tuple[str, float, str, float]]:
    """What it costs that commands reach allowed hosts, before the first and before each later command."""
    runner = ProcessRunner()
    try:
        if not (await measure_strength(runner, base)).shares_network:
            return []
        rules = Rules([parse_rule("fetch(example.org)", "allow", "benchmark")])
        outlet = EgressProxy(runner, lambda: rules, lambda _: Allow("benchmark"))
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await outlet.open()
            times.append((time.perf_counter() - began) * 1000)
        outlet.close()
    finally:
        await runner.aclose()
    return [
        ("a proxy to allowed hosts, once", times[0], "ms", 40.0),
        ("a proxy to allowed hosts, each later command", median(times[1:]), "ms", 0.1),
    ]


def _looks(base: Path) -> list[tuple[str, float, str, float]]:
    work = base / "work"
    for number in range(20):
        (work / f"folder{number}" / "inner").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    guarded = take_git_state(str(work))
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        guarded = take_git_state(str(work), guarded)
        guarded.changed()
        times.append(time.perf_counter() - began)
    return [("the looks before and after a command, 40 folders", median(times) * 1000, "ms", 3.0)]
