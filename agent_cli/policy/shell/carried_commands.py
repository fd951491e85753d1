"""Find the commands carried inside a command: in code passed to an interpreter, in a script file, in the recipe of
a target, behind an alias. For rules that forbid: text that looks like the command counts, and a command
assembled at run time is not found.
"""

import os
import re
from collections.abc import Iterator

from ..rules.path_verdict import Policy
from .inline_code import INTERPRETERS
from .parser import SimpleCommand
from .project_scripts import just_recipes, make_recipes, option_values, package_scripts
from .wrappers import SHELLS, git_settings, normalize, program

_RUN_TEXT = frozenset("awk gawk mawk nawk vim vi nvim view ex ed emacs tmux screen expect gdb m4 sed".split())
_PACKAGE_MANAGERS = frozenset("npm pnpm yarn bun".split())
_RUN_THE_REST = {
    **dict.fromkeys("uv poetry pipenv pdm rye hatch pipx conda".split(), ("run",)),
    **dict.fromkeys(_PACKAGE_MANAGERS, ("exec", "dlx", "x")),
    "bundle": ("exec",),
}
"""Verbs of programs that run the words after the verb."""
_RUN_ALL = frozenset("npx bunx uvx pnpx".split())
_LIST = re.compile(r"""(["'])\s*,\s*\1""")
_ENDS = re.compile(r"""["'`\n;|&(){}!\[\]]+|\\n""")
_SED_COMMAND = re.compile(r"(?:^|[\s;{}\d$!/])e\s+")
"""Text before a command that sed runs."""
_SED_EVALUATES = re.compile(r"([/|,#])[gpiImM\d]*e[gpiImM\d]*\s*(?:$|[;}\n])")
"""End of `s///e`, which runs its result."""
_MOST_TEXTS = 2_000


def carried_commands(part: SimpleCommand, cwd: str, policy: Policy) -> tuple[str, ...]:
    """Return the texts inside a command that may be commands; empty if no rule denies or asks about commands."""
    if not part.words or not (policy.rules.of("deny", "shell") or policy.rules.of("ask", "shell")):
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
        yield from (policy.script(os.path.join(cwd, path)) for path in part.reads)
    elif "/" in part.argv[0]:
        text = policy.script(os.path.join(cwd, part.argv[0]))
        yield text if text.startswith("#!") else ""
    match name:
        case "git":
            yield from _aliased(part, cwd, policy)
        case "sed":
            yield from map(_run_by_sed, words)
        case "make" | "gmake":
            yield make_recipes(words, cwd, policy.script)
        case "just":
            yield just_recipes(words, cwd, policy.script)
        case _ if name in _PACKAGE_MANAGERS or name in _RUN_ALL:
            yield from option_values(words, "-c", "--call")
            yield package_scripts(words, cwd, policy.script) if name in _PACKAGE_MANAGERS else ""
    verbs = _RUN_THE_REST.get(name, ())
    if name in _RUN_ALL:
        yield from _behind_options(words)
    elif at := next((at for at, word in enumerate(words, 1) if word in verbs), 0):
        yield from _behind_options(words[at:])


def _run_by_sed(script: str) -> str:
    text = _SED_COMMAND.sub("\n", script)
    return text.replace(end[1], "\n") if (end := _SED_EVALUATES.search(text)) else text


def _behind_options(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the command after the options; a word after an option may be its value or the start of the command."""
    for at, word in enumerate(words):
        if word.startswith("-"):
            continue
        yield " ".join(words[at:])
        if not at or not words[at - 1].startswith("-"):
            return


def _aliased(part: SimpleCommand, cwd: str, policy: Policy) -> Iterator[str]:
    """Yield the expansion of git's verb if it is an alias, including nested aliases."""
    verb, *rest = normalize(part)[1:] or [""]
    folder = os.path.join(cwd, *option_values(part.argv[1 : len(part.argv) - len(rest)], "-C"))
    given = [setting.partition("=") for setting in git_settings(part)]
    seen: set[str] = set()
    todo = [verb]
    while todo and (verb := todo.pop().lower()):
        if verb in seen:
            continue
        seen.add(verb)
        own = tuple(value for name, _, value in given if name.lower() == f"alias.{verb}")
        for value in (*own, *policy.git_aliases(folder, verb)):
            words = " ".join((value, *rest))
            yield words[1:] if words.startswith("!") else f"git {words}"
            todo += [] if value.startswith("!") else value.split()[:1]
