"""The tour names files and functions that exist, and the README a true number of lines."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.rows import each_row

PACKAGE = ROOT / "agent_cli"
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
STATIONS = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", TOUR, re.MULTILINE)
_DEFINITION = re.compile(r"^(|    )(class|def|async def) (\w+)", re.MULTILINE)
NAMED = sorted(set(re.findall(r"`([\w/]+(?:\.py|/))`", TOUR)) - {"agent_cli/", "scripts/stations.py"})


def definitions(path: Path) -> set[str]:
    """Functions, classes and methods of a file, qualified as in `Agent.submit`."""
    found, owner = set(), ""
    for indent, kind, name in _DEFINITION.findall(path.read_text(encoding="utf-8")):
        if not indent:
            owner = f"{name}." if kind == "class" else ""
            found.add(name)
        elif owner and kind != "class":
            found.add(owner + name)
    return found


@each_row(("file", "function"), STATIONS)
def test_a_station_is_a_function_of_its_file(file: str, function: str) -> None:
    assert function in definitions(PACKAGE / file)


def test_files_and_folders_of_the_tour_are_there() -> None:
    assert [name for name in NAMED if not (PACKAGE / name).exists()] == [] and NAMED


def test_names_in_its_prose_are_defined_somewhere() -> None:
    prose = "\n".join(line for line in TOUR.splitlines() if not line.startswith("| `"))
    named = set(re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", prose))
    known = set().union(*(definitions(path) for path in PACKAGE.rglob("*.py") if "demo_project" not in path.parts))
    assert named - known == set() and named


def lines(*rooms: str) -> int:
    """Lines of Python in rooms of the package."""
    return sum(len(path.read_bytes().splitlines()) for room in rooms for path in (PACKAGE / room).rglob("*.py"))


def test_the_readme_says_how_long_the_core_is() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = re.search(r"`protocol/`, `session/` and `engine/`, ([\d,]+) lines", readme)
    assert said is not None
    assert int(said[1].replace(",", "")) == pytest.approx(lines("protocol", "session", "engine"), rel=0.05)
