"""Environment variables that another program sets for later commands, as shell lines in a file."""

from pathlib import Path

from agent_cli.fs.files import read_regular
from agent_cli.redaction.env_names import is_secret
from agent_cli.sandbox.process.runner import OverdueError, ProcessError, ProcessRunner, shell_program

from .shell_session import REPORT, ShellSession, read_report

_MAX_BYTES = 1_000_000
_LIMIT_S = 10.0


async def take_variables(path: Path, shell: ShellSession, processes: ProcessRunner) -> str:
    """Apply the variables set by the lines of a file to all later commands. Return a problem in words, or an empty
    text. The shell itself evaluates the lines. Variables that look like secrets are left out, since every command
    would see them."""
    try:
        lines = read_regular(path, _MAX_BYTES + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if not lines.strip() or len(lines) > _MAX_BYTES:
        return "is too large" if lines.strip() else ""
    argv = [
        shell_program(shell.env.get("PATH", "")),
        "-c",
        f"trap '{REPORT}' EXIT; {{ set -a; . \"$1\"; }} >&2",
        "",
        str(path),
    ]
    try:
        done = await processes.run(
            argv, cwd=shell.start, env=shell.env, timeout_s=_LIMIT_S, max_output_bytes=_MAX_BYTES
        )
    except (ProcessError, OverdueError) as error:
        return f"cannot be read: {error}"
    report = read_report(done.stdout)
    if report is None:
        return "cannot be read by the shell"
    changed = {name: value for name, value in report.env.items() if shell.env.get(name) != value}
    secrets = {name for name, value in changed.items() if is_secret(name, value)}
    shell.begin_with({name: value for name, value in changed.items() if name not in secrets})
    left = f"sets what looks like a secret, which commands do not get: {', '.join(sorted(secrets))}"
    return left if secrets else ""
