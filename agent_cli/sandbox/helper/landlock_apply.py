"""Confine the current process before it becomes a command. With Landlock the kernel restricts the process and its
children to the given files, without capabilities and irrevocably.

Runs in a fork of the supervisor, so nothing here may import slow modules. `ctypes` is slow; its inner module
`_ctypes`, which the reaper has already loaded, is enough.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_BY_PATH, _ASK_VERSION = 1, 1
LEAST_VERSION = 3
"""Landlock ABI; with older versions any file could be truncated."""
_EXECUTE, _WRITE, _READ_FILE, _READ_FOLDER, _TRUNCATE, _DEVICE = 1, 2, 4, 8, 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE | _READ_FILE | _TRUNCATE | _DEVICE
_RIGHTS = {"list": _READ_FOLDER, "read": _EXECUTE | _READ_FILE | _READ_FOLDER, "write": (1 << 16) - 1}
_SCOPES = 6
"""The ABI version since which signals and abstract sockets can be scoped."""
_ABSTRACT_SOCKETS, _OTHERS = 1, 3
"""Scopes: abstract sockets only; abstract sockets and signals of processes outside."""
_DROP_BOUND, _NO_NEW_PRIVILEGES, _SECCOMP, _AMBIENT = 24, 38, 22, 47
_CLEAR_ALL, _FILTER = 4, 2
_CAPABILITY_VERSION = 0x20080522
_CAPSET = {"x86_64": 126, "aarch64": 91}
_OVERRIDE_PERMISSIONS = 1
"""CAP_DAC_OVERRIDE, the one capability root keeps, for workspaces of other users; Landlock still applies."""


def restrict(rules: "Sequence[tuple[str, bytes]]", filter_program: bytes) -> None:
    """Confine this process irrevocably: "list", "read" or "write" access at or below these paths, and the system
    calls that the filter allows.

    Raises:
        OSError: the kernel refuses; the process is only partly confined and must exit.
    """
    kernel = _Kernel()
    version = kernel.call(_CREATE_RULESET, 0, 0, _ASK_VERSION)
    if version < LEAST_VERSION:
        raise OSError(38, "the kernel's Landlock is too old or switched off")
    known = (1 << (15 if version < 5 else 16)) - 1  # the rights that this kernel can restrict
    ruleset = _ruleset(kernel, *[known, 0, _OTHERS][: 1 if version < 4 else 2 if version < _SCOPES else 3])
    for right, path in rules:
        _allow(kernel, ruleset, path, _RIGHTS[right] & known)
    if os.getuid() == 0:
        _drop_capabilities(kernel)
    _enforce(kernel, ruleset)
    kernel.filter(filter_program)


def enter(namespaces: "Sequence[int]") -> None:
    """Enter namespaces by their descriptors; the user namespace comes first.

    Raises:
        OSError: the kernel refuses.
    """
    kernel = _Kernel()
    for fd in namespaces:
        kernel.must(kernel.setns(fd), "setns")


def cut_abstract_sockets() -> None:
    """Cut this process irrevocably off from abstract Unix sockets of processes not confined with it. A network
    namespace would do that, but this command needs the network. Older kernels cannot.

    Raises:
        OSError: the kernel refuses although it supports scopes.
    """
    kernel = _Kernel()
    if kernel.call(_CREATE_RULESET, 0, 0, _ASK_VERSION) < _SCOPES:
        return
    _enforce(kernel, _ruleset(kernel, 0, 0, _ABSTRACT_SOCKETS))


def _ruleset(kernel: "_Kernel", *fields: int) -> int:
    """Return a new ruleset; `fields` are access to files, to the network, and scopes."""
    packed = b"".join(field.to_bytes(8, "little") for field in fields)
    ruleset = kernel.call(_CREATE_RULESET, packed, len(packed), 0)
    kernel.must(ruleset, "landlock_create_ruleset")
    return ruleset


def _enforce(kernel: "_Kernel", ruleset: int) -> None:
    kernel.must(kernel.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    kernel.must(kernel.call(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _allow(kernel: "_Kernel", ruleset: int, path: bytes, rights: int) -> None:
    """Allow `rights` at or below a path. A path that has vanished needs no rule; a link would lead elsewhere."""
    if sys.platform != "linux":
        return
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        mode = os.fstat(fd).st_mode & 0o170000
        if mode == 0o120000:
            return
        if mode != 0o040000:
            rights &= _ON_FILES
        rule = rights.to_bytes(8, "little") + fd.to_bytes(4, "little")
        kernel.must(kernel.call(_ADD_RULE, ruleset, _BY_PATH, rule, 0), "landlock_add_rule")
    finally:
        os.close(fd)


def _drop_capabilities(kernel: "_Kernel") -> None:
    for number in range(64):
        if number != _OVERRIDE_PERMISSIONS:  # an unprivileged process cannot drop it, but cannot gain it either
            kernel.prctl(_DROP_BOUND, number, 0, 0, 0)
    kernel.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = _CAPABILITY_VERSION.to_bytes(4, "little") + bytes(4)
    kept = (1 << _OVERRIDE_PERMISSIONS).to_bytes(4, "little")
    for sets in (kept * 2 + kept + bytes(12), bytes(24)):  # if even that capability is not ours to keep, keep none
        if kernel.call(_CAPSET[os.uname().machine], header, sets) == 0:
            return
    raise OSError(1, "the kernel does not let go of capabilities")


class _Kernel:
    """System calls that Python does not wrap."""

    def __init__(self) -> None:
        import _ctypes

        self._ctypes: Any = _ctypes
        library = self._ctypes.dlopen(None, 0)
        self._syscall, self._prctl, self._setns = (
            self._ctypes.dlsym(library, name) for name in ("syscall", "prctl", "setns")
        )

    def call(self, number: int, *arguments: "int | bytes") -> int:
        """Return the result of a system call; negative on error."""
        return int(self._ctypes.call_function(self._syscall, (number, *arguments)))

    def prctl(self, option: int, *arguments: "int | bytes") -> int:
        return int(self._ctypes.call_function(self._prctl, (option, *arguments)))

    def setns(self, fd: int) -> int:
        return int(self._ctypes.call_function(self._setns, (fd, 0)))

    def filter(self, program: bytes) -> None:
        """Install a system call filter.

        Raises:
            OSError: the kernel refuses.
        """
        byte: Any = type("Byte", (self._ctypes._SimpleCData,), {"_type_": "B"})
        buffer = (byte * len(program)).from_buffer_copy(program)
        address = self._ctypes.addressof(buffer)
        described = (len(program) // 8).to_bytes(8, "little") + address.to_bytes(8, "little")
        self.must(self.prctl(_SECCOMP, _FILTER, described, 0, 0), "seccomp")

    def must(self, result: int, what: str) -> None:
        """Check the result of a call.

        Raises:
            OSError: the call failed.
        """
        if result < 0:
            raise OSError(1, f"the kernel refuses to confine it ({what})")
