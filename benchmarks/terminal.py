"""What the screen costs: from a key to its echo while an answer streams, a megabyte pasted, what is written while
nothing but a clock changes, and the CPU of a prompt at which nobody types."""

import os
import sys
import time
from pathlib import Path

import pyte

from tests.ui.session import Session

KEYS = 400
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    rows: list[tuple[str, float, str, float]] = []
    echoes = sorted(_echoes(folder))
    rows.append(("typing while 200 tokens/s stream: median", 1000 * echoes[len(echoes) // 2], "ms", 15))
    late = 1000 * echoes[int(len(echoes) * 0.99)]
    rows.append(("typing while 200 tokens/s stream: 99th of 100", late, "ms", 30))
    rows.append(("a megabyte pasted", 1000 * sorted(_pasted(folder) for _ in range(5))[2], "ms", 200))
    rows.append(("written while a spinner turns", _written(folder) / 1000, "kB/s", 2))
    rows.append(("CPU of an idle prompt", 100 * _idle(folder), "%", 0.5))
    return rows


def _session(folder: Path, script: str) -> Session:
    (place := folder / f"terminal-{time.monotonic_ns()}").mkdir()
    return Session(place, script)


def _echoes(folder: Path) -> list[float]:
    """Seconds from each key until it stands in the emulated terminal's input line, with the cursor behind it."""
    took = []
    with _session(folder, "tokens") as term:
        term.send("go\r")
        term.pump(1.0)
        for number in range(KEYS):
            column, key = number % 50, "abcdefghij"[number % 10]
            if not column:
                term.send("\x01\x0b")
                term.pump(0.2)
            sent = time.monotonic()
            term.send(key)
            while not _stands(term.screen, key, column + 3):
                assert term.pump(0.0005) and time.monotonic() < sent + 2, term.text
            took.append(time.monotonic() - sent)
            term.pump(0.02)
    return took


def _stands(screen: pyte.Screen, key: str, column: int) -> bool:
    row = screen.buffer[screen.cursor.y]
    return screen.cursor.x == column and row[0].data == ">" and row[column - 1].data == key


def _pasted(folder: Path) -> float:
    """Seconds until a pasted megabyte stands in the line as a chip, from when its last byte was sent."""
    text = "".join(f"{n:07d} a line of text that is pasted\n" for n in range(25_000))
    with _session(folder, "stream") as term:
        began = time.monotonic()
        term.paste(text)
        while b"[paste 1" not in term.log:
            assert term.pump(0.001) and time.monotonic() < began + 10
        return time.monotonic() - began


def _written(folder: Path) -> float:
    """Bytes a second while a silent command runs."""
    with _session(folder, "silent") as term:
        term.send("go\r")
        term.pump(2.0)
        before = len(term.log)
        term.pump(5.0)
        return (len(term.log) - before) / 5.0


def _idle(folder: Path) -> float:
    """Share of one CPU that a prompt takes."""
    with _session(folder, "stream") as term:
        term.pump(3.0)
        before = _cpu_s(term.process.pid)
        term.pump(10.0)
        return (_cpu_s(term.process.pid) - before) / 10.0


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


if __name__ == "__main__":
    import asyncio
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        for row in asyncio.run(measure(Path(place))):
            print(row)
    sys.exit(0)
