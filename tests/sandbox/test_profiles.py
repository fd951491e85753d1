"""What the mechanisms are told, as text: mounts in their order, rules that allow, the profile of macOS."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agent_cli.fs.real_path import RealPaths
from agent_cli.sandbox.mechanisms import bubblewrap, landlock, seatbelt
from agent_cli.sandbox.mechanisms.bubblewrap import HostFacts, arguments
from agent_cli.sandbox.mechanisms.select import Mechanism, resolve_confinement, spawn_request
from agent_cli.sandbox.profile.confinement import Confinement

ROOT = Path(__file__).parent.parent.parent
WORK = "/home/u/work"
CONFINED = Confinement(
    writable=(WORK,),
    read_only=(f"{WORK}/.git/hooks", f"{WORK}/.git/config", f"{WORK}/.envrc"),
    hidden=("/home/u/.ssh", "/home/u/.netrc", f"{WORK}/.env", "/tmp/x/.env"),
    tmp="/home/u/state/tmp",
)
GROUND = HostFacts(
    uid=1000,
    folders=frozenset({WORK, f"{WORK}/.git/hooks", "/home/u/.ssh"}),
    files=frozenset({f"{WORK}/.git/config", "/home/u/.netrc", f"{WORK}/.env", "/tmp/x/.env"}),
    there=frozenset({"/tmp", "/var/tmp", "/run", "/proc/sys"}),
    needed=("/tmp/venv",),
    sockets=("/home/u/agent.sock", f"{WORK}/s"),
    resolver="/run/systemd/resolve/stub-resolv.conf",
)
COUNTS = {"--ro-bind": 2, "--bind": 2, "--tmpfs": 1, "--dev": 1, "--proc": 1, "--remount-ro": 1, "--chdir": 1,
          "--cap-drop": 1, "--cap-add": 1}  # fmt: skip


def steps(
    confinement: Confinement = CONFINED,
    ground: HostFacts = GROUND,
    *,
    new_users: bool = True,
    own_proc: bool = True,
) -> list[tuple[str, ...]]:
    words = arguments(confinement, ground, WORK, new_users=new_users, own_proc=own_proc)
    found = []
    while words:
        count = COUNTS.get(words[0], 0)
        found.append(tuple(words[: count + 1]))
        words = words[count + 1 :]
    return found


def test_mounts_come_in_the_order_in_which_they_cover_each_other() -> None:
    order = [step for step in steps() if len(step) > 1]
    assert order == [
        ("--ro-bind", "/", "/"),
        ("--dev", "/dev"),
        ("--proc", "/proc"),
        ("--tmpfs", "/run"),
        ("--bind", "/home/u/state/tmp", "/tmp"),
        ("--bind", "/home/u/state/tmp", "/var/tmp"),
        ("--ro-bind", "/tmp/venv", "/tmp/venv"),
        ("--ro-bind", "/dev/null", "/home/u/.netrc"),
        ("--tmpfs", "/home/u/.ssh"),
        ("--bind", WORK, WORK),
        ("--bind", f"{WORK}/.git", f"{WORK}/.git"),
        ("--ro-bind", f"{WORK}/.git/config", f"{WORK}/.git/config"),
        ("--ro-bind", f"{WORK}/.git/hooks", f"{WORK}/.git/hooks"),
        ("--ro-bind", "/dev/null", f"{WORK}/.env"),
        ("--ro-bind", "/dev/null", "/home/u/agent.sock"),
        ("--ro-bind", "/dev/null", f"{WORK}/s"),
        ("--remount-ro", "/home/u/.ssh"),
        ("--chdir", WORK),
    ]


def test_the_network_is_cut_unless_it_is_open() -> None:
    assert ("--unshare-net",) in steps()
    open_ = steps(Confinement(writable=(WORK,), network="open"))
    assert ("--unshare-net",) not in open_
    assert ("--ro-bind", GROUND.resolver, GROUND.resolver) in open_
    assert ("--ro-bind", "/dev/null", f"{WORK}/s") not in open_  # it may be of a command before


def test_root_cannot_change_the_kernel_and_keeps_what_its_files_need() -> None:
    root = steps(
        ground=HostFacts(uid=0, folders=frozenset({WORK}), there=frozenset({"/proc/sys"})), new_users=False
    )
    assert ("--ro-bind", "/proc/sys", "/proc/sys") in root and ("--unshare-user",) not in root
    assert root.index(("--cap-drop", "ALL")) < root.index(("--cap-add", "CAP_DAC_OVERRIDE"))
    assert ("--cap-drop", "ALL") not in steps()


def test_without_a_proc_of_its_own_it_sees_that_of_the_machine_unchangeable() -> None:
    assert ("--ro-bind", "/proc", "/proc") in steps(own_proc=False)


def test_a_writable_root_covers_none_of_our_own_mounts() -> None:
    order = steps(
        Confinement(writable=("/", "/proc", WORK)), HostFacts(0, folders=frozenset({"/", "/proc", WORK}))
    )
    assert ("--bind", "/", "/") in order and ("--bind", "/proc", "/proc") not in order
    assert [step for step in order if step[-1] == "/"] == [("--bind", "/", "/")]


def test_without_a_folder_for_it_tmp_is_new_and_empty() -> None:
    assert ("--tmpfs", "/tmp") in steps(Confinement(writable=(WORK,)))


def test_deep_repositories_cannot_be_moved_away() -> None:
    path = f"{WORK}/a/.git/modules/x/config"
    ground = HostFacts(1000, folders=frozenset({WORK}), files=frozenset({path}))
    order = steps(Confinement(writable=(WORK,), read_only=(path,)), ground)
    fixed = [step[1].removeprefix(WORK) for step in order if step[0] == "--bind" and step[1] != WORK]
    assert fixed == ["/a/.git", "/a/.git/modules", "/a/.git/modules/x"]


def test_what_is_hidden_cannot_be_moved_away_for_the_next_command() -> None:
    path = f"{WORK}/a/b/secret"
    ground = HostFacts(1000, folders=frozenset({WORK}), files=frozenset({path}))
    order = steps(Confinement(writable=(WORK,), hidden=(path, f"{WORK}/c/absent")), ground)
    assert [step[1].removeprefix(WORK) for step in order if step[0] == "--bind"] == ["", "/a", "/a/b"]


def test_what_a_rule_closes_to_writing_cannot_be_moved_away_for_the_next_command() -> None:
    path = f"{WORK}/a/b/kept"
    ground = HostFacts(1000, folders=frozenset({WORK}), files=frozenset({path}))
    order = steps(Confinement(writable=(WORK,), read_only=(path,), pinned=(path, f"{WORK}/c/absent")), ground)
    assert [step[1].removeprefix(WORK) for step in order if step[0] == "--bind"] == ["", "/a", "/a/b"]


def test_looking_finds_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "bin").mkdir()
    paths = tuple(str(tmp_path / name) for name in ("folder", "file", "absent"))
    found = bubblewrap.look(
        Confinement(writable=paths), {"PATH": f"relative:{tmp_path}/bin", "HOME": "/home/u"}, RealPaths()
    )
    assert found.folders == {paths[0]} and found.files == {paths[1]}
    assert str(tmp_path) in found.needed or not str(tmp_path).startswith("/tmp")


CLOSED = """
import os, sys
from agent_cli.fs.real_path import RealPaths
from agent_cli.sandbox.mechanisms.bubblewrap import look
from agent_cli.sandbox.profile.confinement import Confinement
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
closed, *_, mine, readable = paths = sys.argv[1:]
def files(*writable):
    return sorted(look(Confinement(writable=writable, hidden=tuple(paths)), {}, RealPaths()).files)
open(mine, "w").close()
os.chmod(mine, 0)
assert files() == sorted((mine, readable)), files()
assert files(os.path.dirname(closed)) == sorted(paths), files(os.path.dirname(closed))
"""


def test_what_is_closed_to_us_anyway_needs_no_mount(tmp_path: Path) -> None:
    """A file that we could open again, and one in a folder that commands may write, stay hidden."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as open_to_all:
        folder = Path(open_to_all)
        folder.chmod(0o777)
        closed = "/proc/1/environ" if os.getuid() else str(folder / "closed")
        if not os.getuid():
            Path(closed).touch(mode=0o600)
        program = [sys.executable, "-c", CLOSED, closed, str(folder / "mine"), "/etc/passwd"]
        subprocess.run(program, check=True, timeout=60, cwd=ROOT)


def test_landlock_leaves_out_what_is_hidden_and_nothing_else(tmp_path: Path) -> None:
    base = Path(os.path.realpath(tmp_path))
    for name in ("home/.ssh", "home/docs", "work"):
        (base / name).mkdir(parents=True)
    for name in ("home/.netrc", "home/.profile"):
        (base / name).touch()
    (base / "home" / "link").symlink_to(".ssh")
    confinement = Confinement(
        writable=(str(base / "work"),), hidden=(str(base / "home/.ssh"), str(base / "home/.netrc"))
    )
    env = {"PATH": "/usr/bin", "HOME": str(base / "home")}
    found = {os.fsdecode(path): right for right, path in landlock.rules(confinement, env, RealPaths())}
    ours = {path.removeprefix(f"{base}/"): right for path, right in found.items() if path.startswith(f"{base}/")}
    assert {name: ours.get(name) for name in ("home", "home/docs", "home/.profile", "work")} == {
        "home": "list", "home/docs": "read", "home/.profile": "read", "work": "write"
    }  # fmt: skip
    assert not {"home/.ssh", "home/.netrc", "home/link"} & ours.keys()
    assert found["/usr"] == "read" and "/run" not in found and "/tmp" not in found


def test_the_profile_of_macos_denies_by_default_and_hides_last() -> None:
    text = seatbelt.profile(CONFINED)
    assert text.startswith("(version 1)\n(deny default)\n")
    places = [text.index(part) for part in (
        '(allow file-write*\n  (subpath "/home/u/work")\n  (subpath "/home/u/state/tmp"))',
        f'(deny file-write*\n  (subpath "{WORK}/.git/hooks")',
        '(deny file-read* file-write*\n  (subpath "/home/u/.ssh")',
        f'(deny file-write-unlink\n  (literal "{WORK}/.git"))',
    )]  # fmt: skip
    assert places == sorted(places)
    assert "network-outbound" not in text and "(allow network*)" in seatbelt.profile(
        Confinement((), network="open")
    )
    assert text.count("(") == text.count(")")


def test_a_path_cannot_end_the_string_it_is_in() -> None:
    text = seatbelt.profile(Confinement(writable=('/x") (allow default) ("\\',)))
    assert '(subpath "/x\\") (allow default) (\\"\\\\")' in text
    with pytest.raises(ValueError, match="control characters"):
        seatbelt.profile(Confinement(writable=("/x\n",)))


def test_a_link_in_the_place_of_a_folder_makes_nothing_writable_and_unhides_nothing(tmp_path: Path) -> None:
    base = Path(os.path.realpath(tmp_path))
    for name in ("work/.git/hooks", "work/inner", "home/.ssh", "home/hooks"):
        (base / name).mkdir(parents=True)
    (base / "work" / "sub").symlink_to("../home")
    (base / "work" / "hooks").symlink_to("../home/.ssh")
    (base / "work" / "secret").symlink_to("../home/token")
    (base / "home" / "token").touch()
    work, home = str(base / "work"), str(base / "home")
    found = resolve_confinement(
        Confinement(
            writable=(work, f"{work}/sub", f"{work}/inner"),
            read_only=(f"{work}/hooks", f"{work}/.git/hooks", f"{work}/sub/hooks"),
            hidden=(f"{work}/secret", f"{home}/.ssh"),
        ),
        RealPaths(),
    )
    assert found == Confinement(
        writable=(work,),
        read_only=(f"{home}/.ssh", f"{work}/.git/hooks", f"{home}/hooks"),
        hidden=(f"{home}/token", f"{home}/.ssh"),
    )
    order = spawn_request(Mechanism("bubblewrap", "/bin/sh"), found, ["true"], {}, base / "work").wrap
    assert order is not None and isinstance(order[2], bytes)
    words = order[2].decode().split("\0")
    bound = [words[at + 1] for at, word in enumerate(words) if word in ("--bind", "--ro-bind")]
    assert not [path for path in bound if path.startswith(home)]


@pytest.mark.parametrize("variable", ["PATH", "HOME", "VIRTUAL_ENV"])
def test_what_earlier_commands_set_makes_nothing_visible(tmp_path: Path, variable: str) -> None:
    env = {variable: str(tmp_path / "bin")}
    (tmp_path / "bin").mkdir()
    order = spawn_request(Mechanism("bubblewrap", "/bin/sh"), Confinement(()), ["true"], env, Path("/"))
    assert order.wrap is not None and os.fsencode(tmp_path) not in order.wrap[2]  # type: ignore[operator]


def test_of_the_folders_below_tmp_only_the_readable_ones_are_shown(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for folder in (tmp_path / "other", work):
        folder.mkdir()
    for confinement, needed in (
        (Confinement(writable=(str(work),)), ()),
        (Confinement((), readable=(str(work),)), (str(work),)),
    ):
        found = bubblewrap.look(confinement, {}, RealPaths()).needed
        assert tuple(path for path in found if path.startswith(str(tmp_path))) == needed


def test_what_is_mounted_further_down_in_tmp_hangs_below_a_mount_of_its_own() -> None:
    confinement = Confinement(writable=("/tmp/report/1", "/var/tmp/w", "/tmp/gone/x"), tmp="/home/u/state/tmp")
    ground = HostFacts(
        1000,
        folders=frozenset({"/tmp/report/1", "/var/tmp/w"}),
        there=frozenset({"/tmp", "/var/tmp", "/run"}),
        needed=("/run/user/venv", "/tmp/venv", "/tmp/venv2/lib/x"),
    )
    assert bubblewrap.tops(confinement, ground) == ("/tmp/report", "/tmp/venv", "/tmp/venv2", "/var/tmp/w")
    order = steps(confinement, ground)
    assert [step[1] for step in order if step[0] == "--tmpfs"] == ["/run", "/tmp/report", "/tmp/venv2"]
    at = order.index(("--tmpfs", "/tmp/report"))
    assert order.index(("--bind", "/home/u/state/tmp", "/tmp")) < at
    assert at < order.index(("--bind", "/tmp/report/1", "/tmp/report/1"))


def test_a_link_or_file_in_the_way_of_a_mount_in_tmp_is_removed_and_a_folder_stays(tmp_path: Path) -> None:
    tmp = tmp_path / "tmp"
    work = next(path for path in tmp_path.resolve().parents if path.parent.name == "tmp")
    if work.parent != Path("/tmp"):
        pytest.skip("the temporary folder is elsewhere")
    (tmp / "kept").mkdir(parents=True)
    (tmp / work.name).symlink_to("../../oldroot/home")
    spawn_request(
        Mechanism("bubblewrap", "/bin/sh"), Confinement((str(tmp_path),), tmp=str(tmp)), ["true"], {}, tmp_path
    )
    assert os.listdir(tmp) == ["kept"]
    (tmp / work.name).mkdir()
    spawn_request(
        Mechanism("bubblewrap", "/bin/sh"), Confinement((str(tmp_path),), tmp=str(tmp)), ["true"], {}, tmp_path
    )
    assert sorted(os.listdir(tmp)) == sorted(["kept", work.name])


def test_what_is_asked_for_is_what_is_expected_to_be_mounted() -> None:
    words = ["--new-session", "--ro-bind", "/", "/", "--cap-add", "--bind", "--dev", "/dev", "--proc", "/proc",
             "--tmpfs", "/a", "--bind", "/x", "/b", "--remount-ro", "/a", "--chdir", "--tmpfs"]  # fmt: skip
    assert bubblewrap.expected_mounts(words) == (
        (b"/", b"/", True), (b"/dev", b"", False), (b"/a", b"", True), (b"/b", b"/x", False)
    )  # fmt: skip
