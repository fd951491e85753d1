"""Mounts that do not lie where they were asked for are found before anything runs, whoever moved them."""

import os
import shutil
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent_cli.sandbox.helper import mount_check
from agent_cli.sandbox.helper.mount_check import MountTree, are_complete, misplaced_mounts
from agent_cli.sandbox.helper.mount_gate import Gate, MountCheckError
from agent_cli.sandbox.helper.spawn import spawn_in_bubblewrap
from agent_cli.sandbox.mechanisms.select import Mechanism
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from tests.rows import each_row
from tests.sandbox import trials

BY_BUBBLEWRAP = [
    setting.means
    for setting in trials.settings()
    if setting.uid == os.getuid() and setting.is_usual and setting.means and setting.means[0] == "bubblewrap"
]
OUTSIDE = b"""\
1 0 8:1 / / rw,relatime - ext4 /dev/vda rw
2 1 0:5 / /dev rw - devtmpfs none rw
3 1 8:2 /@users /home rw - btrfs /dev/vdb rw
4 3 8:3 / /home/u/work/disk rw - ext4 /dev/vdc rw
"""
INSIDE = rb"""10 5 8:1 / / ro - ext4 /dev/vda rw
11 10 0:5 / /dev ro - devtmpfs none rw
12 10 8:2 /@users /home ro - btrfs /dev/vdb rw
13 12 8:3 / /home/u/work/disk ro - ext4 /dev/vdc rw
14 11 0:90 / /dev rw - tmpfs tmpfs rw
15 14 0:5 /null /dev/null rw - devtmpfs none rw
16 10 0:91 / /tmp rw - tmpfs tmpfs rw
17 12 8:2 /@users/u/work /home/u/work rw - btrfs /dev/vdb rw
18 17 8:3 / /home/u/work/disk rw - ext4 /dev/vdc rw
19 17 8:2 /@users/u/work/.git\040x /home/u/work/.git\040x ro - btrfs /dev/vdb rw
20 12 0:92 / /home/u/.ssh ro - tmpfs tmpfs rw
21 12 0:5 /null /home/u/.netrc ro - devtmpfs none rw
"""
ASKED = (
    (b"/", b"/", True),
    (b"/dev", b"", False),
    (b"/tmp", b"", False),
    (b"/home/u/.netrc", b"/dev/null", True),
    (b"/home/u/.ssh", b"", True),
    (b"/home/u/work", b"/home/u/work", False),
    (b"/home/u/work/.git x", b"/home/u/work/.git x", True),
)


def test_what_was_asked_for_and_copies_of_our_own_mounts_are_in_order() -> None:
    assert are_complete(MountTree(INSIDE)) and not are_complete(MountTree(OUTSIDE))
    assert misplaced_mounts(ASKED, MountTree(INSIDE), MountTree(OUTSIDE)) == b""


@each_row(
    ("line", "now", "place"),
    [
        (b"/@users/u/work/.git\\040x", b"/@users/u/work/evil", b"/home/u/work/.git x"),
        (b" /home/u/work/.git\\040x ro", b" /home/u/.ssh ro", b"/home/u/work/.git x"),
        (b" /home/u/work/.git\\040x ro", b" /home/u/work/.git\\040x rw", b"/home/u/work/.git x"),
        (b"20 12 0:92 / /home/u/.ssh ro", b"20 12 0:92 / /home/u/.ssh rw", b"/home/u/.ssh"),
        (b"20 12 0:92 / /home/u/.ssh", b"20 17 0:92 / /home/u/work/d", b"/home/u/.ssh"),
        (b"0:92 / /home/u/.ssh ro - tmpfs", b"8:2 /@users/u/.ssh /home/u/.ssh ro - btrfs", b"/home/u/.ssh"),
        (b"21 12 0:5 /null", b"21 12 8:2 /@users/u/.netrc", b"/home/u/.netrc"),
        (b"0:5 /null /home", b"0:5 /zero /home", b"/home/u/.netrc"),
        (b"17 12 8:2 /@users/u/work ", b"17 12 8:2 /@users/u ", b"/home/u/work"),
    ],
)
def test_what_is_elsewhere_or_shows_something_else_is_found(line: bytes, now: bytes, place: bytes) -> None:
    assert INSIDE.count(line) == 1
    assert misplaced_mounts(ASKED, MountTree(INSIDE.replace(line, now)), MountTree(OUTSIDE)) == place


@each_row(
    ("more", "place"),
    [
        (b"30 20 8:2 /@users/u/.ssh /home/u/.ssh rw - btrfs /dev/vdb rw", b"/home/u/.ssh"),
        (b"30 12 8:2 /@users/u/other /home/u/other rw - btrfs /dev/vdb rw", b"/home/u/other"),
        (b"30 12 8:2 /@users /home rw - btrfs /dev/vdb rw", b"/home/u/.netrc"),
        (b"30 10 0:93 / /usr rw - tmpfs tmpfs rw", b"/usr"),
        (b"30 19 0:93 / /home/u/work/.git\\040x ro - tmpfs tmpfs rw", b"/home/u/work/.git x"),
    ],
)
def test_a_mount_that_nobody_asked_for_is_found(more: bytes, place: bytes) -> None:
    assert misplaced_mounts(ASKED, MountTree(INSIDE + more + b"\n"), MountTree(OUTSIDE)) == place


def test_mounts_that_cover_those_asked_for_are_found() -> None:
    asked = ((b"/", b"/", True), (b"/a/b", b"", False))
    outside = MountTree(b"1 0 8:1 / / rw - ext4 d rw\n2 1 8:2 / /a rw - ext4 d rw\n")
    inside = b"10 5 8:1 / / ro - ext4 d rw\n11 10 8:2 / /a ro - ext4 d rw\n12 11 0:9 / /a/b rw - tmpfs t rw\n"
    assert misplaced_mounts(asked, MountTree(inside), outside) == b""
    assert misplaced_mounts(asked, MountTree(inside + b"13 11 8:2 / /a rw - ext4 d rw\n"), outside) == b"/a/b"


def test_what_a_later_mount_was_to_cover_need_not_be_seen() -> None:
    asked = ((b"/", b"/", True), (b"/a/b", b"/a/b", True), (b"/a", b"/a", False))
    outside = MountTree(b"1 0 8:1 / / rw - ext4 d rw\n")
    inside = b"10 5 8:1 / / ro - ext4 d rw\n11 10 8:1 /a/b /a/b ro - ext4 d rw\n12 10 8:1 /a /a rw - ext4 d rw\n"
    assert misplaced_mounts(asked, MountTree(inside), outside) == b""
    assert misplaced_mounts(asked, MountTree(inside.replace(b"/a/b /a/b", b"/a/b /c")), outside) == b"/c"
    assert misplaced_mounts((*asked[:2], (b"/d", b"/d", False)), MountTree(inside), outside) == b"/a/b"


def test_our_own_mounts_can_be_read_and_show_what_is_there() -> None:
    own = mount_check.read("self")
    device, path = own.shown(b"/proc/self")
    number = os.stat("/proc").st_dev
    assert (device, path) == (b"%d:%d" % (os.major(number), os.minor(number)), b"/self")


@pytest.fixture
def place() -> Iterator[Path]:
    """Not below `/tmp`, of which commands see another one."""
    base = trials.folder_for(trials.unconfined(), False)
    for name in ("home/.ssh", "tmp", *(f"work/d{number}" for number in range(9))):
        (base / name).mkdir(parents=True)
    (base / "home/.ssh/id").write_text("SECRET\n", encoding="utf-8")
    yield base
    shutil.rmtree(base)


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


async def started(runner: ProcessRunner, place: Path, means: trials.Means, *, swaps: int) -> bytes:
    """What a command says that looks for the secret, while links to it are put in the place of folders, one after
    each look at them."""
    program = place / "bwrap"
    program.write_text(
        f"""#!/bin/sh
        echo x >>{place}/begun
        for name in $(seq 0 {swaps - 1}); do
            [ -L {place}/work/d$name ] || {{
                mv {place}/work/d$name {place}/work/old$name; ln -s ../home/.ssh {place}/work/d$name; break
            }}
        done
        exec {means[1]} "$@"
        """,
        encoding="utf-8",
    )
    program.chmod(0o755)
    runner.mechanism = Mechanism("bubblewrap", str(program), *means[2:])
    out = bytearray()
    running = await runner.start(
        ["/bin/sh", "-c", f"echo ran >ran; cat {place}/home/.ssh/id; echo ran"],
        cwd=place / "work",
        env={"PATH": os.defpath},
        on_output=out.extend,
        confinement=Confinement(
            writable=(str(place / "work"),),
            read_only=tuple(str(place / f"work/d{number}") for number in range(9)),
            hidden=(str(place / "home/.ssh"),),
            tmp=str(place / "tmp"),
        ),
    )
    assert await running.ended_within(60)
    return bytes(out)


@pytest.mark.parametrize("means", BY_BUBBLEWRAP, ids=str)
async def test_a_folder_that_becomes_a_link_while_mounts_are_made_opens_nothing(
    runner: ProcessRunner, place: Path, means: trials.Means
) -> None:
    out = await started(runner, place, means, swaps=2)
    assert out.endswith(b"ran\n") and b"SECRET" not in out
    assert (place / "begun").read_text(encoding="utf-8") == "x\n" * 3


@pytest.mark.parametrize("means", BY_BUBBLEWRAP, ids=str)
async def test_where_links_go_on_being_made_the_command_does_not_run(
    runner: ProcessRunner, place: Path, means: trials.Means
) -> None:
    with pytest.raises(ProcessError, match="is being moved or replaced while the sandbox is made"):
        await started(runner, place, means, swaps=9)
    assert not (place / "work/ran").exists()


@pytest.mark.parametrize("means", BY_BUBBLEWRAP, ids=str)
def test_nothing_has_run_and_nothing_is_left_where_mounts_are_not_as_asked(
    tmp_path: Path, means: trials.Means
) -> None:
    words = ["--bind", "/", "/", "--dev", "/dev", *(("--unshare-user",) if means[2] else ())]
    options = b"".join(os.fsencode(word) + b"\0" for word in words)
    argv = [b"/bin/touch", os.fsencode(tmp_path / "made")]
    null = os.open("/dev/null", os.O_RDWR)
    allow = (0x06).to_bytes(2, "little") + bytes(2) + (0x7FFF0000).to_bytes(4, "little")
    asked = ((b"/", b"/", False), (b"/dev", b"", False), (b"/usr", b"/etc", True))
    program = os.fsencode(means[1])
    before = os.listdir("/proc/self/fd")
    with pytest.raises(MountCheckError, match="/usr"):
        spawn_in_bubblewrap(program, options, allow, {}, argv, {}, {0: null, 1: null, 2: null}, (), False, asked)
    assert os.listdir("/proc/self/fd") == before
    time.sleep(0.1)
    assert not (tmp_path / "made").exists()
    pid = spawn_in_bubblewrap(
        program, options, allow, {}, argv, {}, {0: null, 1: null, 2: null}, (), False, asked[:2]
    )
    assert os.waitpid(pid, 0)[1] == 0 and (tmp_path / "made").exists()
    os.close(null)


@pytest.mark.parametrize("means", BY_BUBBLEWRAP, ids=str)
async def test_why_bubblewrap_itself_fails_is_told(
    runner: ProcessRunner, place: Path, means: trials.Means
) -> None:
    runner.mechanism = Mechanism(*means)
    with pytest.raises(ProcessError, match=r"cannot run /bin/true confined: Can't find source path .*/gone"):
        await runner.start(
            ["/bin/true"],
            cwd=place / "work",
            env={"PATH": os.defpath},
            on_output=lambda _: None,
            confinement=Confinement((str(place / "work"),), tmp=str(place / "gone")),
        )


@pytest.mark.parametrize("means", BY_BUBBLEWRAP, ids=str)
async def test_a_socket_that_goes_away_while_the_sandbox_is_made_stops_no_command(
    runner: ProcessRunner, place: Path, means: trials.Means
) -> None:
    """As sockets of other programs do at any time: each is covered, at a path that has to be there."""
    (place / "of").mkdir()
    program, path, out = place / "bwrap", place / "of" / "socket", bytearray()
    program.write_text(
        f'#!/bin/sh\necho x >>{place}/begun\nrm -rf {place}/of\nexec {means[1]} "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    runner.mechanism = Mechanism("bubblewrap", str(program), *means[2:])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        running = await runner.start(
            ["/bin/sh", "-c", "echo ran"],
            cwd=place / "work",
            env={"PATH": os.defpath},
            on_output=out.extend,
            confinement=Confinement((str(place / "work"),), tmp=str(place / "tmp")),
        )
        assert await running.ended_within(60)
    assert running.exit_code == 0 and out == b"ran\n"
    assert (place / "begun").read_text(encoding="utf-8") == "x\n" * 2


def test_what_waits_at_the_gate_stays_there_when_we_are_gone() -> None:
    gate = Gate()
    _, held, *_ = gate.options()
    mine = os.dup(int(held))
    gate.close()
    os.set_blocking(mine, False)
    with pytest.raises(BlockingIOError):  # and not the end
        os.read(mine, 1)
    os.close(mine)
