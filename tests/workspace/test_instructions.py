"""The chain of instruction files."""

import os
from pathlib import Path

from agent_cli.workspace.instructions import MAX_BYTES, instructions


def test_the_chain_goes_from_the_users_file_over_the_repository_down(tmp_path: Path) -> None:
    deep = tmp_path / "repo" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "config").mkdir()
    places = [tmp_path / "config" / "AGENTS.md", tmp_path / "repo" / "CLAUDE.md", deep / "AGENTS.md"]
    for path in (*places, tmp_path / "AGENTS.md", deep / "GEMINI.md"):
        path.write_text(f"\ufeffin {path.parent.name}\r\n", encoding="utf-8")
    found = instructions(deep, config_dir=tmp_path / "config")
    assert found == tuple((str(path), f"in {path.parent.name}") for path in places)
    assert instructions(deep, names=("GEMINI.md",)) == ((str(deep / "GEMINI.md"), "in b"),)


def test_without_a_repository_only_the_working_directory_counts(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "AGENTS.md").write_text("outer", encoding="utf-8")
    assert instructions(inner) == ()


def test_a_large_file_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("é" * MAX_BYTES, encoding="utf-8")
    ((_, text),) = instructions(tmp_path)
    assert text.startswith("é" * 10) and text.endswith("[cut: only the first 32 KB of AGENTS.md are shown]")
    assert "\ufffd" not in text and len(text.encode()) < MAX_BYTES + 100


def test_what_cannot_be_read_or_is_empty_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").mkdir()
    os.mkfifo(tmp_path / "CLAUDE.md")
    (tmp_path / "GEMINI.md").write_text("\n", encoding="utf-8")
    assert instructions(tmp_path) == ()


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
        assert instructions(root) == (), target
        (root / "AGENTS.md").unlink()
    (root / "AGENTS.md").symlink_to("docs/rules.md")
    (config / "AGENTS.md").symlink_to(tmp_path / "private.md")
    assert [text for _, text in instructions(root / "docs", config_dir=config)] == ["secret", "be kind"]
