"""Commands run by Makefile targets, justfile recipes and package.json scripts."""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence

Read = Callable[[str], str]
"""Returns the text of a small file; empty if there is none."""

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile", "JUSTFILE")
_TARGET = re.compile(r"([^\s:#=][^:=#]*)::?(?!=)([^=]*)")
_RECIPE = re.compile(r"@?([A-Za-z_][\w-]*)([^:]*):(?!=)(.*)")
_OF_ITSELF = ("install", "i", "ci", "add", "pack", "publish", "version", "rebuild", "link")
"""Verbs of package managers that run lifecycle scripts."""
_LIFECYCLE = (
    "preinstall install postinstall prepublish preprepare prepare postprepare prepack postpack prepublishOnly"
    " publish postpublish preversion version postversion"
).split()
_SHORT = {"t": "test", "tst": "test"}
_MOST_FOLDERS = 40


def option_values(words: Sequence[str], short: str, *long: str) -> Iterator[str]:
    """Yield the values of an option in any form: `-C a`, `-Ca`, `--directory a`, `--directory=a`."""
    for at, word in enumerate(words):
        if word in (short, *long):
            yield from words[at + 1 : at + 2]
        elif word.startswith(short) and not word.startswith("--"):
            yield word[len(short) :]
        else:
            yield from (word.removeprefix(f"{name}=") for name in long if word.startswith(f"{name}="))


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
