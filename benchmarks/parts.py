"""What single parts cost that each request, piece of output or start pays for, compared with a fixed piece of work
of the interpreter, or with the same done without us, in the same run."""

import random
import string
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from agent_cli.model.catalog import catalog
from agent_cli.protocol.events import TextDelta
from agent_cli.redaction.redactor import Redactor
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.session.event_bus import EventBus
from agent_cli.tools.registry import default_registry
from agent_cli.workspace.instructions import InstructionFiles

_ROUNDS = 9
_DELTAS = 1000


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    unit = _best(_fixed_work)
    work = folder / "parts"
    work.mkdir()
    plain = _best(lambda: subprocess.run(["/bin/true"], capture_output=True))
    return [
        ("a megabyte masked, in units of fixed work", _best(_masking()) / unit, "x", 400),
        (f"{_DELTAS} short deltas emitted, in units", _best(_emitting()) / unit, "x", 12),
        ("a model looked up in the catalogue, in units", _best(_catalogue) / unit, "x", 1),
        ("declarations of all tools, in units", _best(lambda: default_registry().specs()) / unit, "x", 1),
        ("unchanged instructions looked at, in units", _best(_looking(work)) / unit, "x", 1.5),
        ("a program run, over `subprocess`", (await _running(work) - plain) * 1000, "ms", 4),
    ]


def _fixed_work() -> object:
    return sum(len(str(number)) for number in range(20_000))


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _redactor() -> Redactor:
    pick = random.Random(1)
    return Redactor({f"NAME{n}": "".join(pick.choices(string.ascii_letters, k=40)) for n in range(12)})


def _masking() -> Callable[[], object]:
    line = "def handler(request, token=None):  # https://example.com/a?b=1 key: value, SKIP AC eyJ\n"
    text, redactor = line * (1_000_000 // len(line)), _redactor()
    return lambda: redactor.mask(text, assignments=True)


def _emitting() -> Callable[[], object]:
    bus = EventBus(redactor=_redactor())
    deltas = [TextDelta(text=word) for word in (" the", " function", ".", "\n")] * (_DELTAS // 4)

    def emit() -> None:
        for delta in deltas:
            bus.emit(delta)

    return emit


def _catalogue() -> object:
    return catalog.model_info("anthropic/claude-sonnet-4-5")


def _looking(work: Path) -> Callable[[], object]:
    names = [f"{number}.md" for number in range(20)]
    (work / "AGENTS.md").write_text("@" + "\n@".join(names), encoding="utf-8")
    for name in names:
        (work / name).write_text("x" * 2_000, encoding="utf-8")
    chain = InstructionFiles(work, config_dir=work / "config")
    chain.read()
    return chain.read


async def _running(work: Path) -> float:
    runner, times = ProcessRunner(), []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        await runner.run(["/bin/true"], cwd=work)
        times.append(time.perf_counter() - began)
    await runner.aclose()
    return min(times)
