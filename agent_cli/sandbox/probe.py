"""Measure how well commands can be confined on this machine: a probe process tries to break out, because a kernel,
a container or a security module may not do what its manual promises.

Mechanisms are tried from the strongest to none. A mechanism that lets the probe write outside, read hidden files,
read our environment or reach a socket of the host is not used at all.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .mechanisms.select import Mechanism
from .profile.confinement import Confinement, EnforcedLevel

if TYPE_CHECKING:
    from .process.runner import ProcessRunner

_TIMEOUT_S = 5.0
_FORBIDDEN = {
    "write": "files outside the workspace could be written",
    "hidden": "hidden files could be read",
    "environ": "the variables of this process could be read",
    "socket": "sockets of other programs could be reached",
}
"""The attempts that disqualify a mechanism if they succeed, with the reason to report."""
_SEATBELT = "/usr/bin/sandbox-exec"
_ATTEMPTS = """
import binascii, os, sys
import _socket
ours, outside, listening, port, agent, environ, space = sys.argv[1:]
def read(path):
    with open(path, "rb") as file:
        return file.read()
def written(path):
    with open(path, "ab") as file:
        return True
def truncated(path):
    os.truncate(path, 0)
    return True
def moved(path):
    os.rename(path, path + "2")
    return True
def connected(family, address):
    with_it = _socket.socket(family, _socket.SOCK_STREAM)
    with_it.settimeout(2)
    with_it.connect(address)
    return True
def changed(how, *arguments):
    how(*arguments)
    return True
def killed():
    os.kill(int(agent), 0)
    return os.readlink("/proc/self/ns/pid") == space
attempts = {
    "own": lambda: written(ours + "/new") and not read(ours + "/new"),
    "write": lambda: written(outside + "/file"),
    "write ": lambda: truncated(outside + "/file"),
    "hidden": lambda: b"secret" in read(outside + "/hidden"),
    "inside": lambda: b"secret" in read(ours + "/hidden"),
    "fixed": lambda: written(ours + "/.fixed/file"),
    "fixed ": lambda: moved(ours + "/.fixed"),
    "socket": lambda: connected(_socket.AF_UNIX, listening),
    "network": lambda: connected(_socket.AF_INET, ("127.0.0.1", int(port))),
    "environ": lambda: binascii.crc32(read("/proc/%s/environ" % agent)) == int(environ),
    "kill": killed,
    "metadata": lambda: changed(os.chmod, outside + "/file", 0o600),
    "metadata ": lambda: changed(os.utime, outside + "/file", (1, 1)),
    "metadata  ": lambda: changed(os.setxattr, outside + "/file", "user.tried", b"x"),
}
done = []
for name, attempt in attempts.items():
    try:
        if attempt():
            done.append(name.strip())
    except (OSError, AttributeError):  # not every system has attributes
        pass
print("done", *done)
"""


class _Outcome(msgspec.Struct, frozen=True):
    """The result of probing one mechanism."""

    achieved: frozenset[str] = frozenset()
    failure: str = ""
    """The error output if the mechanism did not start."""


async def measure(processes: "ProcessRunner", scratch: Path) -> EnforcedLevel:
    """Find the strongest mechanism that holds here and make `processes` use it.

    `scratch` is a private folder; it is left unchanged. Takes about 40 ms, longer if several mechanisms must be
    tried.

    Raises:
        OSError: the folder cannot be written.
    """
    reasons: dict[str, str] = {}
    with ExitStack() as stack:
        field = _Field.laid_out(scratch, stack)
        for mechanism in _candidates(reasons):
            # what fails is tried once more: mounts may have changed at this very moment, and a session that shares
            # no network asks more often
            if not await _share_network(processes, mechanism):
                await _share_network(processes, mechanism)
            outcome = await _tried(processes, mechanism, field)
            if processes.network and _objection(outcome):
                outcome = await _tried(processes, mechanism, field)
            if processes.network and _objection(outcome):
                processes.leave_network()
                outcome = await _tried(processes, mechanism, field)
            if reason := _objection(outcome):
                reasons[mechanism.name] = f"{mechanism.name}: {reason}"  # of several ways, the last asks for least
            else:
                processes.mechanism = mechanism
                processes.enforced_level = _strength(mechanism, outcome.achieved, reasons, bool(processes.network))
                return processes.enforced_level
    processes.mechanism = None
    processes.enforced_level = EnforcedLevel("none", why="; ".join(reasons.values()))
    return processes.enforced_level


def _candidates(reasons: dict[str, str]) -> Iterator[Mechanism]:
    """Yield the mechanisms to try, strongest first; add to `reasons` why others are not tried."""
    if sys.platform == "darwin":
        yield Mechanism("seatbelt", _SEATBELT)
        return
    if sys.platform != "linux":
        reasons["system"] = f"there is no sandbox for {sys.platform}"
        return
    from .mechanisms import bubblewrap, seccomp

    if os.uname().machine not in seccomp.MACHINES:
        reasons["system"] = f"there is no sandbox for processors of the kind {os.uname().machine}"
        return
    if program := bubblewrap.program():
        for own_proc in (True, False):
            for new_users in (False, True) if os.getuid() == 0 else (True,):
                yield Mechanism("bubblewrap", program, new_users, own_proc)
    else:
        reasons["bubblewrap"] = "bubblewrap is not installed: install the package bubblewrap"
    yield Mechanism("landlock")


class _Field(msgspec.Struct, frozen=True):
    """The files and sockets that the probe attacks."""

    confinement: Confinement
    arguments: tuple[str, ...]

    @staticmethod
    def laid_out(scratch: Path, stack: ExitStack) -> "_Field":
        """Create the files and sockets; they are removed when `stack` is closed."""
        import shutil
        import tempfile

        base = Path(tempfile.mkdtemp(prefix="probe-", dir=scratch)).resolve()
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        ours, outside, tmp = base / "ours", base / "outside", base / "tmp"
        for folder in (ours / ".fixed", outside, tmp):
            folder.mkdir(parents=True)
        hidden = (outside / "hidden", ours / "hidden")
        for path in hidden:
            path.write_text("secret", encoding="utf-8")
        for path in (ours / ".fixed" / "file", outside / "file"):
            path.write_text("as it was", encoding="utf-8")
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        confinement = Confinement(
            writable=(str(ours),),
            read_only=(str(ours / ".fixed" / "file"),),
            hidden=tuple(map(str, hidden)),
            tmp=str(tmp),
        )
        port = str(listener.getsockname()[1])
        listening = _listening(outside / "s", stack)
        return _Field(confinement, (str(ours), str(outside), listening, port, *_ourselves()))


def _listening(path: Path, stack: ExitStack) -> str:
    """Listen on a Unix socket if the path is short enough for one; return the path."""
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    with suppress(OSError):
        listener.bind(str(path))
        listener.listen()
    return str(path)


def _ourselves() -> tuple[str, str, str]:
    """Return our pid with two proofs that a process of this pid is this one: a checksum of our environment and our
    pid namespace."""
    import binascii

    environ, space = b"", ""
    with suppress(OSError):
        environ = Path("/proc/self/environ").read_bytes()
        space = str(Path("/proc/self/ns/pid").readlink())
    return str(os.getpid()), str(binascii.crc32(environ) if environ else -1), space


async def _share_network(processes: "ProcessRunner", mechanism: Mechanism) -> bool:
    """Create a network namespace without connections, which lives as long as its descriptors are open. If that is
    impossible, each command gets its own. Return False if it failed."""
    from .process.runner import ProcessError

    processes.leave_network()
    if mechanism.name != "bubblewrap":
        return True
    out = bytearray()
    options = ("--unshare-user", "--unshare-net") if mechanism.new_users else ("--unshare-net",)
    with suppress(ProcessError, OSError, ValueError):
        running = await processes.start(
            [mechanism.program, *options, "--dev-bind", "/", "/", "--", "/bin/sh", "-c", "echo $$; read it"],
            cwd=Path("/"),
            env={"PATH": os.defpath},
            on_output=out.extend,
            takes_input=True,
        )
        try:
            while not out.endswith(b"\n") and not running.ended.done():
                await asyncio.sleep(0.001)
            spaces = ("user", "net") if mechanism.new_users else ("net",)
            processes.network = tuple(_opened(f"/proc/{int(out)}/ns/{name}" for name in spaces))
        finally:
            running.close_input()  # which ends the shell
    return bool(processes.network)


def _opened(paths: Iterable[str]) -> list[int]:
    """Open all paths, or none if one fails."""
    found: list[int] = []
    try:
        found.extend(os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths)
    except OSError:
        for fd in found:
            os.close(fd)
        raise
    return found


async def _tried(processes: "ProcessRunner", mechanism: Mechanism, field: _Field) -> _Outcome:
    from .process.runner import ProcessError

    out = bytearray()
    try:
        running = await processes.start(
            [sys.executable, "-I", "-S", "-B", "-c", _ATTEMPTS, *field.arguments],
            cwd=Path(field.confinement.writable[0]),
            env={"PATH": os.defpath, "HOME": os.path.expanduser("~")},
            on_output=out.extend,
            confinement=field.confinement,
            mechanism=mechanism,
        )
    except ProcessError as error:
        return _Outcome(failure=str(error))
    try:
        ended = await running.ended_within(_TIMEOUT_S)
    finally:
        await running.stop()
    last = bytes(out).decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
    if not ended or not last[0].startswith("done"):
        return _Outcome(failure=last[0] or ("it did not end" if not ended else "it said nothing"))
    return _Outcome(achieved=frozenset(last[0].split()[1:]))


def _objection(outcome: _Outcome) -> str:
    """Return why a mechanism cannot be used; empty if it can."""
    if outcome.failure:
        return _advice(outcome.failure)
    if "own" not in outcome.achieved:
        return "the workspace could not be written"
    return ", ".join(text for name, text in _FORBIDDEN.items() if name in outcome.achieved)


def _strength(
    mechanism: Mechanism, achieved: frozenset[str], reasons: dict[str, str], shares_network: bool = False
) -> EnforcedLevel:
    if mechanism.name == "landlock" and "kill" in achieved:
        reasons["landlock"] = (
            "landlock: commands can end other programs of yours, as the kernel is older than 6.12"
        )
    elif mechanism.name == "bubblewrap":
        reasons = {}
    return EnforcedLevel(
        mechanism.name,
        why="; ".join(reasons.values()),
        hides_inside=not achieved & {"inside", "fixed"},
        cuts_network="network" not in achieved,
        keeps_metadata="metadata" not in achieved,
        shares_network=shares_network,
    )


_APPARMOR = "AppArmor blocks it; as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
_NAMESPACES = "namespaces are forbidden here;"
_START = "start the container with --security-opt seccomp=unconfined"
_ADVICE = {
    "max_*_namespaces": "user namespaces are switched off; as root: sysctl user.max_user_namespaces=15000",
    "No permissions to create": f"{_NAMESPACES} as root: sysctl kernel.unprivileged_userns_clone=1, or {_START}",
    "Creating new namespace failed": f"{_NAMESPACES} {_START}",
    "setting up uid map": _APPARMOR,
    "RTM_NEWADDR": _APPARMOR,
    "Unknown option": "this version of bubblewrap is too old: it needs 0.4 or later",
}


def _advice(said: str) -> str:
    """Return what the user can do about a failure of bubblewrap."""
    known = next((advice for part, advice in _ADVICE.items() if part in said), "")
    return known or said.removeprefix("bwrap: ")[:200]
