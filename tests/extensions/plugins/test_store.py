"""What the user agreed to is what lies in the store: whole, unchanged, and for as long as a session uses it."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from agent_cli.extensions.plugins.layouts import read_plugin
from agent_cli.extensions.plugins.plugin import PluginError
from agent_cli.extensions.plugins.store import Installed, PluginStore
from agent_cli.extensions.plugins.tree import MAX_FILES, copy_tree, digest
from tests.fuzz import LEVEL

from .made import claude, write


def put(store: PluginStore, source: Path, name: str = "tools") -> Installed:
    """Install a plug-in as `agent plugin add` does."""
    with store.scratch() as scratch:
        copy_tree(source, scratch / "plugin")
        installed = Installed(hash=digest(scratch / "plugin", name), source=str(source))
        store.put(name, scratch / "plugin", installed)
    return store.installed()[name]


@pytest.fixture
def store(tmp_path: Path) -> PluginStore:
    return PluginStore(tmp_path / "plugins")


def test_what_was_put_is_there_and_unchanged(store: PluginStore, tmp_path: Path) -> None:
    source = claude(tmp_path / "source")
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("x", encoding="utf-8")
    (source / "guard.py").chmod(0o755)
    (source / "alias.py").symlink_to("guard.py")
    installed = put(store, source)
    root = store.root("tools", installed)
    assert not store.problem("tools", installed) and not store.problem("tools", installed, in_full=True)
    assert read_plugin(root, "tools").name == "tools" and not (root / ".git").exists()
    assert os.readlink(root / "alias.py") == "guard.py" and (root / "guard.py").stat().st_mode & 0o777 == 0o555
    assert put(store, source).hash == installed.hash


def test_the_hash_covers_name_paths_rights_and_bytes(tmp_path: Path) -> None:
    root = write(tmp_path / "p", {"a": "1", "b/c": "2"})
    found = [digest(root, "p"), digest(root, "q")]
    (root / "a").chmod(0o700)
    found.append(digest(root, "p"))
    (root / "a").write_text("3", encoding="utf-8")
    found.append(digest(root, "p"))
    (root / "a").rename(root / "d")
    found.append(digest(root, "p"))
    (root / "e").symlink_to("d")
    found.append(digest(root, "p"))
    assert len(set(found)) == 6


def damage_byte(root: Path) -> None:
    file = root / "guard.py"
    before = file.stat()
    file.chmod(0o600)
    file.write_bytes(file.read_bytes().replace(b"print", b"prinT"))
    file.chmod(before.st_mode)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def damage_extra(root: Path) -> None:
    (root / "skills" / "look" / "more.md").write_text("x", encoding="utf-8")


def damage_rights(root: Path) -> None:
    (root / "guard.py").chmod(0o755)


def damage_gone(root: Path) -> None:
    (root / "guard.py").unlink()


def damage_link(root: Path) -> None:
    (root / "guard.py").unlink()
    (root / "guard.py").symlink_to("/etc/passwd")


def damage_pipe(root: Path) -> None:
    os.mkfifo(root / "pipe")


def damage_git(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("x", encoding="utf-8")


@pytest.mark.parametrize(
    "damage",
    [damage_byte, damage_extra, damage_rights, damage_gone, damage_link, damage_pipe, damage_git],
)
def test_any_change_is_seen_and_adding_it_again_repairs_it(
    store: PluginStore, tmp_path: Path, damage: object
) -> None:
    source = claude(tmp_path / "source")
    installed = put(store, source)
    assert callable(damage)
    damage(store.root("tools", installed))
    assert "have changed since you agreed" in store.problem("tools", installed)
    put(store, source)
    assert not store.problem("tools", installed, in_full=True)


def test_other_times_alone_are_no_change(store: PluginStore, tmp_path: Path) -> None:
    installed = put(store, claude(tmp_path / "source"))
    os.utime(store.root("tools", installed) / "guard.py", ns=(1, 1))
    assert not store.problem("tools", installed)


def test_files_that_are_gone_are_said_to_be(store: PluginStore) -> None:
    assert store.problem("x", Installed(hash="0", source="")) == "its files are gone"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../out", "sub/../../out", "hop/out"])
def test_links_out_are_refused(tmp_path: Path, target: str) -> None:
    root = write(tmp_path / "p", {"a": "1", "sub/b": "2"})
    (tmp_path / "out").write_text("secret", encoding="utf-8")
    (root / "hop").symlink_to("..")
    (root / "link").symlink_to(target)
    with pytest.raises(PluginError, match="leads out"):
        copy_tree(root, tmp_path / "copy")


def test_devices_too_many_files_and_too_much_are_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "p", {"a": "1"})
    os.mkfifo(root / "pipe")
    with pytest.raises(PluginError, match="device, pipe"):
        copy_tree(root, tmp_path / "copy1")
    (root / "pipe").unlink()
    with (root / "large").open("wb") as file:
        file.truncate(60_000_000)
    with pytest.raises(PluginError, match="too large"):
        copy_tree(root, tmp_path / "copy2")
    (root / "large").unlink()
    deep = root
    for _ in range(40):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with pytest.raises(PluginError, match="too deep"):
        copy_tree(root, tmp_path / "copy3")
    for number in range(MAX_FILES):
        os.link(root / "a", root / f"f{number}")
    with pytest.raises(PluginError, match="more than"):
        copy_tree(root, tmp_path / "copy4")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_a_device_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "p", {"a": "1"})
    try:
        os.mknod(root / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no device can be made here")
    with pytest.raises(PluginError, match="device"):
        copy_tree(root, tmp_path / "copy")


def test_a_version_stays_while_somebody_holds_it(store: PluginStore, tmp_path: Path) -> None:
    source = claude(tmp_path / "source")
    old = put(store, source)
    root = store.root("tools", old)
    reader = os.open(root, os.O_RDONLY)
    fcntl.flock(reader, fcntl.LOCK_SH)
    (source / "guard.py").write_text("print(2)\n", encoding="utf-8")
    new = put(store, source)
    assert root.is_dir() and store.root("tools", new).is_dir() and store.is_in_use("tools", old.hash)
    os.close(reader)
    store.change("tools", lambda found: msgspec.structs.replace(found, enabled=False))
    assert not root.exists() and not store.problem("tools", new) and not store.installed()["tools"].enabled
    store.change("tools", lambda _: None)
    assert not store.installed() and not list(store.folder.iterdir())


def test_hold_keeps_files_until_the_process_ends_and_fails_where_there_are_none(
    store: PluginStore, tmp_path: Path
) -> None:
    installed = put(store, claude(tmp_path / "source"))
    assert store.hold("tools", installed) and store.is_in_use("tools", installed.hash)
    assert not store.hold("tools", Installed(hash="0", source=""))


def test_a_list_that_cannot_be_read_is_no_empty_list(store: PluginStore, tmp_path: Path) -> None:
    put(store, claude(tmp_path / "source"))
    (tmp_path / "plugins" / "installed.json").write_text("{", encoding="utf-8")
    with pytest.raises(PluginError, match="cannot be read"):
        store.installed()
    with pytest.raises(PluginError, match="cannot be read"):
        put(store, claude(tmp_path / "other", name="other"), "other")


def test_what_changed_between_question_and_answer_is_not_added(store: PluginStore, tmp_path: Path) -> None:
    with store.scratch() as scratch:
        copy_tree(claude(tmp_path / "source"), scratch / "plugin")
        installed = Installed(hash=digest(scratch / "plugin", "tools"), source="x")
        damage_byte(scratch / "plugin")
        with pytest.raises(PluginError, match="has changed since it was shown"):
            store.put("tools", scratch / "plugin", installed)
    assert not store.installed() and not list(store.folder.iterdir())


def test_the_draft_of_a_killed_process_goes_with_the_next_change(store: PluginStore, tmp_path: Path) -> None:
    put(store, claude(tmp_path / "source"))
    ended = subprocess.run(
        [sys.executable, "-Sc", "import os; print(os.getpid())"], capture_output=True, timeout=60
    )
    drafts = [
        store.folder / "tools" / f".agent-{pid}-0123456789ab.tmp" for pid in (int(ended.stdout), os.getpid())
    ]
    for draft in drafts:
        draft.touch()
    store.change("tools", lambda installed: installed)
    assert [draft.exists() for draft in drafts] == [False, True]


KILLED = """
import os, signal, sys
from pathlib import Path
from agent_cli.extensions.plugins.store import Installed, PluginStore
from agent_cli.extensions.plugins.tree import copy_tree, digest
events, kill_at = [0], int(sys.argv[3])
def watch(event, arguments):
    if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.symlink"):
        events[0] += 1
        if events[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
store, source = PluginStore(Path(sys.argv[1])), Path(sys.argv[2])
sys.addaudithook(watch)
with store.scratch() as scratch:
    copy_tree(source, scratch / "plugin")
    installed = Installed(hash=digest(scratch / "plugin", "tools"), source=str(source))
    store.put("tools", scratch / "plugin", installed)
events[0] = -10**9
print("whole")
"""


def test_kill_at_any_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    old, new = claude(tmp_path / "old"), claude(tmp_path / "new", description="other")
    store = PluginStore(tmp_path / "plugins")
    before = put(store, old).hash
    after = put(PluginStore(tmp_path / "elsewhere"), new).hash
    seen, kill_at = set(), 1
    while True:
        command = [sys.executable, "-c", KILLED, str(tmp_path / "plugins"), str(new), str(kill_at)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        installed = store.installed()["tools"]
        assert installed.hash in (before, after) and not store.problem("tools", installed, in_full=True)
        seen.add(installed.hash)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        put(store, old)
        kill_at += 3 if LEVEL else 14
    assert seen == {before, after}
    assert [path.name for path in store.folder.iterdir()] == ["tools"]
    assert {path.name for path in (store.folder / "tools").iterdir()} == {after, f"{after}.stamps"}
