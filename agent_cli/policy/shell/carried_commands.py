"""Find the commands that a command carries inside it: in code given as text to an interpreter, in a script that
it is told to run, in the recipe of a target. For rules that forbid: what looks like the command is taken for it,
and what puts a command together out of pieces is not found."""

import os
import re
from collections.abc import Iterator

from ..rules.path_verdict import Policy
from .inline_code import INTERPRETERS
from .parser import SimpleCommand
from .wrappers import SHELLS, program

_RUN_TEXT = frozenset("awk gawk mawk nawk vim vi nvim view ex ed emacs tmux screen expect gdb m4 sed".split())
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_LIST = re.compile(r"""(["'])\s*,\s*\1""")
_ENDS = re.compile(r"""["'`\n;|&(){}!\[\]]+|\\n""")
_TARGET = re.compile(r"([^\s:#=][^:=#]*)::?(?!=)([^=]*)")
_MOST_TEXTS = 2_000


def carried_commands(part: SimpleCommand, cwd: str, policy: Policy) -> tuple[str, ...]:
    """The texts inside a command that may be commands; none where no rule on commands forbids or asks."""
    if not part.words or not any(rule.kind == "shell" and rule.effect != "allow" for rule in policy.rules):
        return ()
    pieces = (
        piece.strip(" \t@-+") for text in _texts(part, cwd, policy) for piece in _ENDS.split(_LIST.sub(" ", text))
    )
    return tuple(dict.fromkeys(piece for piece in pieces if piece))[:_MOST_TEXTS]


def _texts(part: SimpleCommand, cwd: str, policy: Policy) -> Iterator[str]:
    name, words = program(part), part.argv[1:]
    is_interpreter = name in SHELLS or INTERPRETERS.fullmatch(name) is not None
    if is_interpreter or name in _RUN_TEXT:
        yield from (word for word in words if re.search(r"[\s('\"]", word))
    if is_interpreter or name in ("source", "."):
        yield next((policy.script(os.path.join(cwd, word)) for word in words if not word.startswith("-")), "")
    elif "/" in part.argv[0]:
        text = policy.script(os.path.join(cwd, part.argv[0]))
        yield text if text.startswith("#!") else ""
    elif name in ("make", "gmake"):
        yield _recipes([word for word in words if not word.startswith("-") and "=" not in word], cwd, policy)


def _recipes(wanted: list[str], cwd: str, policy: Policy) -> str:
    """The recipes that targets of a Makefile run, those of what they need included; all of them when it cannot be
    told which."""
    text = next(filter(None, (policy.script(os.path.join(cwd, name)) for name in _MAKEFILES)), "")
    needs: dict[str, list[str]] = {}
    recipes: dict[str, list[str]] = {}
    names: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for name in names:
                recipes.setdefault(name, []).append(line)
        elif match := _TARGET.match(line):
            before, _, recipe = match[2].partition(";")
            names = match[1].split()
            for name in names:
                needs.setdefault(name, []).extend(before.split())
                recipes.setdefault(name, []).append(recipe)
    todo = wanted or [name for name in needs if not name.startswith(".")][:1]
    if any(name not in needs for name in todo):
        return text
    seen: dict[str, None] = {}
    while todo:
        name = todo.pop()
        if name not in seen:
            seen[name] = None
            todo += needs.get(name, [])
    return "\n".join(line for name in seen for line in recipes.get(name, []))
