"""What a model reports gets a place that exists, or is marked."""

from pathlib import Path
from typing import Any

import msgspec

from agent_cli.review.finding import Finding, Suggestion
from agent_cli.review.material import Selection, collect
from agent_cli.review.placing import Placer, ReportedFinding, is_relative
from tests.review.repository import committed, put, reader, reported
from tests.rows import each_row

OLD = "def f(x):\n    y = 1\n    return x\n"
NEW = "def f(x):\n    y = 2\n    return 1 / x\n"


async def placed(folder: Path, **more: Any) -> Finding:
    work = folder / "work"
    committed(work, {"a.py": OLD, "other.py": "x = 1\n", "a.txt": "one\n"})
    put(work, {"a.py": NEW, "a.txt": "two\n"})
    async with reader(work) as git:
        placer = Placer(git, await collect(git, Selection(), lambda path: True))
        return await placer.placed(
            msgspec.convert(reported(**{"title": "It fails", "line": 3, **more}), ReportedFinding)
        )


@each_row(
    ("path", "shown"),
    [
        ("a.py", "a.py"), ("./a.py", "a.py"), ("x/../a.py", "a.py"), ("b/a.py", "a.py"), (" a.py ", "a.py"),
    ],
)  # fmt: skip
async def test_ways_to_write_a_path(tmp_path: Path, path: str, shown: str) -> None:
    found = await placed(tmp_path, path=path)
    assert (found.path, found.start_line, found.in_diff) == (shown, 3, True)


async def test_an_absolute_path_in_the_repository(tmp_path: Path) -> None:
    assert (await placed(tmp_path, path=str(tmp_path / "work" / "a.py"))).path == "a.py"


@each_row(
    "path", ["/etc/passwd", "../other/a.py", "missing.py", "", "C:\\a.py", "a\x1b[2J.py", "~/x", "other.py", "."]
)
async def test_a_finding_elsewhere_is_kept_and_marked(tmp_path: Path, path: str) -> None:
    found = await placed(tmp_path, path=path)
    assert not found.in_diff and "\x1b" not in found.path and found.start_line >= 1


@each_row(
    ("given", "kept", "in_diff"),
    [
        ((3, 3), (3, 3), True), ((1, 3), (1, 3), True), ((0, 0), (1, 1), False), ((90, 99), (3, 3), False),
        ((3, 1), (3, 3), False), ((-5, 2), (1, 2), False), ((2, 10**30), (2, 3), False),
    ],
)  # fmt: skip
async def test_lines_that_do_not_exist(
    tmp_path: Path, given: tuple[int, int], kept: tuple[int, int], in_diff: bool
) -> None:
    found = await placed(tmp_path, start_line=given[0], end_line=given[1])
    assert ((found.start_line, found.end_line), found.in_diff) == (kept, in_diff)


async def test_a_removed_line(tmp_path: Path) -> None:
    found = await placed(tmp_path, side="LEFT", start_line=2, end_line=3)
    assert (found.side, found.in_diff) == ("LEFT", True)


async def test_numbers_and_texts_are_bounded(tmp_path: Path) -> None:
    found = await placed(
        tmp_path, title="a\nb \x1b[31mred " + "x" * 500, body="y" * 9000, priority=7, confidence=float("nan"),
        rule="Not A Slug", evidence=[{"kind": "code", "text": "z" * 9000}] * 9,
    )  # fmt: skip
    assert found.title.startswith("a b red x") and len(found.title) == 120
    assert (len(found.body), found.priority, found.confidence, found.rule) == (4000, 3, 0.0, "general")
    assert len(found.evidence) == 5 and len(found.evidence[0].text) == 2000


LINE = "    return 1 / x"


@each_row(
    ("original", "replacement", "offered"),
    [
        (LINE, "    return 1 / x if x else 0", "    return 1 / x if x else 0"),
        (
            f"{LINE}  \n",
            "    if not x:\n        return 0\n    return 1 / x\n",
            "    if not x:\n        return 0\n" + LINE,
        ),
        ("    return x", "    return 1", None),
        (LINE, "    return (", None),
        (LINE, LINE, None),
        (LINE, "    return '\u202e'", None),
        (LINE, "    return '[masked: API_KEY]'", None),
        (LINE, "    return '\x1b[2J'", None),
    ],
)
async def test_a_suggestion_is_offered_only_if_it_fits(
    tmp_path: Path, original: str, replacement: str, offered: str | None
) -> None:
    found = await placed(tmp_path, suggestion={"original": original, "replacement": replacement})
    assert found.suggestion == (None if offered is None else Suggestion(offered))


async def test_a_suggestion_for_another_language_need_not_be_python(tmp_path: Path) -> None:
    given = {"original": "two", "replacement": "three ("}
    found = await placed(tmp_path, path="a.txt", start_line=1, end_line=1, suggestion=given)
    assert found.suggestion == Suggestion("three (")


def test_relative_paths() -> None:
    assert is_relative("a/b.py") and is_relative("..a/b") and is_relative("a/../b")
    assert not any(map(is_relative, ("", ".", "..", "../a", "a/../../b", "/a", "c:/a", "a\nb", "a\x07")))
