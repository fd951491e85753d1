"""The system call filter for a confined command and its children: no access to other processes, no mounts or new
namespaces, no kernel interfaces with a bad record, only the given kinds of sockets. A classic BPF program,
written in Python without a library.

The numbers are those of the kernel's tables; a processor missing from `MACHINES` has no filter.
"""

from collections.abc import Iterable
from functools import lru_cache

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_NUMBER, _MACHINE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
"""All `clone` flags that create a namespace, except time namespaces, for which there is no such flag."""
_DATAGRAMS = (2, 3)
"""SOCK_DGRAM and SOCK_RAW: Unix sockets that can send to any other by its path, even as one of a pair."""
_KIND_OF_SOCKET = 0xF
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which fake terminal input."""

_SAME_EVERYWHERE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
}
_X86_64 = {
    "ptrace": 101,
    "pivot_root": 155,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "reboot": 169,
    "init_module": 175,
    "delete_module": 176,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "open_by_handle_at": 304,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
}
_AARCH64 = {
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "ptrace": 117,
    "reboot": 142,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "swapon": 224,
    "perf_event_open": 241,
    "open_by_handle_at": 265,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}
MACHINES: dict[str, tuple[int, dict[str, int], dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        _X86_64,
        {"ioctl": 16, "socket": 41, "socketpair": 53, "clone": 56, "clone3": 435, "prlimit64": 302},
    ),
    "aarch64": (
        *(0xC00000B7, _AARCH64),
        {"ioctl": 29, "socket": 198, "socketpair": 199, "clone": 220, "clone3": 435, "prlimit64": 261},
    ),
}
"""For each machine name, the audit architecture number, the refused calls, and those that depend on arguments."""


@lru_cache(maxsize=8)
def filter_program(machine: str, families: tuple[int, ...]) -> bytes:
    """Return the filter for a machine named as by `os.uname`, allowing these socket address families.

    Raises:
        KeyError: there is no filter for that machine.
    """
    number, refused, special = MACHINES[machine]
    code = [
        *(_step(_LOAD, _MACHINE), _step(_IF_EQUAL, number, 1, 0), _step(_RETURN, _KILL)),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        code += _refuse(_IF_AT_LEAST, _X32, _ENOSYS)
    for call in (*refused.values(), *_SAME_EVERYWHERE.values()):
        code += _refuse(_IF_EQUAL, call, _EPERM)
    code += _refuse(_IF_EQUAL, special["clone3"], _ENOSYS)  # programs fall back to `clone`, which can be read
    code += _for_call(special["clone"], _FIRST_ARGUMENT, _refuse(_IF_ANY_BIT, _NEW_NAMESPACES, _EPERM))
    typing = [step for request in _TERMINAL_INPUT for step in _refuse(_IF_EQUAL, request, _EPERM)]
    code += _for_call(special["ioctl"], _SECOND_ARGUMENT, typing)
    code += _for_call(special["socket"], _FIRST_ARGUMENT, _only(families))
    if AF_UNIX not in families:
        kinds = [step for kind in _DATAGRAMS for step in _refuse(_IF_EQUAL, kind, _EPERM)]
        steps = [_step(_AND, _KIND_OF_SOCKET), *kinds, _step(_LOAD, _FIRST_ARGUMENT), *_only((AF_UNIX,))]
        code += _for_call(special["socketpair"], _SECOND_ARGUMENT, steps)
    code += _for_call(special["socketpair"], _FIRST_ARGUMENT, _only((AF_UNIX,)))
    code += _for_call(special["prlimit64"], _FIRST_ARGUMENT, _only((0,)))  # limits can end other processes
    return b"".join((*code, _step(_RETURN, _ALLOW)))


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Encode one instruction; jump offsets count instructions."""
    return code.to_bytes(2, "little") + bytes((if_true, if_false)) + value.to_bytes(4, "little")


NO_FILTER = _step(_RETURN, _ALLOW)
"""A filter that allows every call."""


def _refuse(test: int, value: int, error: int) -> list[bytes]:
    return [_step(test, value, 0, 1), _step(_RETURN, _FAIL | error)]


def _for_call(number: int, argument: int, steps: list[bytes]) -> list[bytes]:
    """Return steps that test an argument of one call; what they do not refuse is allowed."""
    body = [_step(_LOAD, argument), *steps, _step(_RETURN, _ALLOW)]
    return [_step(_IF_EQUAL, number, 0, len(body)), *body]


def _only(values: Iterable[int]) -> list[bytes]:
    allowed = [step for value in values for step in (_step(_IF_EQUAL, value, 0, 1), _step(_RETURN, _ALLOW))]
    return [*allowed, _step(_RETURN, _FAIL | _EPERM)]
