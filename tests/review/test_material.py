"""What is reviewed, and what is left out and said."""

import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from agent_cli.review.diff import file_diffs
from agent_cli.review.git_reader import ReviewError
from agent_cli.review.material import PART_CHARS, Selection, collect, read_patch
from tests.review.repository import committed, git, material_of, put, reader
from tests.rows import each_row


async def test_uncommitted_changes_come_first_then_the_branch(tmp_path: Path) -> None:
    first = committed(tmp_path, {"a.py": "1\n"})
    git(tmp_path, "switch", "-qc", "topic")
    head = committed(tmp_path, {"a.py": "2\n"})
    branch = await material_of(tmp_path)
    assert (branch.target.kind, branch.target.base, branch.target.head) == ("base", first, head)
    assert "main" in branch.target.words and branch.is_work_tree
    put(tmp_path, {"b.py": "1\n"})
    now = await material_of(tmp_path)
    assert (now.target.kind, [each.path for each in now.files]) == ("uncommitted", ["b.py"])
    assert not (await material_of(tmp_path, Selection("base", "main"))).is_work_tree


async def test_a_branch_is_compared_with_where_it_left_its_base(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    git(tmp_path, "switch", "-qc", "topic")
    committed(tmp_path, {"b.py": "1\n"})
    git(tmp_path, "switch", "-q", "main")
    committed(tmp_path, {"c.py": "1\n"})
    git(tmp_path, "switch", "-q", "topic")
    found = await material_of(tmp_path, Selection("base", "main"))
    assert [each.path for each in found.files] == ["b.py"]


async def test_one_commit_and_the_first_one(tmp_path: Path) -> None:
    first = committed(tmp_path, {"a.py": "1\n"})
    committed(tmp_path, {"b.py": "1\n"})
    found = await material_of(tmp_path, Selection("commit", first[:10]))
    assert (found.target.head, [each.path for each in found.files]) == (first, ["a.py"])


async def test_the_oldest_commit_of_a_shallow_clone_is_not_taken_for_the_first(tmp_path: Path) -> None:
    """CI clones like that; the whole repository would be reviewed as new."""
    committed(tmp_path / "origin", {"a.py": "1\n"})
    head = committed(tmp_path / "origin", {"b.py": "1\n"})
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path}/origin", "clone")
    with pytest.raises(ReviewError, match="fetch-depth: 2"):
        await material_of(tmp_path / "clone", Selection("commit", head))
    git(tmp_path / "clone", "fetch", "-q", "--deepen=1")
    found = await material_of(tmp_path / "clone", Selection("commit", head))
    assert [each.path for each in found.files] == ["b.py"]


async def test_what_a_partial_clone_lacks_is_said_and_how_to_fetch_it(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    committed(origin, {"a.py": "1\n"})
    head = committed(origin, {"a.py": "2\n"})
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{origin}", "clone")
    with pytest.raises(ReviewError, match=r"git show.*partial clone"):
        await material_of(tmp_path / "clone", Selection("commit", head))
    git(tmp_path / "clone", "show", head)
    found = await material_of(tmp_path / "clone", Selection("commit", head))
    assert [each.path for each in found.files] == ["a.py"]


async def test_no_base_and_no_common_commit(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    git(tmp_path, "branch", "-qm", "topic")
    with pytest.raises(ReviewError, match="name one with --base"):
        await material_of(tmp_path)
    git(tmp_path, "checkout", "-q", "--orphan", "apart")
    git(tmp_path, "commit", "-qm", "apart")
    with pytest.raises(ReviewError, match="fetch-depth: 0"):
        await material_of(tmp_path, Selection("base", "topic"))


@pytest.mark.parametrize("applied", [False, True])
async def test_a_patch_before_and_after_it_was_applied(tmp_path: Path, applied: bool) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    put(tmp_path, {"a.py": "2\n"})
    patch = git(tmp_path, "diff").encode() + b"\n"
    if not applied:
        git(tmp_path, "checkout", "-q", ".")
    found = await material_of(tmp_path, Selection("patch", patch=patch, name="x.diff"))
    assert "+2" in found.parts[0] and found.is_work_tree is applied
    assert git(tmp_path, "diff").strip() == (patch.decode().strip() if applied else "")


ODD_PATCHES: dict[str, bytes] = {
    "a mode": b"diff --git a/a.py b/a.py\nold mode 100644\nnew mode 100755\n",
    "no prefixes": b"diff --git a.py a.py\n--- a.py\n+++ a.py\n@@ -1 +1 @@\n-1\n+2\n",
    "carriage returns on the way": b"--- a/a.py\r\n+++ b/a.py\r\n@@ -1 +1 @@\r\n-1\r\n+2\r\n",
    "carriage returns in the file": b"--- a/dos.txt\n+++ b/dos.txt\n@@ -1 +1 @@\n-1\r\n+2\r\n",
    "no line end": b"--- a/bare\n+++ b/bare\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n",
    "a name in octal": b'--- "a/gr\\303\\266\\303\\237e"\n+++ "b/gr\\303\\266\\303\\237e"\n@@ -1 +1 @@\n-1\n+2\n',
    "a letter around it": b"From: T\n\nWords.\n---\n a.py | 2 +-\n\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n-- \n2.39\n",
    "a file that is called so": b"--- a/dev/null\n+++ b/dev/null\n@@ -0,0 +1 @@\n+1\n",
    "a new name": b"diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n",
}  # fmt: skip


@each_row("applied", [False, True])
@each_row("name", ODD_PATCHES)
async def test_odd_patches_before_and_after_they_were_applied(tmp_path: Path, name: str, applied: bool) -> None:
    committed(tmp_path, {"a.py": "1\n", "dos.txt": "1\r\n", "bare": "1", "größe": "1\n"})
    if applied:
        put(
            tmp_path / ".git",
            {"p": ODD_PATCHES[name].replace(b"\r\n", b"\n") if "way" in name else ODD_PATCHES[name]},
        )
        git(tmp_path, "apply", "--index", *(["-p0"] if name == "no prefixes" else []), ".git/p")
    found = await material_of(tmp_path, Selection("patch", patch=ODD_PATCHES[name], name="x.patch"))
    assert len(found.files) == 1 and not found.omitted and found.is_work_tree == applied
    assert found.files[0].path == {
        "carriage returns in the file": "dos.txt", "no line end": "bare", "a name in octal": "größe",
        "a file that is called so": "dev/null", "a new name": "b.py",
    }.get(name, "a.py")  # fmt: skip


async def test_a_new_file_is_not_mistaken_for_one_elsewhere(tmp_path: Path) -> None:
    new = b"new file mode 100644\n--- /dev/null\n+++ %s\n@@ -0,0 +1 @@\n+1\n"
    committed(tmp_path, {"a.py": "2\n"})
    with pytest.raises(ReviewError, match="fits neither"):  # not a new file b/a.py
        patch = b"diff --git a/a.py b/a.py\n" + new % b"b/a.py"
        await material_of(tmp_path, Selection("patch", patch=patch, name="x.patch"))
    bare = b"diff --git src/new.py src/new.py\n" + new % b"src/new.py"
    found = await material_of(tmp_path, Selection("patch", patch=bare, name="x.patch"))
    assert [each.path for each in found.files] == ["src/new.py"]


@pytest.mark.parametrize("patch", [b"", b"\0\xff\x1b[31m", b"@@@ -1 -1 +1 @@@\n++1\n"])
async def test_what_is_no_patch(tmp_path: Path, patch: bytes) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    with pytest.raises(ReviewError, match="no patch in it that git can read"):
        await material_of(tmp_path, Selection("patch", patch=patch, name="x.patch"))


async def test_a_patch_that_does_not_fit(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    outside = b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+1\n"
    wrong = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-7\n+8\n"
    for patch in (wrong, outside):
        with pytest.raises(ReviewError, match="fits neither"):
            await material_of(tmp_path, Selection("patch", patch=patch))


async def test_what_is_not_reviewed_is_named(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n", "image": b"\0\1"})
    put(
        tmp_path,
        {
            "a.py": "2\n", "image": b"\0\2", "uv.lock": "x\n", "big.txt": "x" * 1_100_000, "secret.env": "1\n",
            "odd\nname": "1\n",
        },
    )  # fmt: skip
    found = await material_of(tmp_path, may_show=lambda path: path != "secret.env")
    assert [each.path for each in found.files] == ["a.py"]
    assert {(each.path, each.is_gap) for each in found.omitted} == {
        ("image", False), ("uv.lock", False), ("secret.env", False), ("odd\nname", True), ("big.txt", True),
    }  # fmt: skip
    assert "secret" not in found.parts[0] and found.target.diff


async def test_a_patch_that_never_ends_is_not_read_on() -> None:
    with pytest.raises(ReviewError, match="larger than"):
        await read_patch(Path("/dev/zero"))


async def test_a_long_diff_is_read_in_parts(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    put(tmp_path, {f"f{at}.py": "x = 1\n" * 5000 for at in range(5)})
    found = await material_of(tmp_path)
    assert len(found.parts) == 3 and all(len(part) <= PART_CHARS for part in found.parts)
    assert sum(part.count("diff --git") for part in found.parts) == 5


async def test_a_long_file_is_cut_at_lines(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    put(tmp_path, {"long.py": "".join(f"x{at} = {at}\n" for at in range(12_000))})
    found = await material_of(tmp_path)
    hunks = [hunk for part in found.parts for each in file_diffs(part) for hunk in each.hunks]
    assert len(found.parts) > 2 and not found.omitted
    assert sorted(line for hunk in hunks for line in hunk.added) == list(range(1, 12_001))
    assert "x11999 = 11999" in found.parts[-1] and all(part.startswith("diff --git") for part in found.parts)


async def test_a_diff_beyond_all_parts_is_a_gap(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n", "gone.py": "x = 1\n" * 9_000})
    put(tmp_path, {f"f{at}.py": "x = 1\n" * 75_000 for at in range(2)} | {"b.js": "x" * 200_000})
    (tmp_path / "gone.py").unlink()
    found = await material_of(tmp_path)
    assert {(each.path, each.is_gap) for each in found.omitted} == {
        ("b.js", True), ("f1.py", True), ("gone.py", False),
    }  # fmt: skip
    assert len(found.parts) == 8


async def test_a_hundred_thousand_lines_are_read_as_far_as_there_is_room_and_the_rest_is_named(
    tmp_path: Path,
) -> None:
    committed(tmp_path, {"README": "1\n"})
    put(
        tmp_path,
        {
            f"f{at:02}.py": "".join(f"x{at}_{line} = {line}{' ' * 40}\n" for line in range(2000))
            for at in range(50)
        },
    )
    async with reader(tmp_path) as git:
        tracemalloc.start()
        found = await collect(git, Selection(), lambda path: True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    read = Counter(
        line.partition("_")[0] for part in found.parts for line in part.splitlines() if line[:2] == "+x"
    )
    assert peak < 25 << 20 and 500_000 < sum(map(len, found.parts)) <= 640_000
    assert all(len(part) <= PART_CHARS for part in found.parts)
    gaps = {each.path: each.reason for each in found.omitted if each.is_gap}
    for at in range(50):
        path, rows = f"f{at:02}.py", read[f"+x{at}"]
        partly = (
            f"the whole diff is too long; not reviewed from line {rows + 1} on"
            if rows
            else "the whole diff is too long"
        )
        assert rows == 2000 if path not in gaps else gaps[path] == partly
    assert len(found.files) < 50, "what has no room is not read"


async def test_a_large_binary_file_is_no_gap_and_modes_count_only_where_they_can(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    put(tmp_path, {"model.bin": b"\0" * 1_100_000})
    (tmp_path / "a.py").chmod(0o755)
    assert [each.path for each in (await material_of(tmp_path)).files] == ["a.py"]
    git(tmp_path, "config", "core.fileMode", "false")
    found = await material_of(tmp_path, Selection("uncommitted"))
    assert not found.files and [(each.path, each.is_gap) for each in found.omitted] == [("model.bin", False)]


async def test_uses_of_changed_names_are_listed(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "def total(x):\n    return x\n", "b.py": "from a import total\n\ntotal(1)\n"})
    put(tmp_path, {"a.py": "def total(x, y):\n    return x\n"})
    found = await material_of(tmp_path)
    assert found.uses.splitlines() == ["b.py:1: from a import total", "b.py:3: total(1)"]


async def test_the_hash_of_the_diff_is_that_of_all_its_content(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n", "image": b"\0\1"})
    put(tmp_path, {"image": b"\0\2"})
    one = (await material_of(tmp_path)).target.diff
    assert one == (await material_of(tmp_path)).target.diff
    put(tmp_path, {"image": b"\0\3"})
    assert one != (await material_of(tmp_path)).target.diff
