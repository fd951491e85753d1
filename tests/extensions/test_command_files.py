"""Markdown files that stand for prompts: names, heads, and what is not to be read."""

import os
from pathlib import Path

from agent_cli.extensions.command_files import CommandFile, command_files
from agent_cli.extensions.places import Place
from tests.rows import each_row


def put(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


def read(folder: Path, *, follows_links: bool = False) -> dict[str, CommandFile]:
    """By name, or by path where a file has none."""
    place = Place(folder.resolve(), "agent", "user" if follows_links else "project")
    return {file.name or file.path: file for file in command_files(place)}


def test_a_file_is_a_command_and_folders_are_before_its_name(tmp_path: Path) -> None:
    put(tmp_path, "fix.md", "Fix it.\n")
    put(tmp_path, "git/Commit-All.md", "Commit.")
    put(tmp_path, "git/deep/er/x.md", "X.")
    put(tmp_path, "prüfen.md", "Prüfe.")
    put(tmp_path, "speckit.plan.md", "Plan.")
    put(tmp_path, "1st.md", "First.")
    put(tmp_path, "gsd/01-plan.md", "Plan.")
    put(tmp_path, "notes.txt", "no")
    put(tmp_path, ".hidden.md", "no")
    assert list(read(tmp_path)) == [
        "1st", "fix", "prüfen", "speckit.plan", "git:commit-all", "gsd:01-plan", "git:deep:er:x",
    ]  # fmt: skip
    assert read(tmp_path / "missing") == {}


def test_the_head_describes_it_and_is_not_sent(tmp_path: Path) -> None:
    put(
        tmp_path,
        "a.md",
        "---\ndescription: Reviews a change\nargument-hint: '[pr] [focus]'\nallowed-tools: Bash\n---\n\nReview $1.\n",
    )
    put(tmp_path, "b.md", "# Tidy up\n\nAll of it.\n---\nx: y\n---\n")
    put(tmp_path, "c.md", "---\nargument-hint: [file] [line]\ndescription: not: YAML\n---\r\nText\r\nmore")
    put(tmp_path, "d.md", "---\nargument-hint: [file]\n---\nText")
    put(tmp_path, "e.md", b"\xef\xbb\xbf---\ndescription: >\n  two\n  lines\n---\nText")
    put(tmp_path, "f.md", "---\nnever closed\n")
    found = {name: (file.text, file.description, file.hint) for name, file in read(tmp_path).items()}
    assert found == {
        "a": ("Review $1.", "Reviews a change", "[pr] [focus]"),
        "b": ("# Tidy up\n\nAll of it.\n---\nx: y\n---", "Tidy up", ""),
        "c": ("Text\nmore", "not: YAML", "[file] [line]"),
        "d": ("Text", "Text", "[file]"),
        "e": ("Text", "two lines", ""),
        "f": ("---\nnever closed", "never closed", ""),
    }


@each_row(
    ("name", "data", "problem"),
    [
        ("review..md", "x", "its name has more than letters"),
        ("a b.md", "x", "its name has more than letters"),
        ("\u202ex.md", "x", "its name has more than letters"),
        ("1.md", "x", "its name has more than letters"),
        ("n" * 80 + ".md", "x", "its name has more than letters"),
        ("big.md", "x" * 100_001, "larger than 100,000 bytes"),
        ("latin.md", b"caf\xe9", "not UTF-8 text (byte 3)"),
        ("empty.md", "---\ndescription: x\n---\n \n", "no text"),
        ("head.md", "---\n" + "# x\n" * 5_000 + "---\nText", "its front matter is longer than 16,000"),
        ("bomb.md", "---\n" + "".join(f"{c}: &{c} [*{c}]\n" for c in "ab") + "---\n", "no text"),
    ],
)
def test_what_cannot_be_used_says_why(tmp_path: Path, name: str, data: str | bytes, problem: str) -> None:
    put(tmp_path, name, data)
    (file,) = read(tmp_path).values()
    assert problem in file.problem and file.text == ""


def test_links_count_only_in_a_folder_of_the_users_own(tmp_path: Path) -> None:
    secret = put(tmp_path / "home", "secret.md", "secret")
    folder = tmp_path / "commands"
    put(folder, "real.md", "real")
    (folder / "stolen.md").symlink_to(secret)
    (folder / "all").symlink_to(secret.parent)
    (folder / "loop").symlink_to(folder)
    (tmp_path / "whole").symlink_to(folder)
    mine = read(folder, follows_links=True)
    assert mine["stolen"].text == "secret" and mine["all:secret"].text == "secret"
    strangers = read(folder)
    assert strangers["stolen"].problem == "it is a link" and set(strangers) == {"real", "stolen"}
    assert list(command_files(Place(tmp_path / "whole", "agent", "project"))) == []


def test_pipes_and_endless_trees_hold_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    put(tmp_path, "/".join("abcdefg") + "/deep.md", "x")
    (file,) = read(tmp_path).values()
    assert "cannot be read" in file.problem


def test_there_is_an_end_to_how_many_are_read(tmp_path: Path) -> None:
    for number in range(205):
        put(tmp_path, f"c{number:03}.md", "x")
    found = list(command_files(Place(tmp_path.resolve(), "agent", "project")))
    assert len(found) == 201 and "more than 200" in found[-1].problem


def test_each_product_has_its_own_form(tmp_path: Path) -> None:
    put(tmp_path, "claude/front/test.md", "---\nallowed-tools: Bash(git add:*), Read\nmodel: x\n---\nTest $0.")
    put(tmp_path, "gemini/git/fix.toml", 'description = "Fixes"\nprompt = """\nFix {{args}}.\n"""\n')
    put(tmp_path, "gemini/git/broken.toml", "prompt = ")
    put(tmp_path, "gemini/none.toml", "description = 'x'")
    put(tmp_path, "gemini/ignored.md", "x")
    (claude,) = command_files(Place(tmp_path / "claude", "claude", "user"))
    assert (claude.name, claude.allowed, claude.unused) == ("front:test", ("Bash(git add:*)", "Read"), ("model",))
    none, broken, fix = command_files(Place(tmp_path / "gemini", "gemini", "user"))
    assert (fix.name, fix.text, fix.description) == ("git:fix", "Fix {{args}}.", "Fixes")
    assert "not valid TOML" in broken.problem and "no `prompt`" in none.problem
