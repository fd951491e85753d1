"""The page about the architecture has a row for each folder, and the order it gives inside rooms holds."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT, blocks
from tests.rows import each_row

PACKAGE = ROOT / "agent_cli"
PAGE = "docs/architecture.md"
FOLDERS = {str(each.parent.relative_to(ROOT)) for each in PACKAGE.rglob("__init__.py")} - {"agent_cli"}
ORDERS = [
    line
    for block in blocks("text")
    if block.page == PAGE and " < " in block.text
    for line in block.text.splitlines()
]


def test_every_folder_has_a_row() -> None:
    rows = re.findall(r"^\| `(agent_cli/[\w/]+)/` \|", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(FOLDERS)


_HOLDS_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


@cache
def imported(path: Path) -> list[Path]:
    """Files of the package that a file imports, late imports included, those for type checkers not."""
    package = path.relative_to(ROOT).parent.parts
    found: list[Path] = []
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if not isinstance(node, ast.ImportFrom):
            waiting += (each for each in ast.iter_child_nodes(node) if isinstance(each, _HOLDS_STATEMENTS))
            continue
        base = package[: len(package) - node.level + 1] if node.level else ()
        module = Path(*base, *(node.module or "").split("."))
        for name in node.names:
            for file in (module / f"{name.name}.py", module.with_suffix(".py")):
                if (ROOT / file).is_file():
                    found.append(ROOT / file)
                    break
    return found


def ranks(line: str) -> tuple[str, dict[str, int]]:
    """A room, and each of its folders with its place in the order; the room's own files are `.`."""
    room, _, order = line.partition(":")
    steps = [[each.strip().replace("*", ".") for each in step.split(",")] for step in order.split(" < ")]
    return room, {folder: place for place, step in enumerate(steps) for folder in step}


@each_row("line", ORDERS)
def test_folders_of_a_room_import_only_those_before_them(line: str) -> None:
    room, places = ranks(line)
    home = PACKAGE / room
    wrong = []
    for path in sorted(home.rglob("*.py")):
        if "demo_project" in path.parts:
            continue
        own = str(path.parent.relative_to(home))
        for other in imported(path):
            if not other.is_relative_to(home):
                continue
            theirs = str(other.parent.relative_to(home))
            if theirs != own and places[theirs] >= places[own]:
                wrong.append(f"{path.relative_to(home)} → {other.relative_to(home)}")
    assert wrong == []


def test_the_order_names_every_folder_of_rooms_that_have_some() -> None:
    named = {f"agent_cli/{room}/{folder}" for room, places in map(ranks, ORDERS) for folder in places}
    below = {folder for folder in FOLDERS if folder.count("/") > 1}
    assert {each for each in named if not each.endswith("/.")} == below
