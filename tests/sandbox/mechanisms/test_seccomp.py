"""The filter for system calls, run by a machine of our own for every processor and by the kernel for this one."""

import errno
import platform
import subprocess
import sys

import pytest

from agent_cli.sandbox.mechanisms.seccomp import AF_INET, AF_NETLINK, AF_UNIX, MACHINES, filter_program

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
NAMES = sorted(MACHINES)


def decide(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """What the kernel's machine would answer for a call."""
    data = number.to_bytes(4, "little") + audit.to_bytes(4, "little") + bytes(8)
    data += b"".join(argument.to_bytes(8, "little") for argument in (*arguments, 0, 0, 0, 0, 0, 0)[:6])
    value, at = 0, 0
    while True:
        step = program[at * 8 : at * 8 + 8]
        code, if_true, if_false = int.from_bytes(step[:2], "little"), step[2], step[3]
        operand = int.from_bytes(step[4:], "little")
        at += 1
        if code == 0x20:
            value = int.from_bytes(data[operand : operand + 4], "little")
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            return operand
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += if_true if holds else if_false


def answer(machine: str, call: str | int, *arguments: int, families: tuple[int, ...] = (AF_UNIX, AF_INET)) -> int:
    audit, refused, special = MACHINES[machine]
    number = call if isinstance(call, int) else {**refused, **special}[call]
    return decide(filter_program(machine, families), audit, number, *arguments)


@pytest.mark.parametrize("machine", NAMES)
def test_dangerous_calls_are_refused_and_others_are_not(machine: str) -> None:
    for call in (*MACHINES[machine][1], 425, 427, 428, 429, 438, 442):
        assert answer(machine, call) == EPERM, call
    for number in (0, 1, 2, 3, 9, 59, 63, 64, 93, 172, 221, 231, 281, 424, 436, 437, 439, 444, 449):
        assert answer(machine, number) == ALLOW, number


@pytest.mark.parametrize("machine", NAMES)
def test_processes_and_threads_can_be_made_but_no_namespaces(machine: str) -> None:
    assert answer(machine, "clone", 0x01200011) == ALLOW  # fork
    assert answer(machine, "clone", 0x003D0F00) == ALLOW  # a thread
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, "clone", flag | 17) == EPERM, hex(flag)
    assert answer(machine, "clone3") == ENOSYS


@pytest.mark.parametrize("machine", NAMES)
def test_only_the_named_kinds_of_sockets_can_be_made(machine: str) -> None:
    assert [answer(machine, "socket", family) for family in (AF_UNIX, AF_INET)] == [ALLOW] * 2
    for family in (10, AF_NETLINK, 17, 38, 40):
        assert answer(machine, "socket", family) == EPERM
    assert answer(machine, "socket", AF_UNIX, families=(AF_NETLINK,)) == EPERM
    assert answer(machine, "socketpair", AF_UNIX, families=(AF_NETLINK,)) == ALLOW
    assert answer(machine, "socketpair", 40) == EPERM


@pytest.mark.parametrize("machine", NAMES)
def test_pairs_of_sockets_reach_no_third_one_where_sockets_are_closed(machine: str) -> None:
    stream, datagram, raw, sequenced, not_inherited = 1, 2, 3, 5, 0x80000
    for kind in (stream, sequenced, stream | not_inherited):
        assert answer(machine, "socketpair", AF_UNIX, kind, families=(AF_NETLINK,)) == ALLOW
    for kind in (datagram, raw, datagram | not_inherited):
        assert answer(machine, "socketpair", AF_UNIX, kind, families=(AF_NETLINK,)) == EPERM
        assert answer(machine, "socketpair", AF_UNIX, kind) == ALLOW
    assert answer(machine, "socketpair", 40, stream, families=(AF_NETLINK,)) == EPERM


@pytest.mark.parametrize("machine", NAMES)
def test_limits_of_other_processes_cannot_be_set(machine: str) -> None:
    assert [answer(machine, "prlimit64", pid) for pid in (0, 1, 4711)] == [ALLOW, EPERM, EPERM]


@pytest.mark.parametrize("machine", NAMES)
def test_nothing_can_be_typed_into_a_terminal(machine: str) -> None:
    for request in (0x5412, 0x541C):
        assert answer(machine, "ioctl", 0, request) == EPERM
        assert answer(machine, "ioctl", 0, request | 1 << 32) == EPERM  # the kernel heeds the lower half alone
    assert answer(machine, "ioctl", 0, 0x5413) == ALLOW


def test_calls_of_another_machine_end_the_process_and_those_of_x32_are_unknown() -> None:
    program = filter_program("x86_64", (AF_UNIX,))
    assert decide(program, 0x40000003, 1) == KILL
    assert decide(program, MACHINES["x86_64"][0], 0x40000000 | 101) == ENOSYS


@pytest.mark.parametrize("machine", NAMES)
def test_it_is_short_enough_for_the_kernel(machine: str) -> None:
    assert len(filter_program(machine, tuple(range(1, 50)))) // 8 < 4096


@pytest.mark.parametrize(
    "machine", [name for name in NAMES if name == platform.machine() and sys.platform == "linux"]
)
def test_the_kernel_takes_it_and_does_as_it_says(machine: str) -> None:
    code = (
        "import os, socket, sys\n"
        "from agent_cli.sandbox.helper.landlock_apply import _Kernel\n"
        "from agent_cli.sandbox.mechanisms.seccomp import filter_program\n"
        "kernel = _Kernel()\n"
        "kernel.prctl(38, 1, 0, 0, 0)\n"
        "kernel.filter(filter_program(os.uname().machine, (1,)))\n"
        "print(kernel.call(101 if os.uname().machine == 'x86_64' else 117, 0, 0, 0, 0))\n"
        "socket.socket(socket.AF_UNIX).close()\n"
        "try: socket.socket(socket.AF_INET)\n"
        "except PermissionError: print('refused')\n"
        "pid = os.fork()\n"
        "if not pid: os._exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert done.stdout == "-1\nrefused\n3\n", done.stderr
