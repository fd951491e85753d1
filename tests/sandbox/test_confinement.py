"""Breaking out of the sandbox, and living in it: for each mechanism and user that this machine has."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from tests.sandbox import trials
from tests.sandbox.trials import Place, Setting

_PYTHON = '"$PY" -I -S -c'
# "G" "OT", since the traceback of a failed attempt may quote its line (Python 3.13).
_CONNECT = _PYTHON + ' \'import socket as s; x=s.socket(s.AF_UNIX); x.connect({}); print("G" "OT")\''
_CALL = _PYTHON + ' \'import ctypes; print("G" "OT" if ctypes.CDLL(None).{} >= 0 else "no")\''

ATTACKS = {
    "append to a file outside": "echo x >>{home}/.bashrc && echo GOT",
    "empty a file outside": "truncate -s 0 {home}/.bashrc && echo GOT",
    "remove a file outside": "rm -f {home}/.bashrc && echo GOT",
    "make a file outside": "echo x >{home}/.profile && echo GOT",
    "make a folder outside": "mkdir {home}/.config/autostart && echo GOT",
    "write to the system": "echo x >/etc/agent-attack && echo GOT",
    "write through a link": "ln -s {home}/.bashrc link1; echo x >>link1 && echo GOT",
    "write through a hard link": "ln {home}/.bashrc link2 && echo x >>link2 && echo GOT",
    "rename the home": "mv {home}/.bashrc {home}/.bashrc2 && echo GOT",
    "read a hidden folder": "cat {home}/.ssh/id",
    "read a hidden file": "cat {home}/.netrc",
    "read it through a link": "ln -s {home}/.ssh link3; cat link3/id; ln -s {home}/.netrc link4; cat link4",
    "read it through a hard link": "ln {home}/.netrc link5 && cat link5",
    "read it by moving its folder": "mv {home}/.ssh {work}/link6; cat {work}/link6/id",
    "read it through another root": "cat /proc/1/root{home}/.ssh/id /proc/self/root{home}/.ssh/id /proc/$PPID/cwd{home}/.ssh/id",
    "read our variables": "cat /proc/$PPID/environ /proc/$AGENT_PID/environ /proc/[0-9]*/environ",
    "read our memory": "exec 3</proc/$AGENT_PID/mem && echo GOT",
    "mount anew": "mount -o remount,rw / && echo GOT; mount -o remount,bind,rw {home} && echo GOT",
    "mount something": "mkdir -p new_m; mount -t tmpfs none new_m && echo GOT",
    "unmount": "for m in {home}/.ssh {home}/.netrc /proc/sys /run /tmp; do umount $m && echo GOT; umount -l $m && echo GOT; done",
    "make a namespace": "unshare -Ur true && echo GOT; unshare -m true && echo GOT",
    "trace a process": _CALL.format("ptrace(0, 0, 0, 0)"),
    "trace the agent": _CALL.format("ptrace(16, int(__import__(\"os\").environ[\"AGENT_PID\"]), 0, 0)"),
    "signal the agent": "kill -0 $AGENT_PID && echo GOT",
    "change the root": "chroot / true && echo GOT",
    "make a device": "mknod new_d b 254 0 && echo GOT",
    "set the kernel": 'v=$(cat /proc/sys/kernel/core_pattern); echo "$v" >/proc/sys/kernel/core_pattern && echo GOT',
    "type into a terminal": _PYTHON + " 'import os,fcntl; m,s=os.openpty(); fcntl.ioctl(s,0x5412,b\"x\"); print(\"G\" \"OT\")'",
    "write to the user's terminal": "echo x >$USERS_TTY && echo GOT",
    "connect to a socket in the home": _CONNECT.format('"{home}/agent.sock"'),
    "send to a socket in the home": _PYTHON + " 'import socket as s; s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)[0].sendto(b\"x\", \"{home}/log.sock\"); print(\"G\" \"OT\")'",
    "set limits of the agent": _PYTHON + " 'import os,resource as r; r.prlimit(int(os.environ[\"AGENT_PID\"]), r.RLIMIT_CORE); print(\"G\" \"OT\")'",
    "connect to an abstract socket": _CONNECT.format('"\\0agent-trial-" + __import__("os").environ["AGENT_PID"]'),
    "connect to a server of ours": "echo >/dev/tcp/127.0.0.1/$LISTENER && echo GOT",
    "reach the network": _PYTHON + " 'import socket as s; x=s.socket(s.AF_INET, s.SOCK_DGRAM); x.connect((\"9.9.9.9\", 53)); print(\"G\" \"OT\")'",
}  # fmt: skip
"""What must fail everywhere; success shows in the output."""

ATTACKS_INSIDE = {
    "read a hidden file in the workspace": "cat .env",
    "read one in a folder": "cat conf/secret.env",
    "read one after a move": "mv conf link_c; cat link_c/secret.env conf/secret.env; mkdir link_d; mv conf/* link_d",
    "read one after a move before": "cat link_c/secret.env link_d/secret.env conf*/secret.env",
    "read one through a hard link": "ln .env link7 && cat link7",
    "write a hook": "echo x >.git/hooks/pre-commit && echo GOT",
    "set a git option": "git config core.fsmonitor evil && echo GOT",
    "move the repository away": "mv .git .git2 && echo GOT",
    "remove the hooks": "rm -rf .git/hooks; mkdir .git/hooks && echo GOT",
    "unmount what protects it": "umount .git/hooks && echo GOT; umount .git/config && echo GOT; umount .env && echo GOT",
    "connect to a socket of ours in the workspace": _CONNECT.format('"{work}/host.sock"'),
}
"""What must fail where `hides_inside`."""

MUST_WORK = {
    "write in the workspace": "echo x >new1 && cat new1",
    "write to a temporary file": 'f=$(mktemp) && echo x >"$f" && cat "$f" && echo y >$TMPDIR/z',
    "a here document": "cat <<X\nhere\nX",
    "process substitution": "cat <(echo x)",
    "devices": "echo x >/dev/null && head -c 4 /dev/urandom | wc -c && head -c 2 /dev/zero >/dev/full || true",
    "read the system": "test -r /etc/passwd && ls / >/dev/null && cat /proc/self/stat >/dev/null && cat {home}/.gitconfig",
    "git": "git status -sb && echo two >>f && git add -A && git commit -qm two && git checkout -qb side && echo three >>f"
    " && git stash -q && git stash pop -q && git diff --stat && git tag t1 && git log --oneline | wc -l && git checkout -q -- f",
    "sqlite": _PYTHON + " 'import sqlite3; c=sqlite3.connect(\"x.db\"); c.execute(\"pragma journal_mode=wal\");"
    " c.execute(\"create table t(a)\"); c.commit(); print(c.execute(\"pragma journal_mode\").fetchone()[0])'",
    "processes": _PYTHON + " 'import multiprocessing as m; p=m.get_context(\"fork\").Pool(2); print(p.map(abs, [-1,-2]))'",
    "shared memory": _PYTHON + " 'from multiprocessing.shared_memory import SharedMemory as S; s=S(create=True,size=8); s.unlink()'",
    "a virtual environment": '"$PY" -m venv --without-pip v && v/bin/python -c "print(1)"',
    "a background child": "sleep 0.05 & wait $!",
    "signals among its own": "sleep 5 & kill $! && wait $!; [ $? = 143 ]",
}  # fmt: skip
OWN_TERMINAL = _PYTHON + " 'import os; m,s=os.openpty(); print(os.ttyname(s))'"
SERVER = (
    '"$PY" -I -m http.server -b 127.0.0.1 8765 >/dev/null 2>&1 & '
    "for i in $(seq 100); do (echo >/dev/tcp/127.0.0.1/8765) 2>/dev/null && break; sleep 0.02; done; "
    "exec 3<>/dev/tcp/127.0.0.1/8765; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3; kill %1"
)

SETTINGS = trials.settings()
PLACES = [
    pytest.param((setting, private), marks=[] if private else [pytest.mark.long])
    for setting in SETTINGS
    for private in (True, False)
    if not private or setting.is_usual
]
"""The usual ways are tried below the private `/tmp`, which is harder; elsewhere, and the other ways, in the long
suite."""
HARMFUL = (
    "system",
    "mount",
    "root",
    "device",
    "kernel",
    "namespace",
    "terminal",
    "to a socket",
    "network",
    "trace the agent",
)
"""What this machine shall not suffer, or what only works for some users or on some networks."""


class Tried:
    """A place and what became of all commands there."""

    def __init__(self, setting: Setting, place: Place) -> None:
        self.setting = setting
        self.place = place
        self.hides_inside = bool(setting.means and setting.means[0] == "bubblewrap")
        commands = {
            **ATTACKS,
            **MUST_WORK,
            **(ATTACKS_INSIDE | {"a server": SERVER, "a terminal": OWN_TERMINAL} if self.hides_inside else {}),
        }
        ready = {
            name: text.replace("{home}", str(place.home)).replace("{work}", str(place.workspace))
            for name, text in commands.items()
        }
        self.outcomes: dict[str, Any] = trials.run(setting, place, ready)["outcomes"]


@pytest.fixture(
    scope="module",
    params=PLACES,
    ids=lambda param: f"{param[0]}-{'tmp' if param[1] else 'elsewhere'}",
)
def tried(request: pytest.FixtureRequest) -> Iterator[Tried]:
    setting, private = request.param
    place = trials.prepare(setting, trials.folder_for(setting, private))
    yield Tried(setting, place)
    trials.remove(place)


def test_nothing_breaks_out(tried: Tried) -> None:
    got = {}
    for name in (*ATTACKS, *(ATTACKS_INSIDE if tried.hides_inside else ())):
        code, out = tried.outcomes[name]
        if "GOT" in out or "TOPSECRET" in out or "SEENENVIRON" in out or code is None:
            got[name] = (code, out)
    assert not got
    assert (tried.place.home / ".bashrc").read_text(encoding="utf-8") == "original\n"
    assert sorted(os.listdir(tried.place.home)) == [
        ".bashrc",
        ".config",
        ".gitconfig",
        ".netrc",
        ".ssh",
        "agent.sock",
        "log.sock",
    ]


def test_work_goes_on(tried: Tried) -> None:
    names = (*MUST_WORK, *(("a server", "a terminal") if tried.hides_inside else ()))
    failed = {name: tried.outcomes[name] for name in names if tried.outcomes[name][0] != 0}
    assert not failed
    if tried.hides_inside:
        assert "200 OK" in tried.outcomes["a server"][1]


def test_each_attack_succeeds_without_a_sandbox() -> None:
    """Or it would show nothing."""
    setting = trials.unconfined()
    place = trials.prepare(setting, trials.folder_for(setting, False))
    try:
        commands = {
            name: text.replace("{home}", str(own.home)).replace("{work}", str(own.workspace))
            for name, text in (ATTACKS | ATTACKS_INSIDE).items()
            if not any(word in name for word in HARMFUL)
            for own in (trials.copied(place, name.replace(" ", "-")),)
        }
        commands = {
            name: f"cd {place.base}/{name.replace(' ', '-')}/work; {text}" for name, text in commands.items()
        }
        outcomes = trials.run(setting, place, commands)["outcomes"]
    finally:
        trials.remove(place)
    failed = {
        name: out for name, (_, out) in outcomes.items() if not ("GOT" in out or "SECRET" in out or "SEEN" in out)
    }
    assert len(outcomes) > 20 and not failed


BY_BUBBLEWRAP = [
    setting for setting in SETTINGS if setting.is_usual and setting.means and setting.means[0] == "bubblewrap"
]


@pytest.mark.parametrize("setting", BY_BUBBLEWRAP, ids=str)
def test_with_the_network_open_servers_are_reached_and_sockets_of_programs_are_not(setting: Setting) -> None:
    place = trials.prepare(setting, trials.folder_for(setting, False))
    names = [name for name in ATTACKS if name.startswith("connect") or name == "read our variables"]
    commands = {name: ATTACKS[name].replace("{home}", str(place.home)) for name in names}
    own = (
        _PYTHON
        + ' \'import socket as s; x=s.socket(s.AF_UNIX); x.bind("\\0own"); x.listen(); s.socket(s.AF_UNIX).connect("\\0own")\''
    )
    try:
        outcomes = trials.run(setting, place, {**commands, "own": own}, network="open")["outcomes"]
    finally:
        trials.remove(place)
    assert "GOT" in outcomes["connect to a server of ours"][1]
    assert outcomes["own"] == [0, ""]
    assert "GOT" not in outcomes["connect to a socket in the home"][1]
    assert "GOT" not in outcomes["connect to an abstract socket"][1]
    assert "SEEN" not in outcomes["read our variables"][1]


async def test_where_nothing_can_be_had_a_confined_command_does_not_run(tmp_path: Path) -> None:
    runner = ProcessRunner()
    with pytest.raises(ProcessError, match=r"confined: .*not been tested"):
        await runner.start(
            ["/bin/touch", "made"],
            cwd=tmp_path,
            env={},
            on_output=lambda _: None,
            confinement=Confinement(writable=(str(tmp_path),)),
        )
    await runner.aclose()
    assert not (tmp_path / "made").exists()


MASKED = {
    "read": "cat conf/secret.env",
    "link": "ln conf/secret.env l; cat l",
    "the agent's view": 'cat /proc/$AGENT_PID/root$PWD/.env /proc/$AGENT_PID/cwd$PWD/.env; cat "/proc/$AGENT_PID/root$HOME/.netrc"',
    "take the mounts off": "umount -l conf/secret.env; umount -R conf; cat conf/secret.env",
    "take them off in a namespace": "unshare -Urm sh -c 'umount -l conf/secret.env; umount -l conf; cat conf/secret.env'",
    "mount the folder again": "unshare -Urm sh -c 'mount --bind . /mnt; cat /mnt/conf/secret.env'",
    "mount all again": "unshare -Urm sh -c 'mount --rbind . /mnt; umount -l /mnt/conf/secret.env; cat /mnt/conf/secret.env'",
    "enter the agent's": "nsenter -t $AGENT_PID -m cat $PWD/.env; nsenter -t $AGENT_PID -U -m cat $PWD/.env",
    "outside": "cat {home}/.netrc {home}/.ssh/id",
    "write": "echo GOT >> .git/config; cat .git/config",
    "rename its folder": "mv conf other; cat other/secret.env",
}
AS_OUTSIDE = {
    "a server": "(exec 3<>/dev/tcp/127.0.0.1/$LISTENER)",
    "a socket": "test -S {home}/agent.sock",
    "another process": "kill -0 $AGENT_PID && test -d /proc/$AGENT_PID",
    "files": "echo x > {home}/new && chmod 600 {home}/new && mv {home}/new moved && rm moved",
    "a device": "test -w /dev/ptmx && echo x > /dev/null",
    "the kernel's settings": "test -r /proc/sys/kernel/hostname && test -d /sys/kernel",
}


def masked(setting: Setting) -> dict[str, Any]:
    place = trials.prepare(setting, trials.folder_for(setting, False))
    (place.workspace / "conf" / "open").write_text("", encoding="utf-8")  # or the whole folder is hidden
    commands = {name: text.replace("{home}", str(place.home)) for name, text in (MASKED | AS_OUTSIDE).items()}
    try:
        outcomes: dict[str, Any] = trials.run(setting, place, commands, network="open", is_bounded=False)[
            "outcomes"
        ]
    finally:
        trials.remove(place)
    return outcomes


def achieved(outcomes: dict[str, Any]) -> set[str]:
    return {name for name in MASKED if "TOPSECRET" in outcomes[name][1] or "GOT" in outcomes[name][1]}


@pytest.mark.parametrize(
    "setting", [each for each in SETTINGS if each.means and each.means[0] == "bubblewrap"], ids=str
)
def test_masks_alone_hold_and_leave_all_else_as_outside(setting: Setting) -> None:
    outcomes = masked(setting)
    assert not {name: outcomes[name] for name in achieved(outcomes)}
    assert not {name: outcomes[name] for name in AS_OUTSIDE if outcomes[name][0] != 0}


def test_without_masks_all_that_is_closed_is_reached() -> None:
    assert set(MASKED) - {name for name in MASKED if "again" in name or "namespace" in name} <= achieved(
        masked(trials.unconfined())
    )
