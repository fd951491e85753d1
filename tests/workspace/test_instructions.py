"""The chain of instruction files."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.workspace.instructions import (
    MAX_BYTES,
    MAX_CHAIN_BYTES,
    Instruction,
    InstructionFiles,
)
from tests.costs import assert_linear
from tests.fuzz import tries
from tests.rows import each_row


def told(found: tuple[Instruction, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((each.path, each.text) for each in found)


def written(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def text_of(root: Path, config: Path | None = None) -> str:
    """The text of the last file of the chain."""
    return InstructionFiles(root, config_dir=config).read()[-1].text


def test_the_chain_goes_from_the_users_file_over_the_repository_down(tmp_path: Path) -> None:
    deep = tmp_path / "repo" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "config").mkdir()
    places = [tmp_path / "config" / "AGENTS.md", tmp_path / "repo" / "CLAUDE.md", deep / "AGENTS.md"]
    for path in (*places, tmp_path / "AGENTS.md", deep / "GEMINI.md"):
        path.write_text(f"\ufeffin {path.parent.name}\r\n", encoding="utf-8")
    found = InstructionFiles(deep, config_dir=tmp_path / "config").read()
    assert told(found) == tuple((str(path), f"in {path.parent.name}") for path in places)
    assert [each.source for each in found] == ["user:AGENTS.md", "../../CLAUDE.md", "AGENTS.md"]
    assert told(InstructionFiles(deep, names=("GEMINI.md",)).read()) == ((str(deep / "GEMINI.md"), "in b"),)


def test_a_deeper_file_applies_once_a_file_beside_it_was_used(tmp_path: Path) -> None:
    deeper = ("a/AGENTS.md", "a/b/CLAUDE.md", "c/AGENTS.md", "node_modules/x/AGENTS.md", "own/AGENTS.md")
    written(
        tmp_path, {**{name: f"in {name}" for name in deeper}, "AGENTS.md": "top", ".gitignore": "node_modules"}
    )
    git(tmp_path, "init", "-q")
    git(tmp_path / "own", "init", "-q")
    git(tmp_path, "add", "AGENTS.md", "a", "c")
    used: list[str] = []
    files = InstructionFiles(tmp_path, used=lambda: used)
    assert [each.source for each in files.read()] == ["AGENTS.md"] and files.come_near() == ()
    used += [str(tmp_path / name) for name in ("a/b/new.py", "node_modules/x/i.js", "own/x", "top.py")]
    assert files.come_near() == ("a", "a/b") and files.come_near() == ()
    assert [each.source for each in files.read()] == ["AGENTS.md", "a/AGENTS.md", "a/b/CLAUDE.md"]
    (tmp_path / "a" / "AGENTS.md").write_text("other", encoding="utf-8")
    used += ["/elsewhere/c/x.py", str(tmp_path.parent / "x")]
    assert files.come_near() == () and files.read()[1].text == "other"
    assert len(InstructionFiles(tmp_path / "a", used=lambda: used).read()) == 3
    assert len(InstructionFiles(tmp_path, may_read=lambda real: "b/" not in real, used=lambda: used).read()) == 2


def test_an_untracked_file_beside_a_tracked_one_does_not_apply(tmp_path: Path) -> None:
    written(tmp_path, {"AGENTS.md": "top", "a/CLAUDE.md": "tracked", "a/x.py": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    written(tmp_path, {"a/AGENTS.md": "from somewhere else"})
    files = InstructionFiles(tmp_path, used=lambda: [str(tmp_path / "a/x.py")])
    assert [each.text for each in files.read()] == ["top", "tracked"]


def test_instructions_that_git_tracks_later_apply_from_the_next_look_on(tmp_path: Path) -> None:
    written(tmp_path, {"a/x.py": "", "a/b/y.py": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    files = InstructionFiles(tmp_path, used=lambda: [str(tmp_path / "a/b/y.py")])
    assert files.read() == ()
    written(tmp_path, {"a/AGENTS.md": "pulled"})
    assert files.read() == ()
    git(tmp_path, "add", ".")
    assert [each.text for each in files.read()] == ["pulled"]


def test_only_instructions_that_apply_are_said_to(tmp_path: Path) -> None:
    written(
        tmp_path, {"a/AGENTS.md": "closed", "b/AGENTS.md": " \n", "c/AGENTS.md": "read", "a/.agentignore": "*.md"}
    )
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    used: list[str] = []
    files = InstructionFiles(tmp_path, used=lambda: used)
    assert files.read() == ()
    used += [str(tmp_path / name / "x.py") for name in "abc"]
    assert files.come_near() == ("c",) and [each.text for each in files.read()] == ["read"]


def test_without_a_repository_no_deeper_file_applies(tmp_path: Path) -> None:
    written(tmp_path, {"a/AGENTS.md": "deeper", "a/x.py": ""})
    assert InstructionFiles(tmp_path, used=lambda: [str(tmp_path / "a" / "x.py")]).read() == ()


def test_without_a_repository_only_the_working_directory_counts(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "AGENTS.md").write_text("outer", encoding="utf-8")
    assert InstructionFiles(inner).read() == ()


def test_the_summary_names_what_is_read_and_what_lies_beside_it_unread(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    written(
        root,
        {".git/HEAD": "", "AGENTS.md": "a", "CLAUDE.md": "b", "sub/CLAUDE.md": "c", "config/AGENTS.md": "own"},
    )
    files = InstructionFiles(root / "sub", config_dir=root / "config")
    assert files.summary() == "../AGENTS.md (CLAUDE.md beside it is not read), CLAUDE.md"
    written(root, {"AGENTS.md": "a\n@CLAUDE.md\n"})
    os.utime(root / "AGENTS.md", ns=(1, 1))
    assert InstructionFiles(root / "sub").summary() == "../AGENTS.md, CLAUDE.md"
    assert InstructionFiles(root / "config").summary().startswith("../AGENTS.md")


def test_the_summary_names_the_files_that_are_too_long(tmp_path: Path) -> None:
    config, project = tmp_path / "config", tmp_path / "project"
    written(config, {"AGENTS.md": "x" * (MAX_BYTES + 1)})
    written(project, {"AGENTS.md": "Short.\n@more.md", "more.md": "y" * MAX_BYTES})
    limits = " (cut: the limits are 32 KB for a file, 64 KB in all)"

    def summary() -> str:
        return InstructionFiles(project, config_dir=config).summary()

    assert summary() == f"user:AGENTS.md{limits}, AGENTS.md"
    written(config, {"AGENTS.md": "x"})
    assert summary() == "AGENTS.md"
    written(project, {"more.md": "y" * (MAX_BYTES + 1)})
    assert summary() == f"AGENTS.md{limits}"


def test_a_large_file_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("é" * MAX_BYTES, encoding="utf-8")
    ((_, text),) = told(InstructionFiles(tmp_path).read())
    assert text.startswith("é" * 10) and text.endswith("[cut: only the first 32 KB of AGENTS.md are shown]")
    assert "\ufffd" not in text and len(text.encode()) < MAX_BYTES + 100


def test_what_cannot_be_read_or_is_empty_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").mkdir()
    os.mkfifo(tmp_path / "CLAUDE.md")
    (tmp_path / "GEMINI.md").write_text("\n", encoding="utf-8")
    assert InstructionFiles(tmp_path).read() == ()


def test_a_link_counts_when_it_leads_to_another_text_of_the_project(tmp_path: Path) -> None:
    root, config = tmp_path / "repo", tmp_path / "config"
    (root / "docs").mkdir(parents=True)
    config.mkdir()
    (root / ".git").mkdir()
    (root / "docs" / "rules.md").write_text("be kind", encoding="utf-8")
    (root / ".env").write_text("TOKEN=secret", encoding="utf-8")
    (tmp_path / "private.md").write_text("secret", encoding="utf-8")
    for target in (tmp_path / "private.md", Path(".env"), Path("/dev/zero"), Path("AGENTS.md")):
        (root / "AGENTS.md").symlink_to(target)
        assert InstructionFiles(root).read() == (), target
        (root / "AGENTS.md").unlink()
    (root / "AGENTS.md").symlink_to("docs/rules.md")
    (config / "AGENTS.md").symlink_to(tmp_path / "private.md")
    assert [text for _, text in told(InstructionFiles(root / "docs", config_dir=config).read())] == [
        "secret",
        "be kind",
    ]


def test_a_named_text_stands_where_it_is_named_and_says_where_it_came_from(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "AGENTS.md": 'first\n- @docs/style.md\nSee @"my rules.txt", then ask.\nlast',
            "docs/style.md": "be brief\n@naming.md\n",
            "docs/naming.md": "nouns",
            "my rules.txt": "rule",
        },
    )
    assert text_of(tmp_path) == (
        "first\n[from docs/style.md]\nbe brief\n[from naming.md]\nnouns\n[end of naming.md]\n[end of docs/style.md]\n"
        'See @"my rules.txt", then ask.\n[from my rules.txt]\nrule\n[end of my rules.txt]\nlast'
    )


def test_code_addresses_and_names_that_are_no_texts_are_left_alone(tmp_path: Path) -> None:
    text = (
        "mail me@x.md, ask @someone about @types/node and @property.\n`@x.md` ``a ` @x.md``\n"
        "```md\n@x.md\n~~~\n@x.md\n```\n  ~~~~\n@x.md\n~~~\n@x.md\n~~~~"
    )
    written(tmp_path, {"AGENTS.md": text, "x.md": "imported"})
    assert text_of(tmp_path) == text
    written(tmp_path, {"AGENTS.md": text + "\n@x.md"})
    assert text_of(tmp_path) == f"{text}\n[from x.md]\nimported\n[end of x.md]"


def test_what_is_not_imported_is_said_in_its_place(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    written(root, {f"{n}.md": f"@{n + 1}.md" for n in range(8)})
    written(root, {".git/HEAD": "", ".env": "TOKEN", "shut/a.md": "closed", ".agentignore": "shut/"})
    written(tmp_path, {"private.md": "private"})
    (root / "link.md").symlink_to(".env")
    (root / "out.md").symlink_to(tmp_path / "private.md")
    (root / "folder.md").mkdir()
    names = "missing ../private out link shut/a folder ../none AGENTS".split()
    written(
        root, {"AGENTS.md": "".join(f"@{name}.md\n" for name in names) + f"@{tmp_path}/private.md\n@~/x.md\n@0.md"}
    )
    text = text_of(root)
    for name, why in {
        "missing.md": "there is no such file",
        "../private.md": "it is outside the folder it may come from",
        "../none.md": "it is outside the folder it may come from",
        f"{tmp_path}/private.md": "it is outside the folder it may come from",
        "out.md": "it is outside the folder it may come from",
        "link.md": "it leads to a file of another kind",
        "shut/a.md": "it is closed to the agent",
        "folder.md": "it cannot be read",
        "AGENTS.md": "it is given already",
        "~/x.md": "~/ is for the user's own instructions",
        "5.md": "imports go no deeper than 5 files",
    }.items():
        assert f"[{name} is not imported: {why}" in text, name
    assert "private\n" not in text and "closed\n" not in text and "TOKEN" not in text
    assert "[from 4.md]" in text and "[from 5.md]" not in text


def test_files_that_name_each_other_are_given_once(tmp_path: Path) -> None:
    written(tmp_path, {"AGENTS.md": "@a.md\n@b.md", "a.md": "A @b.md", "b.md": "B @a.md @AGENTS.md"})
    text = text_of(tmp_path)
    assert text.count("[from a.md]") == text.count("[from b.md]") == 1
    assert text.count("it is given already") == 3


def test_the_users_file_may_name_what_lies_beside_it_and_in_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, config = tmp_path / "home", tmp_path / "config"
    monkeypatch.setenv("HOME", str(home))
    written(home, {"notes/mine.md": "mine @more.md", "notes/more.md": "more", "notes/x.md": "x"})
    written(config, {"AGENTS.md": "@beside.md\n@~/notes/mine.md\n@~/../out.md", "beside.md": "beside"})
    written(tmp_path, {"out.md": "out"})
    text = InstructionFiles(tmp_path / "home", config_dir=config).read()[0].text
    assert "beside\n" in text and "mine @more.md\n" in text and "[from more.md]" in text
    assert "[~/../out.md is not imported: it is outside the home directory]" in text


def test_a_file_that_a_rule_closes_is_neither_given_nor_imported(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    written(root, {".git/HEAD": "", "AGENTS.md": "@a.md @b.md", "a.md": "A", "b.md": "B", "sub/AGENTS.md": "sub"})
    closed = {str(root / "a.md"), str(root / "sub" / "AGENTS.md")}
    found = InstructionFiles(root / "sub", may_read=lambda real: real not in closed).read()
    assert len(found) == 1 and "[from b.md]\nB" in found[0].text
    assert "[a.md is not imported: it is closed to the agent]" in found[0].text


def test_all_instructions_together_are_bounded_and_the_nearest_is_kept_whole(tmp_path: Path) -> None:
    names = [f"{n}.md" for n in range(300)]
    written(tmp_path, {".git/HEAD": "", "AGENTS.md": "@" + " @".join(names), **dict.fromkeys(names, "x" * 2_000)})
    written(tmp_path / "sub", {"AGENTS.md": "near " * 4_000})
    above, near = InstructionFiles(tmp_path / "sub").read()
    assert near.text == ("near " * 4_000).strip()
    assert "[cut: only the first" in above.text
    assert len(above.text.encode()) + len(near.text.encode()) < MAX_CHAIN_BYTES + 200
    assert (
        "the instructions have 64 KB without it" in InstructionFiles(tmp_path).read()[0].text
        or "[cut:" in above.text
    )
    assert len(InstructionFiles(tmp_path).read()[0].text.encode()) < MAX_CHAIN_BYTES + 200


def test_an_unchanged_chain_is_not_read_again_and_every_change_is_seen(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    written(root, {"AGENTS.md": "one @a.md", "a.md": "A", "sub/AGENTS.md": "sub"})
    for path in root.rglob("*.md"):
        os.utime(path, ns=(1, 1))
    chain = InstructionFiles(root / "sub", config_dir=tmp_path / "config")
    first = chain.read()
    assert [each.text for each in first] == ["sub"] and chain.read() is first
    (root / ".git").mkdir()
    assert len(chain.read()) == 2
    hashes = {chain.read()[0].hash}
    for name, text in {"a.md": "B", "AGENTS.md": "two @a.md @b.md", "b.md": "new"}.items():
        (root / name).write_text(text, encoding="utf-8")
        hashes.add(chain.read()[0].hash)
        assert text in chain.read()[0].text
    assert len(hashes) == 4
    (root / "b.md").unlink()
    assert "[b.md is not imported: there is no such file]" in chain.read()[0].text
    written(tmp_path, {"config/AGENTS.md": "own"})
    assert chain.read()[0].text == "own"
    (root / "AGENTS.md").unlink()
    assert [each.source for each in chain.read()] == ["user:AGENTS.md", "AGENTS.md"]


def test_an_unchanged_chain_is_not_read_again(tmp_path: Path) -> None:
    names = [f"{n}.md" for n in range(20)]
    written(tmp_path, {".git/HEAD": "", "a/b/c/AGENTS.md": "c", "AGENTS.md": "@" + "\n@".join(names)})
    written(tmp_path, dict.fromkeys(names, "x" * 2_000))
    for path in tmp_path.rglob("*.md"):
        os.utime(path, ns=(1, 1))
    chain = InstructionFiles(tmp_path / "a" / "b" / "c", config_dir=tmp_path / "config")
    first = chain.read()
    assert chain.read() is first


@each_row(
    ("piece", "end", "times"),
    [(" ", "x@", 4_000), ("`", "@", 4_000), ("` `` ", "@", 750), ("@", "", 4_000), ('@"', "", 2_000), ("> ", "@", 2_000),
     ("1", ". @", 4_000), ("@a.md", "", 750), ("".join("`" * n + " " for n in range(1, 80)), "@", 1)],
)  # fmt: skip
def test_a_hostile_line_costs_no_more_than_its_length(tmp_path: Path, piece: str, end: str, times: int) -> None:
    def read(count: int) -> None:
        (tmp_path / "AGENTS.md").write_text(piece * count + end, encoding="utf-8")
        assert InstructionFiles(tmp_path).read()

    assert_linear(read, times)


@settings(max_examples=tries(80), deadline=None)
@given(st.lists(st.sampled_from(
    ["@a.md", "@b.md", "@sub/c.md", "@AGENTS.md", "@../x.md", "@none.md", "@~/y.md", " ", "\n", "`", "```", "~~~~",
     "- ", '@"a.md"', "@\0.md", "é", "\ud800", ".", "text"]
), max_size=25), st.integers(0, 2))  # fmt: skip
def test_whatever_is_written_the_text_stays_and_each_file_is_given_at_most_once(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], which: int
) -> None:
    root = tmp_path_factory.mktemp("r")
    written(root, {"a.md": "AAA @b.md", "b.md": "BBB", "sub/c.md": "CCC @../a.md", "AGENTS.md": "start"})
    text = "".join(parts).encode("utf-8", "replace").decode()
    target = root / ("AGENTS.md", "a.md", "sub/c.md")[which]
    target.write_text(text, encoding="utf-8")
    if which:
        written(root, {"AGENTS.md": "@a.md @sub/c.md"})
    found = text_of(root) if (root / "AGENTS.md").read_text(encoding="utf-8").strip() else ""
    for name in ("a.md", "b.md", "sub/c.md"):
        assert found.count(f"[from {name}]") <= 1
    for line in text.strip().split("\n"):
        assert which or "@" in line or line in found
