"""`agent skills check`: the rules of the format, each with its line."""

from pathlib import Path

from agent_cli.extensions.skills.check import check_skill, skill_files
from tests.rows import each_row


def check(folder: Path, text: str) -> list[tuple[int | None, str]]:
    folder.mkdir(exist_ok=True)
    file = folder / "SKILL.md"
    file.write_text(text)
    return [(each.line, each.problem) for each in check_skill(file)]


def test_a_skill_that_keeps_to_the_format(tmp_path: Path) -> None:
    text = (
        "---\nname: fix-it\ndescription: Fixes it.\nlicense: MIT\ncompatibility: any\n"
        'metadata: {a: "1"}\nallowed-tools: Read Bash(git:*)\n---\nBody\n'
    )
    assert check(tmp_path / "fix-it", text) == []
    assert check(tmp_path / "größe-1", "---\nname: größe-1\ndescription: x\n---\n") == []


@each_row(
    ("head", "found"),
    [
        ("name: a", [(None, "description is missing")]),
        ("description: x", [(None, "name is missing")]),
        ("name: a\ndescription: ''", [(3, "description is empty")]),
        (f"name: a\ndescription: {'x' * 1025}", [(3, "description has 1,025 characters; 1,024 are allowed")]),
        ("name: a\ndescription: x\nhooks: 1", [(4, "hooks is not a field of the format")]),
        ("name: a\ndescription: [x]", [(3, "description must be a text")]),
        ("name: a\ndescription: x\nmetadata: {a: 1}", [(4, "metadata must map names to texts")]),
        ("name: a\ndescription: x\nallowed-tools: [Read]", [(4, "allowed-tools must be a text")]),
        (f"name: a\ndescription: x\ncompatibility: {'x' * 501}", [(4, "compatibility has 501 characters")]),
        ("name: A\ndescription: x", [(2, "the name A must be in small"), (2, "the name A must be that of")]),
        ("name: b\ndescription: x", [(2, "the name b must be that of its folder, a")]),
        ("name: -a\ndescription: x", [(2, "the name -a may not begin"), (2, "the name -a must be that of")]),
        ("name: a--b\ndescription: x", [(2, "the name a--b may not hold two"), (2, "the name a--b must be that")]),
        ("name: a_b\ndescription: x", [(2, "the name a_b may hold letters"), (2, "the name a_b must be that")]),
        ("name: a\nname: b\ndescription: x", [(3, "")]),
        ("name: a\ndescription: x: y", [(3, "not valid YAML")]),
        ("- a", [(2, "the front matter holds no keys")]),
    ],
)
def test_each_violation_has_its_line(tmp_path: Path, head: str, found: list[tuple[int | None, str]]) -> None:
    seen = check(tmp_path / "a", f"---\n{head}\n---\nBody\n")
    assert [line for line, _ in seen] == [line for line, _ in found], seen
    assert all(said.startswith(begun) for (_, said), (_, begun) in zip(seen, found, strict=True)), seen


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert check(tmp_path / "a", "Just text")[0][1].startswith("has no front matter")
    assert "byte order mark" in check(tmp_path / "a", "\ufeff---\nname: a\n---\n")[0][1]
    (tmp_path / "a/SKILL.md").write_bytes(b"\xff")
    assert "not UTF-8" in check_skill(tmp_path / "a/SKILL.md")[0].problem
    assert "cannot be read" in check_skill(tmp_path / "none/SKILL.md")[0].problem


def test_skills_at_a_path(tmp_path: Path) -> None:
    for name in ("b", "a/c"):
        check(tmp_path / "top", "x")
        (tmp_path / "set" / name).mkdir(parents=True)
        (tmp_path / "set" / name / "SKILL.md").write_text("x")
    assert skill_files(tmp_path / "top") == [tmp_path / "top/SKILL.md"]
    assert skill_files(tmp_path / "top/SKILL.md") == [tmp_path / "top/SKILL.md"]
    assert skill_files(tmp_path / "set") == [tmp_path / "set/a/c/SKILL.md", tmp_path / "set/b/SKILL.md"]
