"""What drawing costs: CPU for an answer of 10,000 tokens as the screen draws it, twenty frames a second at 100
tokens a second, against printing its text through the same pipe; for one huge fence and one huge list; for a diff.

Each round is a process of its own, since what is loaded once and what is remembered would hide the rest.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

TOKENS = 10_000
ROUNDS = 7
WIDTH, ROWS = 100, 20
_PIECE = 4
"""Characters of a token."""
_PIECES_A_FRAME = 5


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    bare, rounds = [], []
    for _ in range(ROUNDS):
        bare.append(_bare_s())
        rounds.append(_round())
    base = median(bare)

    def figure(name: str) -> float:
        return median(each[name] for each in rounds)

    printed = median(each["answer"] / each["printed"] for each in rounds)
    return [
        (f"{TOKENS} tokens drawn, CPU, ratio to printing", printed, "x", 250),
        (f"{TOKENS} tokens drawn, CPU, ratio to bare", figure("answer") / base, "x", 90),
        (f"{TOKENS} tokens drawn, 99th of 100 frames", figure("frame") * 1000, "ms", 10),
        ("800 lines of code drawn, CPU, ratio to bare", figure("fence") / base, "x", 25),
        ("400 items of a list drawn, CPU, ratio to bare", figure("items") / base, "x", 40),
        ("a diff of 2000 lines drawn, CPU, ratio to bare", figure("diff") / base, "x", 12),
        ("what drawing loads once, CPU, ratio to bare", figure("loaded") / base, "x", 15),
    ]


def _bare_s() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


def _round() -> dict[str, float]:
    done = subprocess.run([sys.executable, "-m", "benchmarks.rendering"], check=True, capture_output=True)
    figures: dict[str, float] = json.loads(done.stderr)
    return figures


def _answer() -> str:
    """Prose, lists, code and tables, the same each time."""
    pick = random.Random(1)
    words = "the agent reads files and edits a `function` then runs **tests** in src/parser.py".split()
    blocks: list[str] = []
    while sum(map(len, blocks)) < TOKENS * _PIECE:
        blocks += [
            "## " + " ".join(pick.choices(words, k=4)),
            " ".join(pick.choices(words, k=60)),
            "\n".join(f"- **{pick.choice(words)}**: {' '.join(pick.choices(words, k=8))}" for _ in range(5)),
            '```python\ndef f(y):\n    """Text."""\n'
            + "    if y > 1: raise ValueError(f'bad {y!r}')\n" * 8
            + "```",
            "| a | b |\n|---|---|\n" + "| x | y |\n" * 4,
        ]
    return "\n\n".join(blocks)[: TOKENS * _PIECE]


def _diff() -> str:
    """A thousand changed lines."""
    old = "".join(f"-    value_{n} = compute({n}, other)  # what it is worth\n" for n in range(1000))
    new = "".join(f"+    value_{n} = compute({n + 1}, other)  # what it is worth\n" for n in range(1000))
    return f"--- a/x.py\n+++ b/x.py\n@@ -1,1000 +1,1000 @@\n{old}{new}"


def _cpu(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def _written(text: str) -> None:
    os.write(1, text.encode())


def _printed(text: str) -> None:
    step = _PIECE * _PIECES_A_FRAME
    for at in range(0, len(text), step):
        _written(text[at : at + step])


def _drawn(text: str, frames: list[float]) -> None:
    """As the REPL does: pieces in, at each frame what is finished and what is alive out."""
    from agent_cli.config.schema import Ui
    from agent_cli.protocol.events import TextDelta
    from agent_cli.ui.render.renderer import Renderer
    from agent_cli.ui.text.theme import choose
    from tests.ui.fake_client import SNAPSHOT

    view = Renderer(choose(Ui(theme="dark"), {}), Ui(), lambda: WIDTH, lambda: SNAPSHOT)
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    for number, piece in enumerate(pieces, start=1):
        view.handle(TextDelta(text=piece))
        if number % _PIECES_A_FRAME == 0:
            began = time.perf_counter()
            _written(view.take() + "\n".join(view.frame((), ROWS)))
            frames.append(time.perf_counter() - began)


def _loaded() -> None:
    from agent_cli.ui.render.renderer import warm_up

    warm_up()
    _drawn("# a\n\n**b** `c`\n\n| d |\n|---|\n\n```python\ne = 1\n```\n", [])


def _child() -> dict[str, float]:
    from agent_cli.config.schema import Ui
    from agent_cli.ui.text.theme import choose

    loaded = _cpu(_loaded)
    answer, frames = _answer(), list[float]()
    figures = {
        "printed": _cpu(lambda: _printed(answer)),
        "answer": _cpu(lambda: _drawn(answer, frames)),
        "fence": _cpu(lambda: _drawn("```python\n" + "x = f(1)  # y\n" * 800, [])),
        "items": _cpu(lambda: _drawn("- **item** of a list, with `code` in it\n" * 400, [])),
        "loaded": loaded,
        "frame": sorted(frames)[int(len(frames) * 0.99)],
    }
    from agent_cli.ui.render.diff_view import render_diff

    rows, theme = _diff().split("\n"), choose(Ui(theme="dark"), {})
    return figures | {"diff": _cpu(lambda: _written("\n".join(render_diff(rows, theme, WIDTH))))}


if __name__ == "__main__":
    print(json.dumps(_child()), file=sys.stderr)
