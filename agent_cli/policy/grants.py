"""Which rule to offer when a person says "always": a prefix only where the rest of the command cannot turn it
into something else, the exact command otherwise."""

import re

from .readers import git_extras_are_known
from .shell_syntax import SimpleCommand

_PREFIXES = (
    r"(?P<prefix>pytest|ruff|mypy|eslint|tsc|jest|vitest|tox|make [\w.-]+"
    r"|(?:npm|pnpm|yarn|bun) (?:run [\w:.-]+|test)"
    r"|cargo (?:build|test|check|clippy|fmt)|go (?:build|test|vet)|git (?:add|commit|status|diff|fetch|log)"
    r"|python[\d.]* -m (?:pytest|unittest|mypy)|uv run (?:pytest|ruff|mypy))(?P<more> [\s\S]*)?"
)


def grant_for(command: SimpleCommand) -> str:
    """A rule that would allow a simple command next time; empty when none should: with variables set in front,
    with globs, and where words with blanks in them would make the exact rule cover other commands too."""
    if not command.words or command.assigns or any(word.glob for word in command.words):
        return ""
    text = " ".join(command.argv)
    match = re.fullmatch(_PREFIXES, text)
    if match and not match["prefix"].startswith("make -") and (command.argv[0] != "git" or _plain(command)):
        return f"shell({match['prefix']} *)" if match["more"] else f"shell({text})"
    if any(re.search(r"[\s*]", word) or not word for word in command.argv):
        return ""
    return f"shell({text})"


def _plain(command: SimpleCommand) -> bool:
    return git_extras_are_known(command.argv, "")
