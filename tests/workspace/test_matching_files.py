"""What is closed to commands is found wherever it stands, under whatever name, and as soon as it is there."""

import asyncio
import os
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from agent_cli.workspace.agentignore import AgentIgnore
from agent_cli.workspace.folder_view import current_view, read_once
from agent_cli.workspace.matching_files import FolderReader, MatchingFiles
from tests.fs.ordinary import ordinary_user


def closed_env(path: str) -> bool:
    return os.path.basename(path) in (".env", "keys")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for folder in ("a/b/c", "node_modules/x", "keys", ".git"):
        (root / folder).mkdir(parents=True)
    for file in (
        ".env",
        "a/b/c/.env",
        "a/open",
        "node_modules/.env",
        "node_modules/x/.env",
        "keys/inner",
        ".git/.env",
    ):
        (root / file).write_text(file, encoding="utf-8")
    return root


def names(found: tuple[str, ...], root: Path) -> list[str]:
    return [os.path.relpath(path, root) for path in found]


def test_everything_closed_is_found_but_what_lies_deep_in_what_tools_made(root: Path) -> None:
    found = names(MatchingFiles([root], closed_env).paths(), root)
    assert found == [".env", ".git/.env", "a/b/c/.env", "keys", "node_modules/.env"]


def test_what_comes_goes_and_moves_is_seen_at_once(root: Path) -> None:
    files = MatchingFiles([root], closed_env)
    files.paths()
    (root / "a" / ".env").write_text("", encoding="utf-8")
    (root / ".env").unlink()
    (root / "a" / "b").rename(root / "moved")
    assert names(files.paths(), root) == [".git/.env", "a/.env", "keys", "moved/c/.env", "node_modules/.env"]


@pytest.mark.parametrize("mode", [0o311, 0o600, 0o444, 0o000])
def test_a_folder_that_only_commands_can_look_into_is_closed_as_a_whole(mode: int) -> None:
    with ordinary_user() as root:
        for folder in ("a/b", "c"):
            (root / folder).mkdir(parents=True)
            (root / folder / ".env").write_text("", encoding="utf-8")
        files = MatchingFiles([root], closed_env, unseen=True)
        assert names(files.paths(), root) == ["a/b/.env", "c/.env"]
        (root / "a").chmod(mode)
        assert names(files.paths(), root) == ["a", "c/.env"]
        assert names(MatchingFiles([root], closed_env).paths(), root) == ["c/.env"]
        (root / "a").chmod(0o755)
        assert names(files.paths(), root) == ["a/b/.env", "c/.env"]


@pytest.mark.parametrize(("name", "levels"), [("d", 200), ("d" * 250, 20)])
def test_what_is_too_deep_for_a_mount_is_closed_with_the_folders_around_it(
    tmp_path: Path, name: str, levels: int
) -> None:
    """Files behind paths that are too long to be named can be reached step by step."""
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        at, above = os.open(name, os.O_RDONLY, dir_fd=at), at
        os.close(above)
    os.close(os.open(".env", os.O_CREAT, dir_fd=at))
    os.close(at)
    (found,) = MatchingFiles([tmp_path], closed_env, unseen=True).paths()
    assert os.path.isdir(found) and found.count("/") < 100 and len(found) < 4000
    assert set(names((found,), tmp_path)[0].split("/")) == {name}


def test_a_time_that_was_set_back_hides_no_new_file(root: Path) -> None:
    files = MatchingFiles([root], closed_env)
    files.paths()
    before = os.stat(root / "a")
    time.sleep(0.01)
    (root / "a" / ".env").write_text("", encoding="utf-8")
    os.utime(root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "a/.env" in names(files.paths(), root)


def test_further_names_of_closed_files_are_closed_wherever_the_first_one_is(root: Path, tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "history", tmp_path / "ssh"
    elsewhere.write_text("x", encoding="utf-8")
    folder.mkdir()
    (folder / "id").write_text("x", encoding="utf-8")
    for first, further in (
        (root / ".env", "one"),
        (root / "keys/inner", "two"),
        (elsewhere, "three"),
        (folder / "id", "four"),
    ):
        os.link(first, root / "a" / further)
    os.link(root / "a" / "open", root / "a" / "harmless")
    found = names(MatchingFiles([root], closed_env).paths([str(elsewhere), str(folder)]), root)
    assert {"a/one", "a/two", "a/three", "a/four"} <= set(found) and "a/harmless" not in found


def test_links_are_not_followed_and_new_rules_count_after_forgetting(root: Path, tmp_path: Path) -> None:
    (root / "loop").symlink_to(root)
    (root / "away").symlink_to(tmp_path)
    wanted = {"open"}
    files = MatchingFiles([root], lambda path: os.path.basename(path) in wanted)
    assert names(files.paths(), root) == ["a/open"]
    wanted.clear()
    files.forget()
    assert files.paths() == ()


def test_more_folders_than_are_walked_are_told(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).mkdir()
    for most, is_complete in ((21, True), (20, False)):
        files = MatchingFiles([tmp_path], closed_env, most)
        files.paths()
        assert files.is_complete is is_complete


def test_looking_again_costs_little(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}").mkdir()
        for name in "abcdefgh":
            (tmp_path / f"{number}" / name).touch()
    looked = []
    files = MatchingFiles([tmp_path], lambda path: bool(looked.append(path)))
    files.paths()
    assert len(looked) == 40 * 9
    files.paths()
    assert len(looked) == 40 * 9


@pytest.mark.parametrize("place", ["", "a", "a/b"])
def test_an_access_list_written_or_changed_later_applies_to_folders_that_were_walked(
    root: Path, place: str
) -> None:
    access = AgentIgnore([root])
    files = MatchingFiles([root], lambda path: access.verdict(path) is not None)
    (root / "a/b/c/data").write_text("", encoding="utf-8")
    rules = root / place / ".agentignore"
    assert files.paths() == ()
    rules.write_text("data\n", encoding="utf-8")
    assert names(files.paths(), root) == ["a/b/c/data"]
    rules.write_text("# one\n", encoding="utf-8")
    assert files.paths() == ()
    rules.write_text("data", encoding="utf-8")
    assert names(files.paths(), root) == ["a/b/c/data"]
    rules.unlink()
    assert files.paths() == ()


async def test_a_folder_is_read_once_for_all_who_ask_and_anew_afterwards(root: Path) -> None:
    first, second = MatchingFiles([root], closed_env), MatchingFiles([root], lambda path: path.endswith("/new"))
    woken, again = asyncio.Event(), asyncio.Event()

    async def begun_in_it() -> tuple[tuple[str, ...], tuple[str, ...]]:
        await woken.wait()
        within = second.paths()
        await again.wait()
        return within, second.paths()

    with read_once():
        first.paths()
        task = asyncio.create_task(begun_in_it())
        (root / "a" / "new").touch()
        assert second.paths() == ()
        woken.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    again.set()
    assert await task == ((), (str(root / "a/new"),))
    assert names(second.paths(), root) == ["a/new"]


async def test_a_workspace_is_read_ahead_the_first_time_and_anew_for_the_next_command(root: Path) -> None:
    reader, files = FolderReader([root]), MatchingFiles([root], closed_env)
    async with reader.read_once():
        (root / "a" / ".env").touch()
        assert "a/.env" not in names(files.paths(), root)
    async with reader.read_once():
        assert "a/.env" in names(files.paths(), root)


async def test_whatever_changes_the_answers_are_those_of_a_first_walk(root: Path) -> None:
    """Folders and lists come, go, move and close at random; every other look finds nothing changed."""
    chance, access, reader = random.Random(3), AgentIgnore([root]), FolderReader([root])

    def is_closed(path: str) -> bool:
        return closed_env(path) or access.verdict(path) is not None

    finders = [MatchingFiles([root], is_closed), MatchingFiles([root], is_closed, links=True, unseen=True)]
    for step in range(60):
        folders = [Path(at) for at, _, _ in os.walk(root)]
        place, other, name = (
            chance.choice(folders),
            chance.choice(folders),
            chance.choice([".env", "x", "keys", "y"]),
        )
        with suppress(OSError):
            match chance.randrange(7):
                case 0:
                    (place / name).mkdir()
                case 1:
                    (place / name).touch()
                case 2:
                    there = [at / ".agentignore" for at in folders if (at / ".agentignore").exists()]
                    text = chance.choice(["x\n", "y\n", "/x/y\n"])
                    chance.choice([*there, place / ".agentignore"]).write_text(text, encoding="utf-8")
                case 3:
                    (place / ".agentignore").unlink()
                case 4 if place != root:
                    place.rename(other / f"moved{step}")
                case 5:
                    (place / name).symlink_to(other)
                case 6:
                    os.link(root / ".env", place / f"linked{step}")
        time.sleep(0.01)
        for _ in range(2):
            async with reader.read_once():
                found = [finder.paths() for finder in finders]
            fresh = MatchingFiles([root], is_closed), MatchingFiles([root], is_closed, links=True, unseen=True)
            assert found == [finder.paths() for finder in fresh], step


async def test_an_access_list_that_changes_in_its_place_is_noticed(root: Path) -> None:
    access, reader = AgentIgnore([root]), FolderReader([root])
    files = MatchingFiles([root], lambda path: access.verdict(path) is not None)
    for line, found in (("other\n", []), ("open\n", ["a/open"]), ("#open\n", [])):
        (root / "a" / ".agentignore").write_text(line, encoding="utf-8")
        for _ in range(2):
            async with reader.read_once():
                assert names(files.paths(), root) == found


async def test_another_name_of_a_file_elsewhere_is_found_although_the_workspace_is_unchanged(
    root: Path, tmp_path: Path
) -> None:
    reader, files = FolderReader([root]), MatchingFiles([root], closed_env)
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    os.link(first, root / "a" / "linked")
    for _ in range(2):
        async with reader.read_once():
            assert "a/linked" not in names(files.paths([str(second)]), root)
    os.rename(first, second)
    async with reader.read_once():
        assert "a/linked" in names(files.paths([str(second)]), root)


async def test_a_folder_that_cannot_be_listed_is_no_change_until_it_can() -> None:
    await asyncio.to_thread(int)  # to load what an ordinary user may not reach
    with ordinary_user() as root:
        (root / "a").mkdir()
        (root / "a" / ".env").touch()
        (root / "a").chmod(0)
        reader, files, revisions = FolderReader([root]), MatchingFiles([root], closed_env), []
        for _ in range(2):
            async with reader.read_once():
                assert files.paths() == ()
                view = current_view()
                assert view is not None
                revisions.append(view.revision)
        assert revisions[0] == revisions[1] != 0
        (root / "a").chmod(0o755)
        async with reader.read_once():
            assert names(files.paths(), root) == ["a/.env"]
