"""The agent and other coding agents beside a bare loop in Python, against one scripted server in the same rounds.

make bench-peers                                # prints a table; peers that are not installed are named
python -m benchmarks.peers --rounds 9 --readme  # also writes it into README.md
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

from . import peer_settings
from .peer_server import ANSWER, Asked, PeerServer
from .peer_settings import PEERS, Program
from .startup import AGENT

CALLS = 100
ROUNDS = 9
README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- figures: begin, written by make bench-peers -->", "<!-- figures: end -->"
_INSIDE = "BENCH_IN_NAMESPACE"
_LIMIT_S = 300
_Sample = dict[str, float]


class Row(NamedTuple):
    """What one program took, medians of the rounds."""

    name: str
    values: _Sample
    failure: str = ""


def main(arguments: list[str] | None = None) -> int:
    """Measure what is installed and print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--calls", type=int, default=CALLS, help="calls of a tool in one run")
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    given = parser.parse_args(arguments)
    _enter_namespace()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="agent-bench-") as folder:
        rows = measure(Path(folder), given.rounds, given.calls)
    text = table(rows, given.rounds, given.calls)
    print(text)
    for name in PEERS:
        if name not in peer_settings.found():
            print(f"{name}: not found")
    for row in rows:
        if row.failure:
            print(f"{row.name}: not measured: {row.failure}")
    if given.readme and not any(row.failure for row in rows if row.name not in PEERS):
        README.write_text(with_figures(README.read_text(encoding="utf-8"), text), encoding="utf-8")
    return 1 if any(row.failure for row in rows) else 0


def _enter_namespace() -> None:
    """Start again in a network namespace of its own, where one can be had: nothing but loopback is reached."""
    if _INSIDE in os.environ:
        return
    for option in ("-n", "-rn"):  # the second where we are not root; it is a namespace of users too
        enter = ["unshare", option, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        with suppress(OSError):
            if subprocess.run([*enter, "true"], capture_output=True).returncode == 0:
                os.environ[_INSIDE] = "1"
                os.execvp(enter[0], [*enter, sys.executable, "-m", "benchmarks.peers", *sys.argv[1:]])


def measure(folder: Path, rounds: int, calls: int) -> list[Row]:
    """Run every program by turns; the first round fills caches and does not count."""
    samples: dict[str, list[_Sample]] = {}
    failures: dict[str, str] = {}
    with PeerServer() as server:
        programs = _programs(server.port)
        for number in range(rounds + 1):
            for name, program in programs.items():
                if name in failures:
                    continue
                try:
                    sample = _once(server, program, folder / name.replace(" ", "-"), calls)
                except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                    failures[name] = str(error)
                    continue
                if number:
                    samples.setdefault(name, []).append(sample)
    return [Row(name, _medians(samples.get(name, [])), failures.get(name, "")) for name in programs]


def _programs(port: int) -> dict[str, Program]:
    ours = {
        "floor": peer_settings.floor(port),
        "agent, sandbox off": peer_settings.agent(port, "--mode", "yolo", "--sandbox", "off"),
        "agent, confined": peer_settings.agent(port, "--mode", "auto-edit"),
    }
    return ours | {name: PEERS[name](port) for name in peer_settings.found()}


def _medians(samples: list[_Sample]) -> _Sample:
    return {key: median(sample[key] for sample in samples) for key in (samples[0] if samples else ())}


def _once(server: PeerServer, program: Program, folder: Path, calls: int) -> _Sample:
    """One run that answers at once, and one with so many calls."""
    env = program.prepare(folder)
    server.begin(0)
    began, took_s = _run(program, "Say hello.", folder, env)
    first = server.asked[0]
    sample = {"one-line answer": took_s * 1000, "first request": (first.at - began) * 1000}
    sample["first request, size"] = next((one.size for one in server.asked if one.has_shell), first.size) / 1024
    memory: _Sample = {}
    server.begin(calls, lambda: memory.update(_memory(os.getpid())))
    _run(program, f"Run {calls} commands.", folder, env)
    return sample | _steps(server.asked, calls) | memory


def _run(program: Program, task: str, folder: Path, env: dict[str, str]) -> tuple[float, float]:
    """When it began, and the seconds until its end."""
    began = time.monotonic()
    done = subprocess.run(
        [*program.argv, task, *program.behind], env=env, cwd=folder / "work", stdin=subprocess.DEVNULL,
        capture_output=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    took_s = time.monotonic() - began
    if done.returncode or ANSWER.encode() not in done.stdout:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-300:]
        raise RuntimeError(f"it ended with {done.returncode}: {said}")
    return began, took_s


def _steps(asked: list[Asked], calls: int) -> _Sample:
    """Milliseconds a call, and how much longer the last take than the first."""
    steps = [one for one in asked if one.has_shell]
    if [one.results for one in steps] != list(range(calls + 1)) or not all(one.is_whole for one in steps):
        raise RuntimeError(f"its commands did not run: {max((one.results for one in steps), default=0)} results")
    gaps = [(later.at - one.at) * 1000 for one, later in zip(steps, steps[1:], strict=False)]
    fifth = max(1, calls // 5)
    return {
        "a tool call": median(gaps),
        "late / early calls": median(gaps[-fifth:]) / median(gaps[fifth // 4 : fifth // 4 + fifth]),
    }


def _memory(parent: int) -> _Sample:
    """Megabytes of all processes below one, together: the peak that was resident, and what is private now."""
    peak = private = 0
    for pid in _below(parent):
        with suppress(OSError):
            peak += _kilobytes(Path(f"/proc/{pid}/status"), "VmHWM:")
            private += _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Private_Clean:", "Private_Dirty:")
    return {"peak memory": peak / 1024, "private memory": private / 1024}


def _kilobytes(path: Path, *names: str) -> int:
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return sum(int(words[1]) for words in lines if words and words[0] in names)


def _below(parent: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            children.setdefault(int(words[1]), []).append(int(stat.parent.name))
    left = children.get(parent, [])
    while left:
        yield (pid := left.pop())
        left += children.get(pid, [])


_COLUMNS = (
    ("one-line answer", "ms"), ("first request", "ms"), ("a tool call", "ms"), ("late / early calls", ""),
    ("peak memory", "MB"), ("private memory", "MB"), ("first request, size", "kB"),
)  # fmt: skip


def table(rows: list[Row], rounds: int, calls: int) -> str:
    """A Markdown table of what was measured, and how; times also as ratios to the floor."""
    measured = [row for row in rows if row.values and not row.failure]
    base = next((row.values for row in measured if row.name == "floor"), {})
    lines = ["| | " + " | ".join(name for name, _ in _COLUMNS) + " |", "|---" * (len(_COLUMNS) + 1) + "|"]
    for row in measured:
        cells = [_cell(row.values[name], unit, base.get(name)) for name, unit in _COLUMNS]
        lines.append(f"| {'bare Python loop' if row.name == 'floor' else row.name} | {' | '.join(cells)} |")
    where = "in a network namespace" if _INSIDE in os.environ else "without a network namespace"
    versions = [_version(AGENT), f"Python {platform.python_version()}", *map(_version, peer_settings.found())]
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    how = f"medians of {rounds} rounds by turns, {calls} calls of `echo` in a run, a scripted server on loopback"
    return "\n".join(
        [*lines, "", f"{datetime.now(UTC):%Y-%m-%d}: {'; '.join(versions)}; {machine}; {how}, {where}."]
    )


def _cell(value: float, unit: str, base: float | None) -> str:
    if not value:
        return "not readable"
    if unit == "ms":
        return f"{value:.{0 if value >= 100 else 1}f} ms ({value / base:.1f}×)" if base else f"{value:.1f} ms"
    return f"{value:.2f}" if not unit else f"{value:.1f} {unit}"


def _version(program: str) -> str:
    """The name of a program and its version, wherever it prints that."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    return f"{Path(program).name} {found.group() if found else '(version unknown)'}"


def with_figures(readme: str, text: str) -> str:
    """The README with another table between the marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise ValueError("README.md has no marks for the figures")
    return f"{before}{BEGIN}\n{text}\n{END}{behind}"


if __name__ == "__main__":
    sys.exit(main())
