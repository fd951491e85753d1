"""Main function of a child process that handles an untrusted file: set limits, then read one request from standard
input and write one answer to standard output. Not used in the agent's own process."""

import sys


def main() -> None:
    """Run the worker. argv: package folder, module of `agent_cli.workspace`, memory limit in bytes, CPU limit in
    seconds."""
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
        # Some systems lack the limit or have a lower one; the caller's timeout still applies.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
