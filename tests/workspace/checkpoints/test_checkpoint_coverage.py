"""What checkpoints hold beyond the files that git would track, and how they say what they do not hold."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.protocol.events import Conflict
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.checkpoints import scan
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from agent_cli.workspace.checkpoints.types import CheckpointError, Move
from tests.fuzz import LEVEL
from tests.launchers import WITHOUT_PRIVILEGE
from tests.workspace.trees import git_data, whole_picture


def make(root: Path, session: str = "s1") -> Checkpoints:
    return Checkpoints(root, root.parent / "store", session, ProcessRunner().run, timeout_s=90.0)


def sh(folder: Path, command: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["sh", "-ec", command], cwd=folder, check=True, env=env)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "f").write_text("f", encoding="utf-8")
    (folder / "empty" / "inner").mkdir(parents=True)
    (folder / "shut").mkdir(mode=0o700)
    (folder / "shut" / "f").write_text("f", encoding="utf-8")
    (folder / ".gitignore").write_text("*.log\n.env\nout/\nbig/\nnode_modules/\n", encoding="utf-8")
    (folder / ".env").write_text("KEY=1\n", encoding="utf-8")
    (folder / ".env").chmod(0o600)
    (folder / "out").mkdir()
    (folder / "out" / "a.o").write_bytes(b"\0\1")
    return folder


COMMANDS = {
    "empty folders": "rmdir empty/inner; mkdir -p new/one/two other",
    "an empty folder becomes a file": "rm -r empty; printf x > empty",
    "a file's folder becomes empty": "rm src/deep/f",
    "an empty folder gets a file": "printf x > empty/inner/f",
    "an empty folder takes a file's place": "rm .env; mkdir .env",
    "empty folders take a file's place": "rm src/deep/f; mkdir -p src/deep/f/one/two",
    "a folder takes a file's place": "rm src/deep/f; mkdir -p src/deep/f/one; printf x > src/deep/f/one/two",
    "folder permissions": "chmod 750 src; chmod 755 shut; chmod 700 empty",
    "folders with their own permissions go": "chmod 700 shut src; rm -r shut src",
    "a folder's permissions change with its files": "chmod 700 src; printf x > src/new; printf y > shut/g; chmod 755 shut",
    "folders with their own permissions come": "mkdir -m 750 a a/b; mkdir -m 555 a/b/c; printf x > a/b/f",
    "a folder nobody may write to": "rm src/deep/f; printf y > src/deep/g; chmod 555 src/deep",
    "ignored files": "printf x > .env; printf x > a.log; chmod 644 .env; rm out/a.o; printf x > out/b.o",
    "an ignored folder goes": "rm -r out",
    "an ignored folder comes": "mkdir -p big/deep/empty; printf x > big/deep/f",
    "all permissions": "chmod -R u=rwX,go= .",
    "what is ignored changes": "printf 'src/\\n' > .gitignore; printf x >> .env; printf x > src/new",
    "nothing is ignored any more": "rm .gitignore; printf x > b.log",
    "names in other cases": "mv src SRC; mv .env .ENV; printf x > .env",
    "a link takes a folder's place": "mv src elsewhere; ln -s elsewhere src",
    "a folder takes a link's place": "ln -s out l; rm l; mkdir l; printf x > l/f",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
async def test_undo_equals_a_copy_and_redo_the_state_after(root: Path, command: str) -> None:
    checkpoints = make(root)
    start = whole_picture(root)
    before = await checkpoints.take()
    sh(root, command)
    end = whole_picture(root)
    assert start != end
    after = await checkpoints.take()
    dry = await checkpoints.carry_out([Move(after, before)], dry_run=True)
    assert whole_picture(root) == end
    report = await checkpoints.carry_out([Move(after, before)])
    assert whole_picture(root) == start
    assert (report.conflicts, set(report.restored)) == ((), set(dry.restored)) and dry.conflicts == ()
    assert (await checkpoints.carry_out([Move(before, after)])).conflicts == ()
    assert whole_picture(root) == end
    assert (await checkpoints.carry_out([Move(before, after)])).restored == ()


async def test_a_rehearsal_keeps_a_folder_that_somebody_has_put_something_in(root: Path) -> None:
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "mkdir -p new/one other; printf x > new/one/f")
    after = await checkpoints.take()
    sh(root, "mkdir other/.git; printf mine > new/mine")
    dry = await checkpoints.carry_out([Move(after, before)], dry_run=True)
    report = await checkpoints.carry_out([Move(after, before)])
    assert {change.path for change in dry.restored} == {"new/one/f"}
    assert (report.conflicts, set(report.restored)) == (dry.conflicts, set(dry.restored))
    assert (root / "new" / "mine").exists() and not (root / "new" / "one").exists()


async def test_a_rehearsal_knows_that_a_file_is_in_the_place_of_an_empty_folder(root: Path) -> None:
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "rmdir empty/inner empty")
    after = await checkpoints.take()
    sh(root, "printf mine > empty")
    dry = await checkpoints.carry_out([Move(after, before)], dry_run=True)
    report = await checkpoints.carry_out([Move(after, before)])
    assert dry == report and [conflict.path for conflict in report.conflicts] == ["empty/", "empty/inner/"]
    assert (root / "empty").read_bytes() == b"mine"


async def test_permissions_that_change_in_the_second_of_a_checkpoint_are_seen(root: Path) -> None:
    checkpoints = make(root)
    (root / "f").touch()
    before = await checkpoints.take()
    assert await checkpoints.take() == before == await checkpoints.take()
    (root / "f").chmod(0o600)
    changes = await checkpoints.changes(before, await checkpoints.take())
    assert [(change.path, change.kind) for change in changes] == [("f", "modified")]


async def test_what_is_ignored_and_large_is_left_out_and_named(root: Path) -> None:
    for name in ("node_modules/a", "big"):
        (root / name).mkdir(parents=True)
    for number in range(scan.MOST_IGNORED_FILES + 1):
        (root / "big" / str(number)).touch()
    (root / "node_modules" / "a" / "f").touch()
    checkpoints = make(root)
    before = await checkpoints.take()
    assert checkpoints.uncovered == ("big/ (ignored, 2,001 files)", "node_modules/ (ignored, 1 file)")
    sh(root, "rm -r big/1 node_modules; printf x > .env")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert [change.path for change in report.restored] == [".env"]
    assert report.conflicts == (
        Conflict("big/", "not covered by undo: ignored, 2,001 files", decidable=False),
        Conflict("node_modules/", "not covered by undo: ignored, 1 file", decidable=False),
    )


async def test_what_is_left_out_and_stays_as_it_was_is_not_reported(root: Path) -> None:
    (root / "node_modules" / "a").mkdir(parents=True)
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "printf x > f; ls node_modules")
    assert (await checkpoints.carry_out([Move(await checkpoints.take(), before)])).conflicts == ()


async def test_what_was_left_out_before_is_never_deleted_by_an_undo(root: Path) -> None:
    large = root / "large"
    large.touch()
    os.truncate(large, 200_000_000)
    (root / "node_modules").mkdir()
    (root / "node_modules" / "mine").write_text("kept", encoding="utf-8")
    checkpoints = make(root)
    before = await checkpoints.take()
    os.truncate(large, 10)
    (root / ".gitignore").write_text("", encoding="utf-8")
    after = await checkpoints.take()
    report = await checkpoints.carry_out([Move(after, before)])
    assert large.exists() and (root / "node_modules" / "mine").exists()
    assert {conflict.path for conflict in report.conflicts} == {"large", "node_modules/"}


async def test_a_tools_file_in_a_folder_that_is_left_out_is_covered_all_the_same(root: Path) -> None:
    target = root / "node_modules" / "m" / "f"
    target.parent.mkdir(parents=True)
    target.write_text("before", encoding="utf-8")
    target.chmod(0o640)
    checkpoints = make(root)
    before = await checkpoints.cover(str(target), await checkpoints.take())
    target.write_text("after", encoding="utf-8")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert target.read_text(encoding="utf-8") == "before" and target.stat().st_mode & 0o777 == 0o640
    assert report.conflicts == ()


COMMIT = "git -c user.name=n -c user.email=e@e commit -qm 1"


async def test_files_of_nested_repositories_go_back_and_their_git_data_stays(root: Path) -> None:
    sh(root, "git init -q; mkdir -p lib/sub; cd lib/sub; git init -q; printf a > a; printf i > .gitignore")
    sh(root / "lib" / "sub", f"git add .; {COMMIT}; printf b > b; git add b; printf c > c; mkdir hollow")
    sh(root / "lib" / "sub", "mkdir inner; cd inner; git init -q; printf x > x")
    checkpoints = make(root)
    start = whole_picture(root)
    before = await checkpoints.take()
    sh(
        root / "lib" / "sub",
        "printf z > a; rm b; chmod 700 c; rmdir hollow; printf z > inner/x; mkdir h2; printf i > i",
    )
    data = git_data(root / "lib" / "sub" / ".git")
    after, end = await checkpoints.take(), whole_picture(root)
    found = {change.path for change in await checkpoints.changes(before, after)}
    assert {"lib/sub/a", "lib/sub/b", "lib/sub/c", "lib/sub/i", "lib/sub/inner/x"} <= found
    assert "+++ b/lib/sub/a" in await checkpoints.diff(before, after)
    assert (await checkpoints.carry_out([Move(after, before)])).conflicts == ()
    assert whole_picture(root) == start
    assert (await checkpoints.carry_out([Move(before, after)])).conflicts == ()
    assert whole_picture(root) == end and git_data(root / "lib" / "sub" / ".git") == data


async def test_a_nested_repository_that_is_no_longer_ignored_is_restored(root: Path) -> None:
    sh(root, "mkdir big; cd big; git init -q; printf 1 > f")
    checkpoints = make(root)
    await checkpoints.take()
    (root / ".gitignore").write_text("*.log\n", encoding="utf-8")
    before = await checkpoints.take()
    sh(root, "printf 2 > big/f")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert [change.path for change in report.restored] == ["big/f"] and report.conflicts == ()
    assert (root / "big" / "f").read_bytes() == b"1"


async def test_a_nested_repository_that_is_ignored_since_is_undone_and_redone(root: Path) -> None:
    sh(root, "mkdir vendor; cd vendor; git init -q; printf 1 > f")
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "printf 2 > vendor/f; printf new > vendor/g")
    moves = [Move(await checkpoints.take(), before)]
    sh(root, "echo vendor/ >> .gitignore")
    end = whole_picture(root)
    around = await checkpoints.take(moves)
    await checkpoints.carry_out(moves)
    assert (root / "vendor" / "f").read_bytes() == b"1" and not (root / "vendor" / "g").exists()
    await checkpoints.carry_out([Move(await checkpoints.take(moves), around)])
    assert whole_picture(root) == end


async def test_a_folder_that_becomes_a_repository_keeps_its_files(root: Path) -> None:
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root / "src", f"git init -q; git add .; {COMMIT}; printf new > new")
    after = await checkpoints.take()
    report = await checkpoints.carry_out([Move(after, before)])
    assert [change.path for change in report.restored] == ["src/new"]
    assert (root / "src" / "deep" / "f").exists() and (root / "src" / ".git").is_dir()


async def test_another_process_of_the_session_goes_on_from_its_checkpoints(root: Path) -> None:
    first = make(root)
    before = await first.take()
    second = make(root)
    assert await second.take() == before
    sh(root, "printf x > .env; mkdir hollow")
    after = await second.take()
    assert (await make(root).carry_out([Move(after, before)])).conflicts == ()
    assert not (root / "hollow").exists()


async def test_a_checkpoint_of_an_older_version_is_restored(root: Path) -> None:
    """It had only permissions in its message, and the checkpoint before it is no parent."""
    checkpoints = make(root)
    (root / "src" / "deep" / "f").chmod(0o600)
    first = await checkpoints.take()
    store = str(root.parent / "store")
    message = '{"modes": {"src/deep/f": 384, ".env": 384}}'
    who = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "--git-dir", store, "commit-tree", f"{first}^{{tree}}", "-m", message]
    old = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | who).stdout.strip()
    sh(root, "printf x > src/deep/f; chmod 644 src/deep/f; printf n > new; mkdir hollow")
    report = await make(root).carry_out([Move(await make(root).take(), old)])
    assert {change.path for change in report.restored} == {"new", "src/deep/f"} and (root / "hollow").exists()
    assert (root / "src" / "deep" / "f").stat().st_mode & 0o777 == 0o600


async def test_what_an_older_version_has_saved_of_a_folder_that_is_left_out_now_is_not_restored(
    root: Path,
) -> None:
    older = make(root)
    before = await older.take()
    sh(root, "printf 2 > src/deep/f; printf 2 > empty/inner/f")
    after = await older.take()
    newer = Checkpoints(
        root, root.parent / "store", "s1", ProcessRunner().run, timeout_s=90.0, without=[root / "src" / "deep"]
    )
    report = await newer.carry_out([Move(after, before)])
    assert [change.path for change in report.restored] == ["empty/inner/f"] and report.conflicts == ()
    assert (root / "src" / "deep" / "f").read_bytes() == b"2"
    sh(root, "printf 3 > src/deep/f")
    assert await newer.changes(await newer.take(), await newer.take()) == ()


_WITHOUT_PRIVILEGES = """
import asyncio, sys
from pathlib import Path
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from agent_cli.workspace.checkpoints.types import Move

root = Path(sys.argv[1])

async def main():
    checkpoints = Checkpoints(root, root.parent / "store", "s1", ProcessRunner().run, timeout_s=90)
    before = await checkpoints.take()
    for name in (".env", "out/a.o", "src/deep/f"):
        (root / name).write_bytes(b"changed")
    print(checkpoints.uncovered)
    (root / "later").write_bytes(b"")
    (root / "later").chmod(0)
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    print(*sorted(change.path for change in report.restored))
    print(*(f"{conflict.path}: {conflict.reason}" for conflict in report.conflicts))

asyncio.run(main())
"""


def test_ignored_files_are_restored_beside_one_that_cannot_be_read(root: Path) -> None:
    (root / "closed").write_text("x", encoding="utf-8")
    (root / "closed").chmod(0)
    done = subprocess.run(
        [*WITHOUT_PRIVILEGE, sys.executable, "-c", _WITHOUT_PRIVILEGES, str(root)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == [
        "('closed (it cannot be read)',)",
        ".env out/a.o src/deep/f",
        "later: not covered by undo: it cannot be read",
    ], done
    assert (root / ".env").read_text(encoding="utf-8") == "KEY=1\n"


async def test_an_index_that_names_what_the_store_has_lost_is_read_anew(root: Path) -> None:
    await make(root).take()
    store = root.parent / "store"
    for file in (store / "objects").glob("??/*"):
        file.unlink()
    (store / "refs" / "sessions" / "s1").unlink()
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "rm -r src")
    assert (await checkpoints.carry_out([Move(await checkpoints.take(), before)])).conflicts == ()
    assert (root / "src" / "deep" / "f").exists()


async def test_a_full_disk_is_said_in_plain_words(root: Path, tmp_path: Path) -> None:
    from agent_cli.sandbox.process.runner import Completed

    async def run(argv: list[str], **how: object) -> Completed:
        full = b"error: unable to write file objects/aa/bb: No space left on device\nfatal: f: failed to insert\n"
        return Completed(128, b"", full) if "--add" in argv else await ProcessRunner().run(argv, **how)  # type: ignore[arg-type]

    checkpoints = Checkpoints(root, tmp_path / "store", "s1", run, timeout_s=90.0)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=r"disk with .* is full"):
        await checkpoints.take()


def test_a_name_that_no_folder_lists_is_absent_even_where_it_can_still_be_reached() -> None:
    """As `readme` is after a rename to `README` where case does not count."""
    seen = scan.ScanResult(files={"README": 0o644, "b": 0o644, "l": -1})
    assert scan.absent({"readme", "README", "b", "l"}, seen) == {"readme"}
    assert scan.absent({"README", "b", "l"}, seen) == set()


_NAMES = ["a", "b.log", "d/a", "d/e/f", "g/h", "out/x", "d/e/b.log", ".env", "g/i/j"]


def operate(root: Path, rng: random.Random) -> None:
    """One random thing that a command could do."""
    path = root / rng.choice(_NAMES)
    what = rng.randrange(9)
    if what == 2 and rng.random() < 0.5 and path.parent != root:
        path = path.parent
    if what == 0 and path.is_dir() and not path.is_symlink():
        sh(root, f"rm -r '{path}'")
    elif what == 1 and (path.is_symlink() or path.is_file()):
        path.unlink()
    elif what == 2 and path.exists() and not path.is_symlink():
        path.chmod(
            rng.choice([0o755, 0o700, 0o750]) if path.is_dir() else rng.choice([0o644, 0o600, 0o755, 0o444])
        )
    elif what == 3:
        sh(
            root,
            (f"rm -rf '{path}'; mkdir -p '{path}'" if rng.random() < 0.3 else f"mkdir -p '{path.parent}'")
            + " || true",
        )
    elif what == 4 and not path.is_dir():
        sh(root, f"mkdir -p '{path.parent}' && ln -sfn {rng.choice(_NAMES)} '{path}' || true")
    elif what == 5 and path.exists():
        sh(root, f"mv '{path}' '{root}/moved{rng.randrange(3)}' 2>/dev/null || true")
    elif what == 6:
        (root / ".gitignore").write_text(rng.choice(["*.log\n", "out/\n.env\n", "d/\n", ""]), encoding="utf-8")
    elif not path.is_dir():
        sh(root, f"mkdir -p '{path.parent}' 2>/dev/null && printf {rng.randrange(99)} > '{path}' || true")


async def undo_equals_copy(base: Path, seed: int, steps: int) -> None:
    rng = random.Random(seed)
    root = base / f"r{seed}" / "work"
    root.mkdir(parents=True)
    for _ in range(12):
        operate(root, rng)
    checkpoints = make(root)
    states, pictures = [await checkpoints.take()], [whole_picture(root)]
    for _ in range(steps):
        for _ in range(rng.randrange(1, 7)):
            operate(root, rng)
        states.append(await checkpoints.take())
        pictures.append(whole_picture(root))
    for at in (*range(steps - 1, -1, -1), *range(1, steps + 1)):
        came_from = at + 1 if whole_picture(root) == pictures[min(at + 1, steps)] and at < steps else at - 1
        report = await checkpoints.carry_out([Move(states[came_from], states[at])])
        assert report.conflicts == (), (seed, at, report)
        assert whole_picture(root) == pictures[at], (seed, at)


async def test_random_changes_are_undone_and_redone_exactly(tmp_path: Path) -> None:
    for seed in range(4):
        await undo_equals_copy(tmp_path, seed, 3)


@pytest.mark.long
async def test_many_random_changes_are_undone_and_redone_exactly(tmp_path: Path) -> None:
    for seed in range(100, 100 + 60 * max(1, LEVEL)):
        await undo_equals_copy(tmp_path, seed, 6)
