"""The main function of a child process that works on an untrusted file: limits first, then one request
from standard input, one answer to standard output. Nothing here is used in the agent's own process."""

import sys


def main() -> None:
    """argv: the folder of the package, a module of `agent_cli.workspace`, bytes of memory, seconds of CPU."""
    _, _, module, memory_bytes, cpu_s = sys.argv
    _limit(int(memory_bytes), int(cpu_s))
    import importlib

    work = importlib.import_module(f"agent_cli.workspace.{module}").work
    sys.stdout.buffer.write(work(sys.stdin.buffer.read()))
    sys.stdout.buffer.flush()


def _limit(memory_bytes: int, cpu_s: int) -> None:
    import contextlib
    import resource

    for kind, most in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, cpu_s)):
        # Some systems do not know the limit, or have a lower one already; the time-out of the caller remains.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
