"""Without git: what tools write is restored, and what is not covered is said."""

from pathlib import Path

from agent_cli.workspace.checkpoints.copy_store import NOTE, Copies
from agent_cli.workspace.checkpoints.types import Move
from tests.workspace.checkpoints.test_git_store import picture


async def test_written_files_are_restored_and_redone(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a").write_bytes(b"one\r\n")
    (root / "sub" / "a").chmod(0o600)
    (root / "link").symlink_to("sub/a")
    copies = Copies(root, tmp_path / "store")
    start = picture(root)
    before = await copies.take()
    for name in ("sub/a", "new/file", "link"):
        before = await copies.cover(str(root / name), before)
    (root / "sub" / "a").write_bytes(b"two\n")
    (root / "new").mkdir()
    (root / "new" / "file").write_bytes(b"\x00\xff")
    (root / "link").unlink()
    end = picture(root)
    after = await copies.take()

    changes = {
        change.path: (change.kind, change.added, change.removed) for change in await copies.changes(before, after)
    }
    assert changes["sub/a"] == ("modified", 1, 1)
    assert (changes["new/file"][0], changes["link"][0]) == ("created", "deleted")
    report = await copies.carry_out([Move(after, before)])
    assert (report.conflicts, report.notes) == ((), (NOTE,))
    assert picture(root) == start
    await copies.carry_out([Move(before, after)])
    assert picture(root) == end


async def test_a_file_changed_since_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a").write_bytes(b"one")
    copies = Copies(root, tmp_path / "store")
    before = await copies.cover(str(root / "a"), await copies.take())
    (root / "a").write_bytes(b"two")
    after = await copies.take()
    (root / "a").write_bytes(b"by the user")
    report = await copies.carry_out([Move(after, before)])
    assert [conflict.path for conflict in report.conflicts] == ["a"]
    assert (root / "a").read_bytes() == b"by the user"
