"""Find the commands carried inside a command: in code passed to an interpreter, in a script file, in the recipe of
a Makefile or justfile, in a script of package.json, behind an alias. For rules that forbid: text that looks like
the command counts, and a command assembled at run time is not found."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from agent_cli.protocol.lazy_regex import lazy_regex

from ..rules.path_verdict import Policy
from .destructive import INTERPRETERS, pieces_of
from .git_needs import OWN_VERBS, folder_of
from .parser import SimpleCommand
from .wrappers import PACKAGE_MANAGERS, SHELLS, git_settings, normalize, option_values, program

_RUN_TEXT = frozenset("awk gawk mawk nawk vim vi nvim view ex ed emacs tmux screen expect gdb m4 sed".split())
_GIVEN = lazy_regex(r"-\w*[FeI]|--[\w-]+=(exec=)?")
"""Options of tar and rsync before a program to run."""
_SED_COMMAND = lazy_regex(r"(?:^|[\s;{}\d$!/])e\s+")
"""Text before a command that sed runs."""
_SED_EVALUATES = lazy_regex(r"([/|,#])[gpiImM\d]*e[gpiImM\d]*\s*(?:$|[;}\n])")
"""End of `s///e`, which runs its result."""
_MOST_TEXTS = 2_000


def carried_commands(part: SimpleCommand, cwd: str, policy: Policy) -> tuple[str, ...]:
    """Return the texts inside a command that may be commands; empty if no rule denies or asks about commands."""
    if not part.words or not (policy.rules.of("deny", "shell") or policy.rules.of("ask", "shell")):
        return ()
    pieces = (piece for text in _texts(part, cwd, policy) for piece in pieces_of(text) if piece)
    return tuple(dict.fromkeys(pieces))[:_MOST_TEXTS]


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
            yield from alias_lines(part, cwd, policy)
        case "tar" | "bsdtar" | "rsync":
            yield from (_GIVEN.sub("", word, count=1) for word in words)
        case "sed":
            yield from map(_run_by_sed, words)
        case "make" | "gmake":
            yield make_recipes(words, cwd, policy.script)
        case "just":
            yield just_recipes(words, cwd, policy.script)
        case "npx" | "npm" | "pnpm" | "yarn" | "bun":
            yield from option_values(words, "-c", "--call")
            yield package_scripts(words, cwd, policy.script) if name in PACKAGE_MANAGERS else ""


def _run_by_sed(script: str) -> str:
    text = _SED_COMMAND.sub("\n", script)
    return text.replace(end[1], "\n") if (end := _SED_EVALUATES.search(text)) else text


def alias_lines(part: SimpleCommand, cwd: str, policy: Policy) -> Iterator[str]:
    """Yield the lines that a git command stands for if its verb is an alias, including nested aliases."""
    verb, *rest = normalize(part)[1:] or [""]
    folder = folder_of(part, cwd)
    given = [setting.partition("=") for setting in git_settings(part)]
    seen: set[str] = set()
    todo = [verb]
    while todo and (verb := todo.pop().lower()):
        if verb in seen or verb in OWN_VERBS:
            continue
        seen.add(verb)
        own = tuple(value for name, _, value in given if name.lower() == f"alias.{verb}")
        for value in (*own, *policy.git_aliases(folder, verb)):
            words = f"{value} {shlex.join(rest)}".rstrip()
            yield words[1:] if words.startswith("!") else f"git {words}"
            todo += [] if value.startswith("!") else value.split()[:1]


Read = Callable[[str], str]
"""Returns the text of a small file; empty if there is none."""

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile", "JUSTFILE")
_TARGET = lazy_regex(r"([^\s:#=][^:=#]*)::?(?!=)([^=]*)")
_RECIPE = lazy_regex(r"@?([A-Za-z_][\w-]*)([^:]*):(?!=)(.*)")
_OF_ITSELF = ("install", "i", "ci", "add", "pack", "publish", "version", "rebuild", "link")
"""Verbs of package managers that run lifecycle scripts."""
_LIFECYCLE = (
    "preinstall install postinstall prepublish preprepare prepare postprepare prepack postpack prepublishOnly"
    " publish postpublish preversion version postversion"
).split()
_SHORT = {"t": "test", "tst": "test"}
_MOST_FOLDERS = 40


def make_recipes(words: Sequence[str], cwd: str, read: Read) -> str:
    """Return the recipes that Makefile targets run, including their prerequisites; the whole file if the targets
    are uncertain."""
    folder = os.path.join(cwd, *option_values(words, "-C", "--directory"))
    named = [*option_values(words, "-f", "--file", "--makefile")]
    text = (
        "\n".join(read(os.path.join(folder, name)) for name in named)
        if named
        else _first(folder, _MAKEFILES, read)
    )
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
    first = [name for name in needs if not name.startswith(".")][:1]
    wanted = [word for word in words if not word.startswith("-") and "=" not in word and word not in named]
    return _needed(wanted or first, needs, recipes, text)


def just_recipes(words: Sequence[str], cwd: str, read: Read) -> str:
    """Return the recipes of a justfile that a command runs, including dependencies; the whole file if they are
    uncertain."""
    folder = os.path.join(cwd, *option_values(words, "-d", "--working-directory"))
    named = [*option_values(words, "-f", "--justfile")]
    text = (
        "\n".join(read(os.path.join(cwd, name)) for name in named) if named else _upward(folder, _JUSTFILES, read)
    )
    needs: dict[str, list[str]] = {}
    recipes: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line[:1] in (" ", "\t"):
            recipes.setdefault(name, []).append(line)
        elif match := _RECIPE.match(line):
            name = match[1]
            needs[name] = re.findall(r"[A-Za-z_][\w-]*", match[3])
    wanted = [word for word in words if word in needs]
    is_plain = bool(wanted) or all(word.startswith("-") for word in words)
    return _needed(wanted or list(needs)[:1], needs, recipes, text) if is_plain else text


def package_scripts(words: Sequence[str], cwd: str, read: Read) -> str:
    """Return the package.json scripts that a package manager command runs, with their pre and post scripts and the
    scripts they name."""
    folder = os.path.join(cwd, *option_values(words, "-C", "--prefix", "--cwd", "--dir"))
    text = _upward(folder, ("package.json",), read)
    try:
        found = json.loads(text or "{}")["scripts"].items()
    except RecursionError:  # other JSON parsers nest deeper, so the whole text counts
        return text
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    scripts = {name: text for name, text in found if isinstance(text, str)}
    todo = [_SHORT.get(word, word) for word in words if not word.startswith("-")]
    if any(word in _OF_ITSELF for word in todo[:1]):
        todo += _LIFECYCLE
    seen: dict[str, str] = {}
    while todo:
        name = todo.pop()
        for each in (name, f"pre{name}", f"post{name}"):
            if each in scripts and each not in seen:
                seen[each] = scripts[each]
                todo += scripts[each].split()
    return "\n".join(seen.values())


def _needed(wanted: list[str], needs: dict[str, list[str]], recipes: dict[str, list[str]], text: str) -> str:
    """Return the recipes of the wanted targets and their dependencies; the whole text if one is unknown."""
    if any(name not in needs for name in wanted):
        return text
    seen: dict[str, None] = {}
    todo = list(wanted)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen[name] = None
            todo += needs.get(name, [])
    return "\n".join(line for name in seen for line in recipes.get(name, []))


def _first(folder: str, names: tuple[str, ...], read: Read) -> str:
    return next(filter(None, (read(os.path.join(folder, name)) for name in names)), "")


def _upward(folder: str, names: tuple[str, ...], read: Read) -> str:
    """Return the text of the first of these files found in a folder or its parents."""
    folder = os.path.normpath(folder)
    for _ in range(_MOST_FOLDERS):
        if (text := _first(folder, names, read)) or folder == os.path.dirname(folder):
            return text
        folder = os.path.dirname(folder)
    return ""
