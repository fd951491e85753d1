"""Notebooks are shown by cells; what is no notebook inside is text."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.tools.kit.base import ToolContext, ToolError
from tests.tools.calls import call


def cell(kind: str, source: Any, **more: Any) -> dict[str, Any]:
    outputs = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source, **outputs, **more}


def write(path: Path, *cells: dict[str, Any]) -> None:
    whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(whole, indent=1), encoding="utf-8")


async def test_cells_come_with_source_and_output(context: ToolContext, root: Path) -> None:
    write(
        root / "n.ipynb",
        cell("markdown", ["# Title\n", "words"]),
        cell(
            "code",
            "print(1)",
            execution_count=3,
            outputs=[
                {"output_type": "stream", "name": "stdout", "text": ["1\n", "two"]},
                {
                    "output_type": "execute_result",
                    "data": {"text/plain": "<Axes>", "text/html": "<p>", "image/png": "AAAA"},
                },
                {"output_type": "error", "ename": "E", "evalue": "bad", "traceback": ["\x1b[31mE\x1b[0m: bad"]},
                {"output_type": "display_data", "data": {"application/json": {"a": 1}}},
            ],
        ),
    )
    outcome = await call(context, "read_file", path="n.ipynb")
    assert outcome.text == (
        "[Cell 1: markdown]\n# Title\nwords\n[Cell 2: code [3]]\nprint(1)\n[Output of cell 2]\n1\ntwo\n<Axes>\n"
        "[an image, image/png]\nE: bad\n[output of type application/json]\n"
        "[A notebook of 2 cells, without its metadata: edit_file changes the text of cells as shown,"
        " or else the JSON, of which grep shows the exact lines; rewriting it is refused]"
    )
    assert outcome.display == "2 cells"


async def test_what_a_notebook_shows_is_not_enough_to_replace_it(context: ToolContext, root: Path) -> None:
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "AAAA" * 500}}
    write(root / "n.ipynb", cell("code", "plot()", outputs=[picture]))
    before = (root / "n.ipynb").read_bytes()
    assert not (await call(context, "read_file", path="n.ipynb")).seen
    with pytest.raises(ToolError, match="Change a notebook with edit_file"):
        await call(context, "write_file", path="n.ipynb", content='{"cells":[],"nbformat":4,"metadata":{}}')
    assert (root / "n.ipynb").read_bytes() == before


async def test_long_notebooks_and_long_outputs_are_bounded(context: ToolContext, root: Path) -> None:
    noise = {"output_type": "stream", "text": "a" * 50_000 + "end"}
    write(root / "n.ipynb", *(cell("code", f"cell_{n}", outputs=[noise]) for n in range(1, 101)))
    outcome = await call(context, "read_file", path="n.ipynb")
    assert len(outcome.text) < 46_000 and "characters left out" in outcome.text and not outcome.seen
    following = json.loads(outcome.text.partition("To continue: read_file ")[2].partition("]")[0])
    later = await call(context, "read_file", **following)
    assert later.text.startswith(f"[Cell {following['offset']}: code]\ncell_{following['offset']}\n")
    some = await call(context, "read_file", path="n.ipynb", offset=7, limit=1)
    assert "cell_7" in some.text and "cell_8" not in some.text and "Cells 7-7 of 100 shown" in some.text
    with pytest.raises(ToolError, match="has 100 cells; there is no cell 101"):
        await call(context, "read_file", path="n.ipynb", offset=101)


async def test_a_giant_cell_is_cut(context: ToolContext, root: Path) -> None:
    write(root / "n.ipynb", cell("code", "x" * 500_000), cell("code", "after"))
    outcome = await call(context, "read_file", path="n.ipynb")
    assert len(outcome.text) < 46_000 and "rest of this cell is left out" in outcome.text and not outcome.seen


@pytest.mark.parametrize("text", ['{"cells": [', '{"a": 1}', "", '{"cells": 3, "nbformat": 4}', "[" * 100_000])
async def test_what_is_no_notebook_inside_is_text(context: ToolContext, root: Path, text: str) -> None:
    (root / "n.ipynb").write_text(text, encoding="utf-8")
    outcome = await call(context, "read_file", path="n.ipynb")
    assert outcome.text.startswith("1\t" + text[:5]) if text else outcome.text == "[n.ipynb is empty]"


async def test_the_json_can_be_edited_and_its_lines_seen(context: ToolContext, root: Path) -> None:
    write(root / "n.ipynb", cell("code", ["a = 1\n", 'print("x")']))
    await call(context, "read_file", path="n.ipynb")
    shown = await call(context, "grep", pattern="print", path="n.ipynb")
    line = shown.text.splitlines()[1].partition(": ")[2]
    await call(context, "edit_file", path="n.ipynb", edits=[{"old": line.strip(), "new": '"print(2)"'}])
    assert "print(2)" in (await call(context, "read_file", path="n.ipynb")).text
    raw = await call(context, "read_file", path="n.ipynb", offset=1, column=1)
    assert raw.text.startswith("{\n[Line 1, characters 1-1 of 1]")


def sources(path: Path) -> list[str]:
    return ["".join(each["source"]) for each in json.loads(path.read_text(encoding="utf-8"))["cells"]]


async def test_an_edit_that_fits_nowhere_is_told_what_resembles_it_in_the_cells(
    context: ToolContext, root: Path
) -> None:
    write(root / "n.ipynb", cell("code", ["def total(items):\n", "    return sum(items)\n"]))
    edit = {"old": "def total(items):\n    return sum(item)\n", "new": ""}
    with pytest.raises(ToolError) as refused:
        await call(context, "edit_file", path="n.ipynb", edits=[edit])
    assert "2\t····return sum(items)\n" in str(refused.value) and "\\n" not in str(refused.value)


async def test_a_cell_is_edited_as_it_was_shown(context: ToolContext, root: Path) -> None:
    path = root / "n.ipynb"
    write(path, cell("markdown", ["# Größe\n", "words"]), cell("code", 'import os\nprint("x")'))
    before = path.read_text(encoding="utf-8")
    edits = [{"old": "# Größe", "new": "# Größen\n\nmore"}, {"old": 'os\nprint("x")', "new": 'sys\nprint("y\\n")'}]
    await call(context, "edit_file", path="n.ipynb", edits=edits)
    assert sources(path) == ["# Größen\n\nmore\nwords", 'import sys\nprint("y\\n")']
    patch = (
        '*** Update File: n.ipynb\n@@\n-# Größen\n-\n-more\n+# Größe\n words\n@@\n-import sys\n-print("y\\n")\n'
    )
    patch = f'*** Begin Patch\n{patch}+import os\n+print("x")\n*** End Patch'
    await call(context, "apply_patch", patch=patch)
    assert path.read_text(encoding="utf-8") == before


async def test_lines_of_the_json_are_edited_as_json(context: ToolContext, root: Path) -> None:
    path, code = (
        root / "n.ipynb",
        [f"total_{n} = sum(item.price for item in basket_{n}.items)\n" for n in range(6)],
    )
    write(path, cell("code", [*code, "total_0"]))
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "sum(" in line]
    edit = {"old": "\n".join(lines), "new": "\n".join(lines).replace("basket_3", "basket_9")}
    await call(context, "edit_file", path="n.ipynb", edits=[edit])
    assert sources(path) == ["".join([*code, "total_0"]).replace("basket_3", "basket_9")]


async def test_what_occurs_in_several_cells_is_not_looked_for_in_the_json(
    context: ToolContext, root: Path
) -> None:
    write(root / "n.ipynb", cell("code", "x = 1\ny = 2\na"), cell("code", ["x = 1\n", "y = 2\n", "b"]))
    before = (root / "n.ipynb").read_bytes()
    first = {"old": "a", "new": "c"}
    for edits in ([{"old": "x = 1\ny = 2", "new": "z"}], [first, {"old": "x = 1\ny = 2", "new": "z"}]):
        with pytest.raises(ToolError, match=r"occurs several times in n.ipynb(?s:.*)over all cells"):
            await call(context, "edit_file", path="n.ipynb", edits=edits)
    assert (root / "n.ipynb").read_bytes() == before


async def test_no_edit_makes_two_cells_of_one(context: ToolContext, root: Path) -> None:
    write(root / "n.ipynb", cell("code", "a = 1"), cell("code", "b = 2"))
    with pytest.raises(ToolError, match="would not be valid JSON any more"):
        await call(context, "edit_file", path="n.ipynb", edits=[{"old": "a = 1", "new": "a\n\0\nc"}])
    assert sources(root / "n.ipynb") == ["a = 1", "b = 2"]


async def test_a_damaged_notebook_is_edited_as_text(context: ToolContext, root: Path) -> None:
    (root / "n.ipynb").write_text('{"cells": [], "nbformat": 4,}', encoding="utf-8")
    await call(context, "edit_file", path="n.ipynb", edits=[{"old": "4,}", "new": "4}"}])
    assert (root / "n.ipynb").read_text(encoding="utf-8") == '{"cells": [], "nbformat": 4}'


@pytest.mark.parametrize("indent", [None, 1, 4, "\t"])
async def test_an_edit_keeps_the_layout_of_a_notebook(context: ToolContext, root: Path, indent: Any) -> None:
    cells = [cell("code", ["a = 1\n", "b = 2"]), cell("code", ["two ", "pieces"])]
    whole = {"cells": cells, "metadata": {"ä": 1.5}, "nbformat": 4}
    text = json.dumps(whole, indent=indent, ensure_ascii=False) + "\n"
    (root / "n.ipynb").write_text(text, encoding="utf-8")
    await call(context, "edit_file", path="n.ipynb", edits=[{"old": "a = 1\nb", "new": 'c = ""\nb'}])
    whole["cells"][0]["source"][0] = 'c = ""\n'
    written = (root / "n.ipynb").read_text(encoding="utf-8")
    assert written == json.dumps(whole, indent=indent, ensure_ascii=False) + "\n"


@pytest.mark.parametrize(
    "edit", [{"old": "1.50", "new": '2.50\n"x'}, {"old": '"nbformat": 4', "new": '"nbformat": '}]
)
async def test_an_edit_that_would_break_a_notebook_is_refused(
    context: ToolContext, root: Path, edit: dict[str, str]
) -> None:
    text = '{"cells": [{"cell_type": "code", "source": "a = 1.50"}], "nbformat": 4, "metadata": {"x": 1.0e0}}'
    (root / "n.ipynb").write_text(text, encoding="utf-8")
    with pytest.raises(ToolError, match="would not be valid JSON any more"):
        await call(context, "edit_file", path="n.ipynb", edits=[edit])
    assert (root / "n.ipynb").read_text(encoding="utf-8") == text
