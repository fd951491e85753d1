"""Programs that the agent itself runs come from nowhere that commands write to."""

from pathlib import Path

from agent_cli.fs.which import outside, program


def put(folder: Path, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "git").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "git").chmod(mode)
    return folder


def test_the_first_folder_outside_every_root_counts(tmp_path: Path) -> None:
    inside, extra, plain, good = (
        put(tmp_path / name) for name in ("work/.venv/bin", "extra/bin", "plain", "good")
    )
    put(plain, 0o644)
    (tmp_path / "link").symlink_to(inside)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "git").symlink_to(inside / "git")
    folders = (inside, extra, tmp_path / "link", linked, plain, good)
    search_path = ":".join(("", ".", "relative/bin", *map(str, folders)))
    roots = (tmp_path / "work", tmp_path / "extra")
    assert program("git", search_path, roots) == str(good / "git")
    assert outside(search_path, roots) == (str(linked), str(plain), str(good))
    assert program("git", f"{inside}:.", roots) is None and program("git", "", ()) is None
    assert program("git", search_path) == str(inside / "git")


def test_a_root_whose_name_begins_another_does_not_hold_it(tmp_path: Path) -> None:
    good = put(tmp_path / "work-tools")
    assert program("git", str(good), (tmp_path / "work",)) == str(good / "git")
