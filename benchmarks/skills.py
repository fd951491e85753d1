"""What many skills cost at the start: the prompt and the first request with 1,500 of them beside none."""

import asyncio
import os
import time
from pathlib import Path
from statistics import median

from .startup import Listener, environment, until_prompt, until_request

RUNS = 11
SKILLS = 1_500
_HOUR_S = 3600


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    return await asyncio.to_thread(_compare, folder)


def _compare(folder: Path) -> list[tuple[str, float, str, float]]:
    """Compare the start with many skills with one without any, by turns."""
    took: dict[str, dict[str, list[float]]] = {"prompt": {}, "first request": {}}
    bases = {"none": folder / "skills-none", "many": folder / "skills-many"}
    for base in bases.values():
        for name in ("state", "config", "work"):
            (base / name).mkdir(parents=True)
    _write(bases["many"] / ".claude" / "skills")
    first: dict[str, float] = {}
    with Listener() as server:
        for number in range(RUNS + 1):
            for name in bases if number % 2 else reversed(bases):
                env = environment(bases[name], server.port)
                prompt, _, _ = until_prompt(bases[name], env)
                request = until_request(bases[name], env, server)
                if not number:
                    first[name] = prompt
                    continue
                took["prompt"].setdefault(name, []).append(prompt)
                took["first request"].setdefault(name, []).append(request)
    return [
        (f"first start with {SKILLS} skills, which reads all of them", first["many"] - first["none"], "s", 10),
        *(
            (f"{what} with {SKILLS} skills, ratio to none", median(of["many"]) / median(of["none"]), "x", 1.1)
            for what, of in took.items()
        ),
    ]


def _write(top: Path) -> None:
    then = time.time() - _HOUR_S
    for number in range(SKILLS):
        folder = top / f"skill-{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: skill-{number}\ndescription: Handles matter {number} of the project, and the like.\n"
            f"---\n# Matter {number}\n\nLook at the files, then act.\n",
            encoding="utf-8",
        )
        os.utime(folder, (then, then))
    os.utime(top, (then, then))
