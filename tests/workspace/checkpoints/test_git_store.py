"""Checkpoints restore every path byte- and mode-exact and touch nothing else."""

import asyncio
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.sandbox.process.runner import Completed, ProcessRunner
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from agent_cli.workspace.checkpoints.types import CheckpointError, Move
from tests.fuzz import tries


def make(root: Path, store: Path) -> Checkpoints:
    return Checkpoints(root, store, "s1", ProcessRunner().run, timeout_s=90.0)


def picture(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Every path below a folder with its kind, mode and content."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        if ".git" in path.relative_to(root).parts:
            continue
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", 0, os.fsencode(os.readlink(path)))
        elif path.is_file():
            found[name] = ("file", path.stat().st_mode & 0o7777, path.read_bytes())
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"one\r\ntwo\n")
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "secret").write_bytes(b"\x00\xff")
    (folder / "secret").chmod(0o600)
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_bytes(b"deep")
    (folder / "link").symlink_to("a.txt")
    (folder / ".gitignore").write_text("ignored/\n", encoding="utf-8")
    (folder / "ignored").mkdir()
    (folder / "ignored" / "cache").write_bytes(b"before")
    return folder


def shell(root: Path, command: str) -> None:
    subprocess.run(["sh", "-c", command], cwd=root, check=True)


@pytest.mark.parametrize(
    "command",
    [
        "printf x > a.txt",
        "rm a.txt",
        "mv a.txt c.txt",
        "rm -r sub",
        "rm -r sub && printf file > sub",
        "mkdir -p n/m && printf new > n/m/o",
        "chmod 700 run.sh",
        "chmod 644 secret",
        "chmod 600 a.txt",
        "rm link && printf was-a-link > link",
        "ln -sf sub/b.txt link",
        "rm a.txt && mkdir a.txt && printf x > a.txt/inner",
        "printf 'z' > 'name with\nnewline' && printf 'z' > ' -dash'",
        "printf '\\303\\050' > \"$(printf 'bad-\\377-name')\"",
        "printf '* text=auto eol=lf\n' > .gitattributes && printf 'q\\r\\n' > q.txt",
    ],
)
async def test_undo_and_redo_restore_what_a_shell_command_changed(
    root: Path, tmp_path: Path, command: str
) -> None:
    checkpoints = make(root, tmp_path / "store")
    before_picture = picture(root)
    before = await checkpoints.take()
    shell(root, command)
    after_picture = picture(root)
    assert after_picture != before_picture
    after = await checkpoints.take()

    report = await checkpoints.carry_out([Move(after, before)])
    assert report.conflicts == ()
    assert picture(root) == before_picture

    report = await checkpoints.carry_out([Move(before, after)])
    assert report.conflicts == ()
    assert picture(root) == after_picture


async def test_a_file_changed_since_is_left_alone_and_reported(root: Path, tmp_path: Path) -> None:
    checkpoints = make(root, tmp_path / "store")
    before = await checkpoints.take()
    shell(root, "printf agent > a.txt; printf agent > sub/b.txt")
    after = await checkpoints.take()
    (root / "a.txt").write_bytes(b"the user's own words")
    (root / "mine.txt").write_bytes(b"new, by the user")

    report = await checkpoints.carry_out([Move(after, before)])

    assert [conflict.path for conflict in report.conflicts] == ["a.txt"]
    assert (root / "a.txt").read_bytes() == b"the user's own words"
    assert (root / "mine.txt").exists()
    assert (root / "sub" / "b.txt").read_bytes() == b"deep"


async def test_an_ignored_file_that_a_tool_writes_is_covered(root: Path, tmp_path: Path) -> None:
    checkpoints = make(root, tmp_path / "store")
    before = await checkpoints.take()
    target = root / "ignored" / "cache"
    before = await checkpoints.cover(str(target), before)
    target.write_bytes(b"after")
    after = await checkpoints.take()

    await checkpoints.carry_out([Move(after, before)])

    assert target.read_bytes() == b"before"


async def test_the_users_repository_is_not_touched(root: Path, tmp_path: Path) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z"}
    for command in (
        "git init -q . && git -c user.name=u -c user.email=e@x add a.txt",
        "git -c user.name=u -c user.email=e@x commit -qm first",
        "printf staged >> a.txt && git add a.txt && printf unstaged >> a.txt",
    ):
        subprocess.run(["sh", "-c", command], cwd=root, check=True, env=env)
    hook = root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hook-ran\n", encoding="utf-8")
    hook.chmod(0o755)

    def state() -> dict[str, bytes]:
        folder = root / ".git"
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    untouched = state()
    checkpoints = make(root, tmp_path / "store")
    before = await checkpoints.take()
    shell(root, "rm a.txt")
    after = await checkpoints.take()
    await checkpoints.carry_out([Move(after, before)])

    assert state() == untouched
    assert not (root / "hook-ran").exists()


async def test_a_turn_that_changed_nothing_restores_nothing(root: Path, tmp_path: Path) -> None:
    checkpoints = make(root, tmp_path / "store")
    before = await checkpoints.take()
    after = await checkpoints.take()
    report = await checkpoints.carry_out([Move(after, before)])
    assert report.restored == () and report.conflicts == ()


async def test_changes_count_lines(root: Path, tmp_path: Path) -> None:
    checkpoints = make(root, tmp_path / "store")
    before = await checkpoints.take()
    shell(root, "printf 'one\\r\\nthree\\nfour\\n' > a.txt; rm sub/b.txt; printf n > new")
    after = await checkpoints.take()
    changes = {c.path: (c.kind, c.added, c.removed) for c in await checkpoints.changes(before, after)}
    assert changes == {"a.txt": ("modified", 2, 1), "sub/b.txt": ("deleted", 0, 1), "new": ("created", 1, 0)}


async def test_a_diff_shows_a_renamed_file_without_its_lines(root: Path, tmp_path: Path) -> None:
    checkpoints = make(root, tmp_path / "store")
    (root / "old").write_text("".join(f"{number}\n" for number in range(50)), encoding="utf-8")
    before = await checkpoints.take()
    shell(root, "mv old new; echo more >> new")
    told = await checkpoints.diff(before, await checkpoints.take())
    assert "rename from old\nrename to new\n" in told
    assert [line for line in told.splitlines() if re.match(r"[-+](?![-+])", line)] == ["+more"]


async def test_a_lock_left_by_a_killed_git_does_not_end_undo(root: Path, tmp_path: Path) -> None:
    checkpoints = make(root, tmp_path / "store")
    before = await checkpoints.take()
    (root / "a.txt").write_bytes(b"changed")
    shell(root, "printf node_modules > .gitignore; mkdir node_modules; printf x > node_modules/m")
    for index in ("files-s1.index", "files-s1.index.draft"):
        (tmp_path / "store" / f"{index}.lock").write_bytes(b"")
    after = await checkpoints.take()
    assert await checkpoints.cover(str(root / "node_modules" / "m"), after)
    assert {change.path for change in await checkpoints.changes(before, after)} == {"a.txt", ".gitignore"}


async def test_a_workspace_inside_a_repository_respects_the_ignore_files_above_it(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    root = top / "packages" / "one"
    root.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    (top / ".gitignore").write_text("node_modules/\n", encoding="utf-8")
    (top / "elsewhere").write_text("not ours", encoding="utf-8")
    checkpoints = make(root, tmp_path / "store")
    before = await checkpoints.take()
    shell(root, "mkdir node_modules; printf x > node_modules/m; printf y > own; printf z >> ../../elsewhere")
    after = await checkpoints.take()
    assert [change.path for change in await checkpoints.changes(before, after)] == ["own"]
    report = await checkpoints.carry_out([Move(after, before)])
    assert [change.path for change in report.restored] == ["own"]
    assert not (root / "own").exists() and (root / "node_modules" / "m").exists()


async def test_a_folder_that_became_a_link_elsewhere_is_not_followed(root: Path, tmp_path: Path) -> None:
    checkpoints = make(root, tmp_path / "store")
    before = await checkpoints.take()
    shell(root, "mkdir d; printf x > d/e")
    after = await checkpoints.take()
    (root / "d").rename(tmp_path / "moved")
    (root / "d").symlink_to(tmp_path / "moved")
    report = await checkpoints.carry_out([Move(after, before)])
    assert [conflict.path for conflict in report.conflicts] == ["d/e"]
    assert (tmp_path / "moved" / "e").exists()


@pytest.mark.parametrize(("failures", "is_taken"), [(0, True), (1, True), (5, True), (6, False)])
async def test_files_that_go_away_while_git_reads_them_do_not_end_undo_at_once(
    root: Path, tmp_path: Path, failures: int, is_taken: bool
) -> None:
    left = [failures]

    async def run(argv: Sequence[str], **how: Any) -> Completed:
        if ("add" in argv or "--add" in argv) and left[0]:
            left[0] -= 1
            return Completed(128, b"", b"fatal: unable to stat 'x': No such file or directory\n")
        return await ProcessRunner().run(argv, **how)

    checkpoints = Checkpoints(root, tmp_path / "store", "s1", run, timeout_s=90.0)
    if is_taken:
        assert await checkpoints.take()
    else:
        with pytest.raises(CheckpointError, match="unable to stat"):
            await checkpoints.take()


async def test_a_file_that_goes_away_while_git_reads_it_leaves_the_ignored_ones_covered(
    root: Path, tmp_path: Path
) -> None:
    left = [1]

    async def run(argv: Sequence[str], **how: Any) -> Completed:
        if "--add" in argv and left[0]:
            left[0] -= 1
            return Completed(128, b"", b"fatal: unable to stat 'x': No such file or directory\n")
        return await ProcessRunner().run(argv, **how)

    checkpoints = Checkpoints(root, tmp_path / "store", "s1", run, timeout_s=90.0)
    before = await checkpoints.take()
    (root / "a.txt").write_bytes(b"changed")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert [change.path for change in report.restored] == ["a.txt"] and report.conflicts == ()
    assert (root / "ignored" / "cache").read_bytes() == b"before"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose files are saved in three portions. A test leaves in it what it found."""
    root = tmp_path_factory.mktemp("large")
    for folder in range(11):
        (root / f"d{folder}").mkdir(parents=True)
        for file in range(1000):
            (root / f"d{folder}" / f"f{file}").write_text(f"{folder} {file}", encoding="utf-8")
    return root


async def test_a_first_checkpoint_that_takes_too_long_goes_on_where_it_stopped(
    large: Path, tmp_path: Path
) -> None:
    added = list[int]()

    async def run(argv: Sequence[str], **how: Any) -> Completed:
        done = await ProcessRunner().run(argv, **how)
        if "--add" in argv:
            added.append(how["input"].count(b"\0"))
        return done

    checkpoints = Checkpoints(large, tmp_path / "store", "s1", run, timeout_s=90.0)
    checkpoints.most_s = 0.0
    for _ in range(2):
        with pytest.raises(CheckpointError, match="takes longer than 0 s; the next turn continues"):
            await checkpoints.take()
    checkpoints.most_s = 120.0
    before = await checkpoints.take()
    assert added == [5_000, 5_000, 1_000] and checkpoints.uncovered == ()
    (large / "d3" / "f7").write_text("changed", encoding="utf-8")
    (large / "d9" / "f999").unlink()
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert len(report.restored) == 2 and report.conflicts == ()
    assert (large / "d3" / "f7").read_text(encoding="utf-8") == "3 7"


async def test_a_first_checkpoint_may_take_long_as_long_as_it_gets_on(large: Path, tmp_path: Path) -> None:
    """Each portion takes less than the limit, and all of them together more."""

    async def run(argv: Sequence[str], **how: Any) -> Completed:
        if "--add" in argv:
            await asyncio.sleep(2.2)
        return await ProcessRunner().run(argv, **how)

    checkpoints = Checkpoints(large, tmp_path / "store", "s1", run, timeout_s=6.0)
    assert await checkpoints.take()


@pytest.mark.parametrize("stops", ["write-tree", "update-index"])
async def test_a_checkpoint_that_is_stopped_half_way_is_no_checkpoint_of_the_next_turn(
    tmp_path: Path, stops: str
) -> None:
    """git has taken the changed files, and was stopped before it told which tree they are."""
    root, is_stopped = tmp_path / "w", [False]
    root.mkdir()
    for name in ("a", "b"):
        (root / name).write_text("first", encoding="utf-8")
    (root / "c").write_text("first", encoding="utf-8")

    async def run(argv: Sequence[str], **how: Any) -> Completed:
        if stops == "write-tree" and stops in argv and is_stopped[0]:
            raise asyncio.CancelledError
        done = await ProcessRunner().run(argv, **how)
        if stops in argv and is_stopped[0]:
            raise asyncio.CancelledError
        return done

    checkpoints = Checkpoints(root, tmp_path / "store", "s1", run, timeout_s=60.0)
    await checkpoints.take()
    (root / "a").write_text("second", encoding="utf-8")
    (root / "b").unlink()
    (root / "c").chmod(0o600)
    (root / "c").write_text("second", encoding="utf-8")
    is_stopped[0] = True
    with pytest.raises(asyncio.CancelledError):
        await checkpoints.take()
    is_stopped[0] = False
    before = await checkpoints.take()
    for name in ("a", "c"):
        (root / name).write_text("third", encoding="utf-8")
        (root / name).chmod(0o644)
    (root / "b").write_text("third", encoding="utf-8")
    await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert (root / "a").read_text(encoding="utf-8") == "second" and not (root / "b").exists()
    assert (root / "c").read_text(encoding="utf-8") == "second" and (root / "c").stat().st_mode & 0o777 == 0o600


_names = st.sampled_from(["a.txt", "sub/b.txt", "run.sh", "secret", "x", "sub/y", "new/z"])
_edits = st.lists(
    st.one_of(
        st.tuples(st.just("write"), _names, st.binary(max_size=20)),
        st.tuples(st.just("delete"), _names, st.just(b"")),
        st.tuples(st.just("mode"), _names, st.sampled_from([b"600", b"644", b"755", b"640"])),
    ),
    max_size=6,
)


def apply(root: Path, edits: list[tuple[str, str, bytes]]) -> None:
    for action, name, data in edits:
        path = root / name
        if action == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        elif action == "delete" and path.exists():
            path.unlink()
        elif action == "mode" and path.exists():
            path.chmod(int(data, 8))


@given(first=_edits, second=_edits)
@settings(max_examples=tries(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_sequence_of_changes_is_undone_and_redone_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[tuple[str, str, bytes]],
    second: list[tuple[str, str, bytes]],
) -> None:
    base = tmp_path_factory.mktemp("random")
    root = base / "work"
    root.mkdir()
    apply(root, [("write", "a.txt", b"start"), *first])
    checkpoints = make(root, base / "store")
    start = picture(root)
    before = await checkpoints.take()
    apply(root, second)
    end = picture(root)
    after = await checkpoints.take()
    assert (await checkpoints.carry_out([Move(after, before)])).conflicts == ()
    assert picture(root) == start
    assert (await checkpoints.carry_out([Move(before, after)])).conflicts == ()
    assert picture(root) == end


async def test_going_far_back_starts_few_programs_for_each_turn(root: Path, tmp_path: Path) -> None:
    started: list[Sequence[str]] = []

    async def run(argv: Sequence[str], **how: Any) -> Completed:
        started.append(argv)
        return await ProcessRunner().run(argv, **how)

    checkpoints = Checkpoints(root, tmp_path / "store", "s1", run, timeout_s=90.0)
    start, moves, before = picture(root), [], await checkpoints.take()
    for number in range(12):
        (root / f"n{number % 3}").write_text(str(number), encoding="utf-8")
        after = await checkpoints.take()
        moves.append(Move(after, before))
        before = after
    started.clear()
    report = await checkpoints.carry_out(moves[::-1])
    assert report.conflicts == () and picture(root) == start
    assert len(started) < 2 * len(moves)
