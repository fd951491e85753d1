"""Find workspace files that git's configuration and hooks refer to: hooks kept in the project, programs they
start, filters, monitors, included configuration. Whoever may write these files controls what git runs.
Configuration is parsed here instead of asking git."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from agent_cli.fs.files import read_regular
from agent_cli.fs.git_files import SETTINGS_FILES, is_repository, settings

from .repository import GitFolder, git_folder

_LARGEST = 200_000
_DEEPEST = 5
"""Maximum nesting depth of included configuration."""
_FOLDERS = ("core.hookspath", "init.templatedir")
_FILES = ("core.attributesfile", "core.excludesfile")
_WORDS = re.compile(r"[^\s;|&()<>'\"`$=]+")
"""Words of a command line; words with spaces are not found."""
_VARIABLE = re.compile(r"\$(?:\w+|\{[^}]*\})")
_BETWEEN = r"""[ \t,"'\[\]]+"""
_INTERPRETED = re.compile(
    r"(?<![\w.-])(?:\.|source|(?:ba|da|k|z|fi)?sh|python[\d.]*|node|deno|bun|tsx|ruby|perl|php|pwsh)"
    rf"(?:{_BETWEEN}-(?!m\b)[\w-]+)*{_BETWEEN}(-m{_BETWEEN})?([^\s;|&()<>'\"`$=,\[\]-][^\s;|&()<>'\"`$=,\[\]]*)"
)
"""A program that runs a file, its options, and the file, or the module after `-m`."""
_CONFIGURED = {
    "pre-commit": (".pre-commit-config.yaml", ".pre-commit-config.yml"),
    "lefthook": tuple(
        f"{dot}lefthook{local}.{kind}"
        for dot in ("", ".")
        for local in ("", "-local")
        for kind in ("yml", "yaml", "toml", "json")
    ),
}
"""Programs that hooks start → configuration files that tell them what to run."""


def run_by_git(root: str) -> tuple[str, ...]:
    """Return the real paths below a workspace folder that the hooks and configuration of its repository and the
    user's configuration refer to; in a bare repository, its own settings and hooks. Hooks, configuration, and the
    configuration of programs in hooks need not exist yet."""
    if is_repository(root):
        return tuple(sorted(os.path.join(os.path.realpath(root), name) for name in (*SETTINGS_FILES, "hooks")))
    try:
        place = git_folder(root)
    except (OSError, ValueError):
        return ()
    if place is None:
        return ()
    named = [os.path.realpath(path) for file in _files(place) for path in _named_in(file, place.top, _DEEPEST)]
    hooks = [os.path.join(place.common, "hooks"), *filter(os.path.isdir, named)]
    found = {*named, *(os.path.realpath(path) for folder in hooks for path in _started(folder, place.top))}
    inside = os.path.realpath(root).rstrip(os.sep) + os.sep
    return tuple(sorted(path for path in found if path.startswith(inside)))


def aliases(folder: str, verb: str) -> tuple[str, ...]:
    """Return the expansions of a git alias in a folder, by the configuration of its repository and the user."""
    found = (each for file in _files(_place(folder)) for each in _with_included(file, _DEEPEST))
    written = (value for name, value in found if name == f"alias.{verb.lower()}")
    return tuple(re.sub(r'\\(.)|"', lambda part: part[1] or "", value) for value in written)


def setting_value(folder: str, wanted: str) -> str:
    """Return the value of a setting, named as `settings` does, in a folder: the last one in the file that takes
    precedence. Files included on a condition are not read."""
    for file in _files(_place(folder)):
        found = [value for name, value in _with_included(file, _DEEPEST, by_condition=False) if name == wanted]
        if found:
            return found[-1].partition(" #")[0].partition(" ;")[0].strip('" ')
    return ""


def _place(folder: str) -> GitFolder | None:
    try:
        return git_folder(folder)
    except (OSError, ValueError):
        return None


def _files(place: GitFolder | None) -> tuple[str, ...]:
    """Return the configuration files that git reads, or reads where the variables of another shell apply. Each
    takes precedence over those after it."""
    home = os.path.expanduser("~")
    own = (os.path.join(place.own, "config.worktree"), os.path.join(place.common, "config")) if place else ()
    users = (os.path.join(home, ".gitconfig"), os.path.join(home, ".config", "git", "config"))
    bases = filter(os.path.isabs, (os.environ.get("XDG_CONFIG_HOME", ""),))
    named = filter(
        os.path.isabs, (os.environ.get(name, "") for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"))
    )
    further = (*(os.path.join(base, "git", "config") for base in bases), *named, "/etc/gitconfig")
    return tuple(dict.fromkeys((*own, *users, *further)))


def _with_included(file: str, deepest: int, *, by_condition: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the settings in a file and in those it includes; `by_condition`: also in those that it includes on a
    condition, whether or not that holds."""
    for name, value in _settings(file):
        yield name, value
        if deepest and _includes(name) and (by_condition or name == "include.path"):
            included = _joined(os.path.dirname(file), value)
            yield from _with_included(included, deepest - 1, by_condition=by_condition)


def _includes(name: str) -> bool:
    return name.startswith(("include.", "includeif.")) and name.endswith(".path")


def _named_in(file: str, top: str, deepest: int) -> Iterator[str]:
    """Yield the paths that a configuration file refers to. Relative ones are based on the work tree, those of
    includes on the file."""
    for name, value in _settings(file):
        if _includes(name):
            included = _joined(os.path.dirname(file), value)
            yield included
            if deepest:
                yield from _named_in(included, top, deepest - 1)
        elif name in _FOLDERS or name in _FILES:
            yield _joined(top, value)
        else:
            yield from _files_in(value, top, top)


def _started(folder: str, top: str) -> Iterator[str]:
    """Yield the files that the hooks in a folder start or link to, and the configuration of the programs they
    start."""
    names: list[str] = []
    with suppress(OSError):
        names = [name for name in os.listdir(folder) if not name.endswith(".sample")]
    for hook in (os.path.join(folder, name) for name in names):
        if os.path.islink(hook):
            yield hook
        with suppress(OSError):
            text = read_regular(os.path.realpath(hook), _LARGEST).decode("utf-8", "surrogateescape")
            yield from _files_in(text, top, folder)
            for program, files in _CONFIGURED.items():
                yield from (_joined(top, name) for name in files if program in text)


def _files_in(text: str, top: str, folder: str) -> Iterator[str]:
    """Yield the files that command lines name, relative to the top of the work tree or, as after `$(dirname
    "$0")`, to the folder of the script. What follows a variable or the output of a command is tried at both."""
    plain = _VARIABLE.sub(" ", text)
    words = [word.lstrip("!") for word in _WORDS.findall(plain) if "/" in word]
    for is_module, word in _INTERPRETED.findall(plain):
        path = word.replace(".", "/")
        words += (f"{path}.py", f"{path}/__main__.py") if is_module else (word,)
    ends = (word.lstrip("/") for word in words if word.startswith(("/", ".")))
    named = [_joined(top, word) for word in words]
    named += [_joined(base, end) for end in ends for base in (top, folder)]
    return filter(os.path.isfile, dict.fromkeys(named))


def _settings(file: str) -> Iterator[tuple[str, str]]:
    """Yield the settings in a file that have a value, as far as git could read it."""
    with suppress(OSError):
        yield from ((name, value) for name, value in settings(read_regular(file, _LARGEST)) if value)


def _joined(base: str, value: str) -> str:
    plain = value.replace("\0", "").strip('"')
    return os.path.normpath(os.path.join(base, os.path.expanduser(plain)))
