"""Choose the rule to offer when the user answers "always": a prefix only if the rest of the command cannot turn it
into something else, otherwise the exact command.
"""

import re

from .parser import SimpleCommand
from .readonly_commands import git_extras_are_known
from .risky_options import has_risky_option
from .wrappers import SHELLS, WRAPPERS, program

_PREFIXES = (
    r"(?P<prefix>pytest|ruff|mypy|eslint|tsc|jest|vitest|tox|make [\w.-]+"
    r"|(?:npm|pnpm|yarn|bun) (?:run [\w:.-]+|test)"
    r"|cargo (?:build|test|check|clippy|fmt)|go (?:build|test|vet)|git (?:add|commit|status|diff|fetch|log)"
    r"|python[\d.]* -m (?:pytest|unittest|mypy)|uv run (?:pytest|ruff|mypy))(?P<more> [\s\S]*)?"
)


_NEVER = frozenset(
    "rm rmdir shred curl wget http https xh ssh scp sftp rsync docker podman nerdctl docker-compose kubectl"
    " sudo doas su"
    " find xargs parallel eval exec source . awk gawk mawk nawk sed tee dd nc ncat netcat socat telnet ftp kill"
    " pkill killall chmod chown chgrp trap alias unshare nsenter chroot strace script expect aws gcloud az"
    " gsutil".split()
)
"""Programs whose next call may do something entirely different."""
_INTERPRETERS = (
    frozenset(
        "python python2 python3 pypy pypy3 node nodejs deno bun perl ruby php lua Rscript julia osascript tclsh"
        " groovy ghci irb ipython psql mysql sqlite3 mongosh".split()
    )
    | SHELLS
)
_CODE = re.compile(r"-[a-zA-Z]*[ceErpS]\b.*|--(eval|print|exec|execute|command|expression)(=.*)?|eval|-|-c.+|-e.+")


def _is_code(command: SimpleCommand) -> bool:
    """Return True if an interpreter gets its program as text or on standard input, not as `python -m x` or a
    file."""
    argv = command.argv[1:]
    return not argv or any(_CODE.fullmatch(word) for word in argv[:3])


def grant_for(command: SimpleCommand) -> str:
    """Return a rule that would allow a simple command next time; empty if none should be offered: with variables
    set in front, with globs, and if words with spaces would make the exact rule cover other commands too."""
    if not command.words or command.assigns or any(word.glob for word in command.words):
        return ""
    name = program(command)
    if name in _NEVER or name in WRAPPERS:
        return ""
    text = " ".join(command.argv)
    match = re.fullmatch(_PREFIXES, text)
    if match and not match["prefix"].startswith("make -") and _is_plain(command, f"{match['prefix']} *"):
        return f"shell({match['prefix']} *)" if match["more"] else f"shell({text})"
    if name in _INTERPRETERS and _is_code(command):
        return ""
    if any(re.search(r"[\s*]", word) or not word for word in command.argv):
        return ""
    return f"shell({text})"


def _is_plain(command: SimpleCommand, pattern: str) -> bool:
    """Return True if a prefix rule would cover this very command."""
    if command.argv[0] == "git":
        return git_extras_are_known(command.argv, "")
    return not has_risky_option(command, pattern, ())
