"""Which files a yes to a command line is bound to."""

from pathlib import Path

import pytest

from agent_cli.fs.named_files import named_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("hooks/guard.sh", "hooks/sub/deep.sh", "pkg/__main__.py", "src/lib/server.py", "with space.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("exit 0\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("hooks/sub")
    (tmp_path / "alias.sh").symlink_to("hooks/guard.sh")
    return tmp_path


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("hooks/guard.sh", "hooks/guard.sh"),
        ("hooks/guard.sh;", "hooks/guard.sh"),
        ("sh hooks/guard.sh; true", "hooks/guard.sh"),
        ("--hook=hooks/guard.sh", "hooks/guard.sh"),
        ("<hooks/guard.sh", "hooks/guard.sh"),
        ("$(git rev-parse --show-toplevel)/hooks/guard.sh", "hooks/guard.sh"),
        ("$PWD/hooks/guard.sh", "hooks/guard.sh"),
        ("${CLAUDE_PROJECT_DIR:-.}/hooks/guard.sh", "hooks/guard.sh"),
        ("`pwd`/hooks/guard.sh", "hooks/guard.sh"),
        ("cd hooks && ./guard.sh", "hooks/guard.sh"),
        ("cd hooks && sh sub/deep.sh", "hooks/sub/deep.sh"),
        ("link/../guard.sh", "hooks/guard.sh"),
        ("alias.sh", "hooks/guard.sh"),
        ("python3 -m pkg", "pkg/__main__.py"),
        ("python3 -m lib.server", "src/lib/server.py"),
        ("with space.sh", "with space.sh"),
    ],
)
def test_a_file_is_found_however_a_command_names_it(root: Path, word: str, name: str) -> None:
    before = named_files([word], root)
    assert list(before) == [name]
    (root / name).write_text("exit 1\n", encoding="utf-8")
    assert named_files([word], root) != before


def test_a_folder_may_be_a_word_of_its_own(root: Path) -> None:
    assert list(named_files(["uv", "--directory", str(root / "hooks"), "run", "guard.sh"], root)) == [
        "hooks/guard.sh"
    ]
    assert list(named_files(["sub/deep.sh"], root, root / "hooks")) == ["hooks/sub/deep.sh"]


def test_what_names_no_file_of_the_folder_binds_nothing(root: Path) -> None:
    assert named_files(["/etc/passwd", "..", ".", "", "hooks", "~", "$HOME"], root) == {}
    assert named_files(["guard.sh"], root) == {}
