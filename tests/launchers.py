"""Command lines that restrict a process before it becomes another program."""

import platform
import sys

_FLOCK = {"x86_64": 73, "aarch64": 32}
_ENOLCK = 37


def launcher(code: str) -> list[str]:
    """A command line that runs some Python in the process that then becomes the program."""
    return [sys.executable, "-c", f"import os, sys\n{code}\nos.execv(sys.argv[1], sys.argv[1:])"]


WITHOUT_PRIVILEGE = launcher(
    "import ctypes\nlibrary = ctypes.CDLL(None)\n"
    "if hasattr(library, 'prctl'):\n    library.prctl(24, 1, 0, 0, 0), library.prctl(24, 2, 0, 0, 0)"
)
"""Root, too, is held to the permissions of files (PR_CAPBSET_DROP of the two that override them)."""

WITHOUT_LOCKS = launcher(
    f"""
import ctypes, struct
step = lambda code, value, if_true=0, if_false=0: struct.pack("=HBBI", code, if_true, if_false, value)
code = step(0x20, 0) + step(0x15, {_FLOCK.get(platform.machine())}, 0, 1)
program = ctypes.create_string_buffer(code + step(0x06, 0x50000 | {_ENOLCK}) + step(0x06, 0x7FFF0000))
filter = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(program)))
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0 and ctypes.CDLL(None).prctl(22, 2, filter, 0, 0) == 0
"""
)
"""flock(2) fails, as on a network disk without a lock service: a seccomp filter answers it with ENOLCK."""

WITHOUT_ACCOUNT = launcher(
    """
import ctypes
identities = os.geteuid(), os.getegid()
assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0, os.strerror(ctypes.get_errno())
open("/proc/self/setgroups", "w").write("deny")
for name, inner, outer in zip(("uid_map", "gid_map"), (76543, 76543), identities):
    open(f"/proc/self/{name}", "w").write(f"{inner} {outer} 1")
"""
)
"""The user has no entry among the accounts of the machine, as an arbitrary user id in a container: in a user namespace
(CLONE_NEWUSER) the same user has another number."""
