"""Profile text for the macOS sandbox, in which later rules take precedence."""

from collections.abc import Iterable

from agent_cli.protocol.paths import is_below

from ..profile.confinement import Confinement

_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/dtracehelper")
_ALWAYS = """(version 1)
(deny default)
(import "system.sb")
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read*)
(allow pseudo-tty)
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow user-preference-read)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.diagnosticd"))
"""
_OPEN = """(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.networkd"))
(deny network-outbound (remote unix-socket))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
"""
_LOCAL = """(allow network-bind (local ip "localhost:*"))
(allow network-inbound (local ip "localhost:*"))
"""
"""A server can be started but nothing can be reached, because our own servers listen on the same address."""


def profile(confinement: Confinement) -> str:
    """Return the profile that allows a command its confinement and nothing else. `/tmp` cannot be replaced, so the
    folder for it is writable."""
    writable = (*confinement.writable, *((confinement.tmp,) if confinement.tmp else ()))
    return "".join(
        (
            _ALWAYS,
            "(allow file-write* file-ioctl",
            *(f"\n  (literal {_quoted(path)})" for path in _DEVICES),
            '\n  (regex #"^/dev/ttys[0-9]+$"))\n',
            _rule("allow file-write*", writable),
            _rule("deny file-write*", confinement.read_only),
            _rule("deny file-read* file-write*", confinement.hidden),
            _rule("deny file-write-unlink", _above(confinement), below=False),
            _OPEN if confinement.network == "open" else _LOCAL,
        )
    )


def _above(confinement: Confinement) -> list[str]:
    """Return the folders between a writable folder and the hidden or read-only paths in it: moving one would take
    the path out of reach of its rule."""
    found: dict[str, None] = {}
    for path in (*confinement.read_only, *confinement.hidden):
        for top in confinement.writable:
            if is_below(path, top):
                names = path[len(top) :].strip("/").split("/")[:-1]
                found |= dict.fromkeys("/".join((top.rstrip("/"), *names[: at + 1])) for at in range(len(names)))
    return list(found)


def _rule(head: str, paths: Iterable[str], *, below: bool = True) -> str:
    """Return a rule for paths and, with `below`, everything in them; empty without paths."""
    lines = [f"\n  ({'subpath' if below else 'literal'} {_quoted(path)})" for path in paths]
    return f"({head}{''.join(lines)})\n" if lines else ""


def _quoted(path: str) -> str:
    """Return a path as a string literal of the profile language.

    Raises:
        ValueError: it contains a control character, which a literal cannot hold.
    """
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise ValueError(f"a path with control characters cannot be confined: {path!r}")
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
