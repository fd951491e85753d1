"""Worktrees with real repositories: what they hold, what they leave alone, and what becomes of their changes."""

import asyncio
import hashlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.worktrees.create import create, enter
from agent_cli.workspace.worktrees.delete import delete_tree
from agent_cli.workspace.worktrees.merge import changed_files, merge, patch, save_patch
from agent_cli.workspace.worktrees.remove import remove
from agent_cli.workspace.worktrees.worktree import (
    Owner,
    Worktree,
    WorktreeError,
    open_worktree,
    worktrees,
    write_record,
)
from tests.fuzz import LEVEL


def git(folder: Path, *words: str) -> str:
    always = "-c user.name=T -c maintenance.auto=false -c user.email=t@example.org -c protocol.file.allow=always".split()
    done = subprocess.run(["git", *always, *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape")


def put(folder: Path, name: str, text: str | bytes, mode: int = 0o644) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


def state(repo: Path) -> dict[str, str]:
    """Everything in the checkout and its git data but objects and the entries of worktrees, byte for byte."""
    found = {}
    for path in sorted(repo.rglob("*")):
        name = str(path.relative_to(repo))
        if name.startswith((".git/objects", ".git/worktrees")) or path.is_dir():
            continue
        about = path.lstat()
        data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        found[name] = f"{about.st_mode:o} {hashlib.sha256(data).hexdigest()}"
    return found


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = Path(os.path.realpath(tmp_path)) / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    put(repo, "a.txt", "one\ntwo\nthree\nfour\nfive\n")
    put(repo, "b.txt", "b\n")
    put(repo, "src/run.sh", "#!/bin/sh\n", 0o755)
    put(repo, ".gitignore", "*.log\nbuild/\n.env\n")
    put(repo, "build/kept.txt", "tracked though ignored\n")
    (repo / "link").symlink_to("a.txt")
    git(repo, "add", "-A")
    git(repo, "add", "-f", "build/kept.txt")
    git(repo, "commit", "-q", "-m", "one")
    return repo


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "state" / "worktrees"


async def made(repo: Path, trees: Path, runner: ProcessRunner, name: str = "one") -> Worktree:
    return await create(repo, name, trees, runner.run)


async def test_it_has_what_the_user_sees_and_nothing_of_the_users_changes(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    put(repo, "a.txt", "one\ntwo\nTHREE\nfour\nfive\n")
    put(repo, "staged.txt", "staged\n")
    git(repo, "add", "staged.txt")
    put(repo, "new file.txt", "new\n")
    put(repo, "out.log", "ignored")
    (repo / "b.txt").unlink()
    git(repo, "stash", "create")
    before = state(repo)
    tree = await made(repo, trees, runner)
    path = Path(tree.path)
    assert state(repo) == before
    assert path.is_relative_to(trees) and not list(path.rglob("*.log"))
    names = {str(each.relative_to(path)) for each in path.rglob("*") if not each.is_dir()} - {".git"}
    wanted = {str(e.relative_to(repo)) for e in repo.rglob("*") if not e.is_dir() and ".git/" not in f"{e}/"}
    assert names == wanted - {"out.log"} and "build/kept.txt" in names and "b.txt" not in names
    assert (path / "a.txt").read_bytes() == (repo / "a.txt").read_bytes()
    assert os.access(path / "src/run.sh", os.X_OK) and os.readlink(path / "link") == "a.txt"
    assert tree.uncommitted == ("a.txt", "b.txt", "new file.txt", "staged.txt")
    assert tree.commit == git(repo, "rev-parse", "HEAD").strip() == git(path, "rev-parse", "HEAD").strip()
    assert git(path, "status", "--porcelain") == git(repo, "status", "--porcelain")
    assert "detached" in git(repo, "worktree", "list") and git(repo, "branch").split() == ["*", "main"]
    assert await changed_files(tree, runner.run) == ()
    git(repo, "fsck", "--strict")


async def test_the_entry_survives_prune_and_says_whose_it_is(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    tree = await made(repo, trees, runner)
    git(repo, "worktree", "prune", "--expire", "now")
    listed = git(repo, "worktree", "list", "--porcelain")
    assert f"worktree {tree.path}" in listed and f"process {os.getpid()}" in listed
    about = msgspec.json.decode((Path(tree.entry) / "agent.json").read_bytes())
    assert about["name"] == "one" and about["owner"]["pid"] == os.getpid()
    assert open_worktree(Path(tree.path)) == tree and worktrees(trees) == (tree,)


MANY = 64 if LEVEL else 12


async def test_many_at_once_while_other_gits_are_at_work(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    config = (repo / ".git/config").read_bytes()
    stop = asyncio.Event()
    failed: list[str] = []

    async def others() -> None:
        while not stop.is_set():
            for words in (
                ("worktree", "list"),
                ("gc", "--auto"),
                ("worktree", "prune"),
                ("config", "--list"),
                ("fsck",),
            ):
                done = await asyncio.to_thread(
                    subprocess.run, ["git", *words], cwd=repo, capture_output=True, check=False
                )
                if done.returncode:
                    failed.append(f"{words}: {done.stderr.decode()}")

    busy = asyncio.create_task(others())
    found = await asyncio.gather(
        *(made(repo, trees, runner, f"t{number % (MANY // 2)}") for number in range(MANY))
    )
    stop.set()
    await busy
    assert not failed and len({tree.path for tree in found}) == len({tree.entry for tree in found}) == MANY
    assert git(repo, "worktree", "list").count("\n") == MANY + 1 and (repo / ".git/config").read_bytes() == config
    assert all((Path(tree.path) / "a.txt").exists() for tree in found)
    await asyncio.gather(*(remove(tree, runner.run) for tree in found))
    assert git(repo, "worktree", "list").count("\n") == 1 and not list(trees.iterdir())
    assert not [name for name in os.listdir(repo / ".git") if "worktree" in name]


async def test_no_hook_filter_or_setting_of_the_repository_is_run(
    repo: Path, trees: Path, runner: ProcessRunner, tmp_path: Path
) -> None:
    trap = f"sh -c 'touch {tmp_path}/ran; cat'"
    put(repo, ".gitattributes", "*.bin filter=trap diff=trap merge=trap\n*.txt text eol=crlf\n")
    put(repo, "x.bin", b"\0raw\xff")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "two")
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        put(repo, f".git/hooks/{name}", f"#!/bin/sh\ntouch {tmp_path}/ran\n", 0o755)
    for key in (
        "filter.trap.clean",
        "filter.trap.smudge",
        "diff.trap.textconv",
        "diff.trap.command",
        "core.fsmonitor",
    ):
        git(repo, "config", key, trap)
    git(repo, "config", "filter.trap.required", "true")
    git(repo, "config", "diff.external", trap)
    (tmp_path / "ran").unlink(missing_ok=True)
    put(repo, "x.bin", b"\0changed by me\r\n")
    tree = await made(repo, trees, runner)
    assert (Path(tree.path) / "x.bin").read_bytes() == b"\0changed by me\r\n"
    put(Path(tree.path), "x.bin", b"\0theirs")
    assert b"GIT binary patch" in await patch(tree, runner.run)
    assert (await merge(tree, repo, runner.run)).applied == ("x.bin",)
    assert (repo / "x.bin").read_bytes() == b"\0theirs"
    await remove(tree, runner.run)
    assert not (tmp_path / "ran").exists()


async def test_files_of_large_file_storage_are_there_as_the_user_has_them(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    git(repo, "config", "filter.lfs.clean", "sh -c 'cat >/dev/null; echo pointer'")
    git(repo, "config", "filter.lfs.smudge", "cat")
    put(repo, ".gitattributes", "*.big filter=lfs -text\n")
    os.utime(put(repo, "x.big", b"\0the large content"), (1_000_000_000, 1_000_000_000))
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "large")
    assert git(repo, "show", "HEAD:x.big") == "pointer\n"
    tree = await made(repo, trees, runner)
    assert (Path(tree.path) / "x.big").read_bytes() == b"\0the large content"
    assert tree.uncommitted == () and git(Path(tree.path), "status", "--porcelain") == ""


async def test_a_patch_holds_everything_but_what_is_ignored(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    put(repo, "b.txt", "mine, not committed\n")
    put(repo, "crlf.txt", b"one\r\ntwo\r\n")
    tree = await made(repo, trees, runner)
    path = Path(tree.path)
    put(path, "a.txt", "one\n")
    put(path, "new/b\u00e9\n.txt", "odd name\n")
    put(path, "pic.png", bytes(range(256)))
    put(path, "crlf.txt", b"one\r\nTWO\r\n")
    put(path, "x.log", "ignored")
    put(path, "src/run.sh", "#!/bin/sh\n", 0o644)
    (path / "link").unlink()
    (path / "link").symlink_to("b.txt")
    (path / "build/kept.txt").unlink()
    git(path, "add", "a.txt")
    git(path, "commit", "-q", "-m", "by the child")
    put(path, "forced.log", "tracked")
    git(path, "add", "-f", "forced.log")
    found = await patch(tree, runner.run)
    assert b"x.log" not in found
    copy = repo.parent / "copy"
    shutil.copytree(repo, copy, symlinks=True)
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=copy, input=found, check=True)
    for name in ("a.txt", "new/b\u00e9\n.txt", "pic.png", "crlf.txt", "forced.log", "b.txt"):
        assert (copy / name).read_bytes() == (path / name).read_bytes()
    assert os.readlink(copy / "link") == "b.txt" and not (copy / "build/kept.txt").exists()
    assert not os.access(copy / "src/run.sh", os.X_OK) or (copy / "src/run.sh").stat().st_mode & 0o111 == 0


async def test_changes_are_merged_where_the_users_files_moved_on(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    tree = await made(repo, trees, runner)
    path = Path(tree.path)
    put(path, "a.txt", "ONE\ntwo\nthree\nfour\nfive\n")
    put(path, "b.txt", "same\n")
    put(path, "src/deep/new.txt", "new\n")
    (path / "src/run.sh").unlink()
    put(repo, "a.txt", "one\ntwo\nthree\nfour\nFIVE\n", 0o600)
    put(repo, "b.txt", "same\n")
    put(repo, "other.txt", "mine\n")
    git(repo, "add", "a.txt")
    index, config = (repo / ".git/index").read_bytes(), (repo / ".git/config").read_bytes()
    done = await merge(tree, repo, runner.run)
    assert done.applied == ("a.txt", "src/deep/new.txt", "src/run.sh") and done.identical == ("b.txt",)
    assert done.conflicting == ()
    assert (repo / "a.txt").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert (repo / "a.txt").stat().st_mode & 0o777 == 0o600 and not (repo / "src/run.sh").exists()
    assert (repo / ".git/index").read_bytes() == index and (repo / ".git/config").read_bytes() == config
    again = await merge(tree, repo, runner.run)
    assert again.applied == () == again.conflicting and "a.txt" in again.identical


async def conflicting(repo: Path, trees: Path, runner: ProcessRunner) -> Worktree:
    put(repo, "pic.png", b"\0one")
    put(repo, "gone.txt", "x\n")
    tree = await made(repo, trees, runner)
    for folder, word in ((Path(tree.path), "theirs"), (repo, "mine")):
        put(folder, "a.txt", f"one\n{word}\nthree\nfour\nfive\n")
        put(folder, "pic.png", b"\0" + word.encode())
        put(folder, "both.txt", f"{word}\n")
    put(Path(tree.path), "b.txt", "clean\n")
    put(Path(tree.path), "gone.txt", "changed\n")
    (repo / "gone.txt").unlink()
    return tree


async def test_a_conflict_merges_nothing_unless_asked(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    tree = await conflicting(repo, trees, runner)
    before = state(repo)
    done = await merge(tree, repo, runner.run)
    assert done.applied == () and state(repo) == before
    assert [path for path, _ in done.conflicting] == ["a.txt", "both.txt", "gone.txt", "pic.png"]
    skipped = await merge(tree, repo, runner.run, on_conflict="skip")
    assert skipped.applied == ("b.txt",) and len(skipped.conflicting) == 4
    assert {name: each for name, each in state(repo).items() if name != "b.txt"} == {
        name: each for name, each in before.items() if name != "b.txt"
    }
    with pytest.raises(WorktreeError, match="neither merged nor saved"):
        await remove(tree, runner.run)


async def test_conflict_markers_are_written_where_asked(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    tree = await conflicting(repo, trees, runner)
    done = await merge(tree, repo, runner.run, on_conflict="markers")
    assert done.applied == ("b.txt",) and len(done.conflicting) == 4
    text = (repo / "a.txt").read_text()
    assert "<<<<<<< here\nmine\n" in text and "theirs\n>>>>>>> worktree one\n" in text
    assert "<<<<<<<" in (repo / "both.txt").read_text()
    assert (repo / "pic.png").read_bytes() == b"\0mine" and not (repo / "gone.txt").exists()


async def test_a_merge_never_writes_through_a_link(
    repo: Path, trees: Path, runner: ProcessRunner, tmp_path: Path
) -> None:
    tree = await made(repo, trees, runner)
    put(Path(tree.path), "src/run.sh", "evil\n")
    outside = tmp_path / "outside"
    put(outside, "run.sh", "#!/bin/sh\n", 0o755)
    shutil.rmtree(repo / "src")
    (repo / "src").symlink_to(outside)
    done = await merge(tree, repo, runner.run, on_conflict="skip")
    assert (outside / "run.sh").read_text() == "#!/bin/sh\n"
    assert [path for path, _ in done.conflicting] == ["src/run.sh"]


async def test_only_what_is_safe_is_removed(
    repo: Path, trees: Path, runner: ProcessRunner, tmp_path: Path
) -> None:
    tree = await made(repo, trees, runner)
    put(Path(tree.path), "untracked.txt", "work\n")
    with pytest.raises(WorktreeError, match="neither merged nor saved"):
        await remove(tree, runner.run)
    assert (Path(tree.path) / "untracked.txt").exists()
    digest = (await save_patch(tree, tmp_path / "one.patch", runner.run)).sha256
    assert digest == hashlib.sha256((tmp_path / "one.patch").read_bytes()).hexdigest()
    put(Path(tree.path), "later.txt", "more work\n")
    with pytest.raises(WorktreeError, match="neither merged nor saved"):
        await remove(tree, runner.run)
    (Path(tree.path) / "later.txt").unlink()
    git(Path(tree.path), "init", "-q", "own")
    with pytest.raises(WorktreeError, match="repositories"):
        await remove(tree, runner.run)
    shutil.rmtree(Path(tree.path) / "own")
    await remove(tree, runner.run)
    assert not Path(tree.path).exists() and not Path(tree.entry).exists() and not list(trees.iterdir())
    with pytest.raises(WorktreeError, match="not a worktree made by agent"):
        await remove(tree, runner.run)


async def test_a_worktree_of_a_living_process_or_of_somebody_else_stays(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    tree = await made(repo, trees, runner)
    other = subprocess.Popen(["sleep", "600"])
    try:
        fields = Path(f"/proc/{other.pid}/stat").read_bytes().rpartition(b")")[2].split()
        owner = Owner(other.pid, fields[19].decode(), tree.owner.host)
        write_record(msgspec.structs.replace(tree, owner=owner))
        with pytest.raises(WorktreeError, match="is working in"):
            await remove(tree, runner.run, discard=True)
    finally:
        other.kill()
        other.wait()
    git(repo, "worktree", "add", "-q", "--detach", str(trees / "foreign"))
    foreign = msgspec.structs.replace(tree, path=str(trees / "foreign"))
    with pytest.raises(WorktreeError, match="not a worktree made by agent"):
        await remove(foreign, runner.run, discard=True)
    write_record(msgspec.structs.replace(tree, owner=owner, entry=str(repo / ".git/worktrees/foreign")))
    with pytest.raises(WorktreeError, match="belongs to another worktree"):
        await remove(tree, runner.run, discard=True)
    write_record(msgspec.structs.replace(tree, owner=owner))
    await remove(tree, runner.run, discard=True)
    assert (trees / "foreign" / "a.txt").exists() and not Path(tree.path).exists()


async def test_a_tree_of_links_and_read_only_folders_is_removed_alone(
    repo: Path, trees: Path, runner: ProcessRunner, tmp_path: Path
) -> None:
    tree = await made(repo, trees, runner)
    path = Path(tree.path)
    put(tmp_path, "precious/x.txt", "x")
    for number, target in enumerate((repo, repo / "src", tmp_path / "precious", Path("/"), path)):
        (path / f"link{number}").symlink_to(target)
    (path / "locked/inner").mkdir(parents=True)
    (path / "locked/inner/hard").hardlink_to(repo / "a.txt")
    (path / "locked/inner/up").symlink_to("../../..")
    (path / "locked/inner").chmod(0o500)
    (path / "locked").chmod(0)
    os.mkfifo(path / "pipe")
    before = state(repo)
    await remove(tree, runner.run, discard=True)
    assert not path.exists() and state(repo) == before and (tmp_path / "precious/x.txt").exists()
    (trees / "elsewhere").symlink_to(repo)
    with pytest.raises(OSError):
        delete_tree(str(trees / "elsewhere"))
    assert (repo / "a.txt").exists()


def test_very_deep_folders_are_deleted(tmp_path: Path) -> None:
    top = tmp_path / "deep"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    delete_tree(str(top))
    assert not top.exists()


async def test_a_merged_worktree_may_go(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    tree = await made(repo, trees, runner)
    put(Path(tree.path), "b.txt", "theirs\n")
    assert (await merge(tree, repo / "src", runner.run)).applied == ("b.txt",)
    await remove(tree, runner.run)
    assert not Path(tree.path).exists()


async def test_ignored_files_are_copied_only_where_named(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    put(repo, "build/cache.bin", b"\0cache", 0o640)
    put(repo, ".env", "SECRET=1")
    put(repo, "x.log", "log")
    put(repo, ".worktreeinclude", "# what tests need\nbuild/\n*nv\n")
    tree = await made(repo, trees, runner)
    path = Path(tree.path)
    assert tree.carried == ("build/cache.bin",) and not (path / ".env").exists() and not (path / "x.log").exists()
    assert (path / "build/cache.bin").stat().st_mode & 0o777 == 0o640
    put(path, "build/cache.bin", b"changed")
    git(path, "add", "-f", "build/cache.bin")
    assert await patch(tree, runner.run) == b""
    put(repo, ".worktreeinclude", ".env\n")
    second = await made(repo, trees, runner, "two")
    assert second.carried == (".env",)


async def test_a_folder_below_the_top_has_its_counterpart(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    tree = await create(repo / "src", "one", trees, runner.run)
    assert tree.root == str(repo) and tree.folder == f"{tree.path}/src"


async def test_a_worktree_that_git_no_longer_knows_is_not_entered_but_its_changes_can_be_had(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    tree = await enter(repo, "one", trees, runner.run)
    put(Path(tree.path), "a.txt", "changed\n")
    assert await enter(repo, "one", trees, runner.run) == tree
    shutil.rmtree(tree.entry)  # as after the repository was cloned anew
    with pytest.raises(WorktreeError, match=r"cannot be written: No such file or directory.*its files are in"):
        await enter(repo, "one", trees, runner.run)
    assert await changed_files(tree, runner.run) == ("a.txt",)
    await merge(tree, repo, runner.run)
    assert (repo / "a.txt").read_text() == "changed\n"


async def test_a_linked_worktree_and_a_sparse_checkout_work_too(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    linked = repo.parent / "linked"
    git(repo, "worktree", "add", "-q", "-b", "side", str(linked))
    put(linked, "b.txt", "of the side\n")
    git(linked, "sparse-checkout", "set", "src")
    before = state(repo)
    tree = await made(linked, trees, runner)
    assert state(repo) == before and Path(tree.entry).parent == repo / ".git/worktrees"
    assert (Path(tree.path) / "src/run.sh").exists() and not (Path(tree.path) / "build").exists()
    assert git(Path(tree.path), "status", "--porcelain") == git(linked, "status", "--porcelain")
    put(Path(tree.path), "src/run.sh", "changed\n", 0o755)
    assert (await merge(tree, linked, runner.run)).applied == ("src/run.sh",)
    assert (linked / "src/run.sh").read_text() == "changed\n" and (
        repo / "src/run.sh"
    ).read_text() == "#!/bin/sh\n"


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        ("none", "is in no git repository"),
        ("unborn", "no commit"),
        ("submodule", "submodules that are checked out"),
        ("inside", "inside the repository"),
        ("link", "is a link"),
        ("borrowed", "does not know this folder"),
    ],
)
async def test_what_cannot_be_isolated_is_refused_and_leaves_nothing(
    repo: Path, trees: Path, runner: ProcessRunner, prepare: str, why: str
) -> None:
    root, folder = repo, trees
    match prepare:
        case "none":
            root = repo.parent / "plain"
            root.mkdir()
        case "unborn":
            root = repo.parent / "unborn"
            git(repo.parent, "init", "-q", "unborn")
        case "submodule":
            git(repo.parent, "clone", "-q", str(repo), "part")
            git(repo, "submodule", "--quiet", "add", str(repo.parent / "part"), "lib/part")
        case "inside":
            folder = repo / ".worktrees"
        case "link":
            first = await made(repo, trees, runner)
            await remove(first, runner.run)
            trees.mkdir(parents=True, exist_ok=True)
            (repo.parent / "elsewhere").mkdir()
            Path(first.path).parent.symlink_to(repo.parent / "elsewhere")
        case "borrowed":
            root = repo.parent / "borrowed"
            put(root, ".git", f"gitdir: {repo}/.git\n")
    before = state(root)
    with pytest.raises(WorktreeError, match=why):
        await create(root, "one", folder, runner.run)
    assert {name: each for name, each in state(root).items() if "worktrees" not in name} == before
    assert not list((repo / ".git/worktrees").glob("*")) and not list(folder.glob("*/one"))


async def test_a_submodule_that_is_not_checked_out_is_no_obstacle(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    git(repo.parent, "clone", "-q", str(repo), "part")
    git(repo, "submodule", "--quiet", "add", str(repo.parent / "part"), "lib/part")
    git(repo, "commit", "-q", "-m", "submodule")
    git(repo, "submodule", "--quiet", "deinit", "-f", "lib/part")
    tree = await made(repo, trees, runner)
    assert await patch(tree, runner.run) == b"" and (await merge(tree, repo, runner.run)).applied == ()


async def test_repositories_inside_are_named_and_left_out(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    git(repo, "init", "-q", "inner")
    put(repo, "inner/x.txt", "x")
    tree = await made(repo, trees, runner)
    assert tree.left_out == ("inner/",) and not (Path(tree.path) / "inner").exists()
    git(Path(tree.path), "init", "-q", "theirs")
    put(Path(tree.path), "theirs/x.txt", "x")
    assert (await merge(tree, repo, runner.run)).left_out == ("theirs/",)


async def test_a_file_that_cannot_be_read_leaves_nothing_behind(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    os.mkfifo(repo / "src/.gitignore")
    with pytest.raises(WorktreeError):
        await made(repo, trees, runner)
    assert not (repo / ".git/worktrees").exists() and worktrees(trees) == ()


async def test_commits_that_no_branch_has_keep_their_worktree(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    tree = await made(repo, trees, runner)
    path = Path(tree.path)
    put(path, "a.txt", "tried\n")
    git(path, "commit", "-q", "-a", "-m", "tried")
    git(path, "revert", "--no-edit", "HEAD")
    assert await changed_files(tree, runner.run) == ()
    with pytest.raises(WorktreeError, match="commits that no branch has"):
        await remove(tree, runner.run)
    git(path, "branch", "kept")
    git(repo, "pack-refs", "--all")
    await remove(tree, runner.run)
    assert not path.exists() and git(repo, "log", "--format=%s", "-2", "kept").startswith("Revert")


async def test_commits_keep_their_worktree_while_the_repository_is_elsewhere(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    """It was moved, or its disk is not mounted: no branch can be asked for the commits."""
    tree = await made(repo, trees, runner)
    put(Path(tree.path), "a.txt", "tried\n")
    git(Path(tree.path), "commit", "-q", "-a", "-m", "tried")
    await merge(tree, repo, runner.run)
    elsewhere = repo.rename(repo.with_name("elsewhere"))
    with pytest.raises(WorktreeError, match=r"is not there.*if it is gone for good, delete"):
        await remove(tree, runner.run)
    assert Path(tree.path, "a.txt").exists()
    elsewhere.rename(repo)
    git(Path(tree.path), "branch", "kept")
    await remove(tree, runner.run)
    assert not Path(tree.path).exists()


async def test_a_worktree_whose_folder_was_deleted_is_named_with_what_cleans_it(
    repo: Path, trees: Path, runner: ProcessRunner
) -> None:
    tree = await made(repo, trees, runner)
    shutil.rmtree(tree.path)
    with pytest.raises(WorktreeError, match="is gone; `agent worktree clean` removes"):
        await merge(tree, repo, runner.run)
    await remove(tree, runner.run)
    assert worktrees(trees) == ()


async def test_a_worktree_on_a_branch_of_its_own_may_go(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    tree = await made(repo, trees, runner)
    git(Path(tree.path), "switch", "-q", "-c", "mine")
    git(Path(tree.path), "commit", "-q", "--allow-empty", "-m", "mine")
    await remove(tree, runner.run)
    assert git(repo, "log", "--format=%s", "-1", "mine") == "mine\n"


async def test_a_file_of_patterns_keeps_nobody_waiting(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    """git tries every combination of the folders that `**` may stand for: of these, for longer than anybody has."""
    deep = "build/" + "/".join(["a" * 8] * 24)
    for name in ("one", "two", "three", "four"):
        put(repo, f"{deep}/{name}.bin", name)
    put(repo, ".worktreeinclude", "**/*a*a*a*a*/" * 6 + "zz\nbuild/**/one.*\n!four.bin\ntw?.bin\n")
    tree = await made(repo, trees, runner)
    assert sorted(tree.carried) == [f"{deep}/one.bin", f"{deep}/two.bin"]


@pytest.mark.parametrize(
    ("text", "why"), [("a\n[b\n", "line 2 is not a pattern"), ("a\n" * 1001, "1,001 patterns")]
)
async def test_a_file_of_patterns_that_cannot_be_read_is_told(
    repo: Path, trees: Path, runner: ProcessRunner, text: str, why: str
) -> None:
    put(repo, ".worktreeinclude", text)
    with pytest.raises(WorktreeError, match=why):
        await made(repo, trees, runner)
