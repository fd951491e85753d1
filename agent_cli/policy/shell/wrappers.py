"""Remove wrappers to find what a simple command really runs, including scripts of nested shells and commands of
`find`.

Each wrapper has a table of its options; an option missing from it makes the line `Unsure`, because the program
after it would be a guess.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

import msgspec

from .parser import SimpleCommand, Unsure, Word, parse

MAX_LAYERS = 8
_MOST_STARTED = 64
MAX_SHELLS = 4
"""Maximum number of shells inside one another."""

_LEFTOVERS = (
    r"__pycache__|node_modules|\.(pytest|mypy|ruff)_cache|\.ipynb_checkpoints|\.DS_Store|Thumbs\.db"
    r"|\*\.(py[co]|py\[co\]|class|o|obj|rej|swp)|\*~"
)
"""Names of files and folders that tools leave behind; none of git's own has such a name."""
_LIKE_BRANCHES = r"\*\.(orig|bak|tmp)"
"""Names of what tools leave behind, and of branches: a file in git's folder has the name of its branch."""
_NOT_OF_GIT = r"(!|-not) -path (\*|\./|\*/)\.git/?\*"
TRANSPARENT = frozenset("timeout nice ionice time stdbuf env".split())
"""Wrappers that are as harmless as the commands they run."""
SHELLS = frozenset("sh bash zsh dash ksh mksh fish ash rbash".split())
PACKAGE_MANAGERS = frozenset("npm pnpm yarn bun".split())
_GNU = frozenset(
    "rm rmdir mv cp ln dd shred truncate unlink chmod chown chgrp tee touch mkdir install find sed xargs env"
    " timeout nice nohup stdbuf tar kill".split()
)
"""Programs to whose names macOS packages add a `g`."""
_ASSIGNMENT = r"[A-Za-z_]\w*\+?=.*"


class Wrapper(msgspec.Struct, frozen=True):
    """A program that runs its later words. Options are regular expressions for whole words."""

    flags: str = ""
    """Options without a value."""
    valued: str = ""
    """Options that take the next word."""
    operands: int = 0
    """Number of plain words before the command."""
    verbs: str = ""
    """Words of which one must come before the command: `mise exec`."""
    is_loose: bool = False
    """True if its other options are not known, so that any word behind one may begin the command: `uv run --with a
    b`. What it runs can be forbidden, never allowed."""
    assigns: bool = False
    """True if `NAME=value` words may come first."""
    queries: str = ""
    """First option with which it runs nothing."""
    script: bool = False
    """True if it passes its words to a shell."""
    feeds: bool = False
    """True if it adds words to the command."""


WRAPPERS: dict[str, Wrapper] = {
    "env": Wrapper(r"-i?|--ignore-environment|-u.+|--unset=.*", "-u|--unset", assigns=True),
    "sudo": Wrapper(r"-[nEHbSisA]+|-[ughp].+", "-[ughp]", assigns=True),
    "doas": Wrapper(r"-[ns]+|-u.+", "-u"),
    "nohup": Wrapper(),
    "nice": Wrapper(r"-\d+|--?\d+|-n-?\d+|--adjustment=-?\d+", "-n|--adjustment"),
    "ionice": Wrapper(r"-t|-[cn]\d+", "-[cn]"),
    "timeout": Wrapper(
        r"-v|--verbose|--foreground|--preserve-status|-[sk].+|--(signal|kill-after)=.+",
        "-[sk]|--signal|--kill-after", 1,
    ),
    "time": Wrapper(r"-[pv]+", assigns=True),
    "xargs": Wrapper(
        r"-[0rtx]+|--null|--no-run-if-empty|--verbose|--exit|-[InPLdsE].+|-i.*"
        r"|--(max-args|max-procs|max-lines|delimiter|replace|max-chars)=.*",
        "-[InPLdsE]", feeds=True,
    ),
    "setsid": Wrapper(r"-[cfw]+|--ctty|--fork|--wait"),
    "stdbuf": Wrapper(r"-[ioe].+|--(input|output|error)=.+", "-[ioe]"),
    "command": Wrapper("-p", queries="-[vV]"),
    "builtin": Wrapper(),
    "exec": Wrapper("-[cl]+", "-a"),
    "busybox": Wrapper(),
    "watch": Wrapper(r"-[bcdegptx]+|-n[\d.]+", "-n", script=True),
    **dict.fromkeys(["strace", "ltrace"], Wrapper(r"-[fFqvtTyiCcrx]+|-[eos].+|--[\w-]+=.*", "-[eosPpu]")),
    "unshare": Wrapper(r"-[a-zA-Z]+|--[\w-]+(=.*)?", "-[SGRw]|--(root|wd|setuid|setgid)"),
    "nsenter": Wrapper(r"-[a-zA-Z]+\d*|--[\w-]+(=.*)?", "-[tSG]|--target"),
    "taskset": Wrapper("-[ac]+|--all-tasks|--cpu-list", operands=1),
    "chrt": Wrapper("-[abfiomrv]+|--[a-z-]+", "-[TPD]", 1),
    "setarch": Wrapper(r"-[a-zA-Z0-9]+|--[\w-]+", operands=1),
    **dict.fromkeys(
        "fakeroot unbuffer caffeinate toybox chronic torsocks eatmydata linux64 linux32 dbus-run-session"
        " systemd-inhibit prlimit firejail rlwrap".split(),
        Wrapper(r"-.*"),
    ),
    "faketime": Wrapper("-.*", operands=1),
    "numactl": Wrapper("-.*", "-[NmCpilP]"),
    "proot": Wrapper("-.*", "-[brwqki]"),
    **dict.fromkeys(["proxychains", "proxychains4"], Wrapper("-.*", "-f")),
    "xvfb-run": Wrapper("-.*", "-[efnpsw]"),
    "flock": Wrapper(r"-[nxsueoF]+|-w\d+", "-[wE]", 1),
    "mise": Wrapper(verbs="exec|x"),
    "nvm": Wrapper("--silent", operands=1, verbs="exec"),
    "rustup": Wrapper("--install", operands=1, verbs="run"),
    "fnm": Wrapper("--[a-z-]+=.*", "--[a-z-]+", verbs="exec"),
    "volta": Wrapper("--(no|bundled)-[a-z]+|--[a-z-]+=.*", "--(node|npm|pnpm|yarn|env)", verbs="run"),
    **dict.fromkeys("asdf rbenv pyenv nodenv goenv jenv".split(), Wrapper(verbs="exec")),
    "direnv": Wrapper(operands=1, verbs="exec"),
    **dict.fromkeys(
        "uv poetry pipenv pdm rye hatch pipx conda mamba micromamba pixi devbox doppler dotenvx infisical"
        " op".split(),
        Wrapper(verbs="run", is_loose=True),
    ),
    **dict.fromkeys(PACKAGE_MANAGERS, Wrapper(verbs="exec|dlx|x", is_loose=True)),
    **dict.fromkeys("bundle tox lerna nx aws-vault chamber".split(), Wrapper(verbs="exec", is_loose=True)),
    **dict.fromkeys(
        "npx bunx uvx pnpx corepack cross-env cross-env-shell env-cmd dotenv entr watchexec hyperfine concurrently"
        " valgrind systemd-cat cpulimit setpriv bwrap arch screen".split(),
        Wrapper(is_loose=True),
    ),
    **dict.fromkeys(["gosu", "su-exec"], Wrapper(operands=1)),
    "perf": Wrapper(verbs="stat|record|trace", is_loose=True),
    **dict.fromkeys(["gdb", "lldb", "rr"], Wrapper(verbs="--args|--|record", is_loose=True)),
    "nodemon": Wrapper(verbs="-x|--exec", is_loose=True),
    **dict.fromkeys(["nix", "nix-shell"], Wrapper(verbs="-c|--command|--run", is_loose=True)),
    "cmake": Wrapper(verbs="-E", is_loose=True),
    **dict.fromkeys(["pwsh", "powershell", "nu"], Wrapper(verbs="(?i)-c|-command", is_loose=True)),
    "tmux": Wrapper(
        verbs="new(-session|w|-window)?|split(w|-window)|respawn(p|w|-pane|-window)|run(-shell)?|send(-keys)?"
        "|popup|display-popup|pipe(p|-pane)|if(-shell)?", is_loose=True,
    ),
}  # fmt: skip
_SHELL_FLAGS = r"[-+][abcefhiklmnprstuvxBCEHPT]+|--(norc|noprofile|posix|login|noediting)"
_SHELL_VALUED = r"[-+][abcefhiklmnprstuvxBCEHPT]*[oO]"
_GIT_FLAGS = (
    r"-[pP]|--(no-pager|paginate|bare|no-replace-objects|no-optional-locks|no-advice|no-lazy-fetch"
    r"|literal-pathspecs"
    r"|glob-pathspecs|noglob-pathspecs|icase-pathspecs)|--(git-dir|work-tree|namespace|exec-path|config-env)=.*"
)
_GIT_VALUED = r"-[Cc]|--(git-dir|work-tree|namespace|config-env|super-prefix)"
_GIT_ALONE = r"--(version|help|exec-path|html-path|man-path|info-path)|-[vh]"
_GIT_RUNS = (
    r"(bisect run|submodule( -\S+)* foreach|filter-branch|for-each-repo)\b.*"
    r"|rebase (.* )?(-[a-z]*x|--ex).*|difftool (.* )?(-[a-z]*x|--ext).*"
)
_UNSEEN = "what `{}` runs comes from other words"
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")


class UnwrappedCommand(msgspec.Struct, frozen=True):
    """`commands`: the command as written, then every command it runs. `scripts`: lines it passes to a shell."""

    commands: tuple[SimpleCommand, ...]
    scripts: tuple[str, ...]


def unwrap(command: SimpleCommand) -> UnwrappedCommand:
    """Return everything a simple command runs, as far as its words tell.

    Raises:
        Unsure: a wrapper, a shell or git has an option that is not in the tables, or a loop repeats another one.
    """
    found: list[SimpleCommand] = []
    scripts: list[str] = []
    todo = [command]
    while todo:
        if len(found) >= MAX_LAYERS:
            raise Unsure("too many commands inside one another")
        current = todo.pop()
        found.append(current)
        inner, script = _inside(current)
        todo += inner
        scripts += script
    if command.block and any(_has_block(each, 1) for each in scripts):
        raise Unsure("a loop in the script of a loop, which may be very many commands")
    return UnwrappedCommand(tuple(found), tuple(scripts))


def _has_block(script: str, depth: int) -> bool:
    """Return True if a loop or a condition is in a script, or in one that it passes to a shell."""
    try:
        parts = parse(script) if depth <= MAX_SHELLS else ()
        inner = [each for part in parts for each in unwrap(part).scripts]
    except Unsure:
        return False
    return any(part.block for part in parts) or any(_has_block(each, depth + 1) for each in inner)


def program(command: SimpleCommand) -> str:
    """Return the name of the program without its directory."""
    return command.words[0].text.rsplit("/", 1)[-1] if command.words else ""


def normalize(command: SimpleCommand) -> tuple[str, ...]:
    """Return program and arguments, without the program's directory and git's global options.

    Raises:
        Unsure: a git option that is not in the tables.
    """
    name = program(command)
    if name != "git":
        return (name, *command.argv[1:]) if command.words else ()
    if re.fullmatch(_GIT_ALONE, command.argv[1] if len(command.words) > 1 else ""):
        return (name, *command.argv[1:])
    rest = _past_options("git", list(command.words[1:]), _GIT_FLAGS, _GIT_VALUED)
    if re.fullmatch(_GIT_RUNS, " ".join(word.text for word in rest)):
        raise Unsure("git runs a script of its own")
    return (name, *(word.text for word in rest))


def git_settings(command: SimpleCommand) -> tuple[str, ...]:
    """Return the values of `-c NAME=VALUE` and `--config-env=NAME=VARIABLE` before git's verb."""
    before = len(command.words) - len(normalize(command)) + 1
    argv = command.argv[:before]
    joined = tuple(word.partition("=")[2] for word in argv if word.startswith("--config-env="))
    return joined + tuple(
        value for flag, value in zip(argv, argv[1:], strict=False) if flag in ("-c", "--config-env")
    )


def option_values(words: Sequence[str], short: str, *long: str) -> Iterator[str]:
    """Yield the values of an option in any form: `-C a`, `-Ca`, `--directory a`, `--directory=a`."""
    for at, word in enumerate(words):
        if word in (short, *long):
            yield from words[at + 1 : at + 2]
        elif word.startswith(short) and not word.startswith("--"):
            yield word[len(short) :]
        else:
            yield from (word.removeprefix(f"{name}=") for name in long if word.startswith(f"{name}="))


def _inside(command: SimpleCommand) -> tuple[list[SimpleCommand], list[str]]:
    name = program(command)
    words = list(command.words[1:])
    fed = command.has_unseen_words
    if name in SHELLS:
        return [], _shell_script(name, words, fed)
    if name == "eval":
        return [], [_joined(words[1:] if words[:1] == [Word("--")] else words)]
    if name == "find":
        return _find_commands(words), []
    if name == "parallel":
        return _parallel(words), []
    if name == "script":
        return [], _recorded(words)
    verb = words[len(words) + 1 - len(normalize(command)) :][:1]
    if name == "git" and (verb[0].glob if verb else fed):
        raise Unsure(_UNSEEN.format(name))
    wrapper = WRAPPERS.get(name)
    if wrapper is None or wrapper.is_loose or (words and re.fullmatch(wrapper.queries, words[0].text)):
        return [], []
    rest = _behind_verb(wrapper, words)
    if rest is None:
        return [], []
    return _unwrapped(name, wrapper, rest, fed) if name != "mise" else _by_mise(rest, fed)


def plainly_named(command: SimpleCommand) -> SimpleCommand:
    """Return a command under the usual name of its program: a disk that ignores case runs `rm` for `RM`, GNU tools
    on macOS begin with `g`, and programs of Windows end with `.exe`."""
    name = program(command)
    usual = name.lower().removesuffix(".exe")
    usual = usual[1:] if usual[:1] == "g" and usual[1:] in _GNU else usual
    return command if usual == name else msgspec.structs.replace(command, words=(Word(usual), *command.words[1:]))


def started_by(command: SimpleCommand) -> Iterator[SimpleCommand]:
    """Yield what a command may start: the program of the usual name, and what a wrapper with unknown options, such
    as `uv run`, runs: several commands, if a word may be the value of an option."""
    if (plain := plainly_named(command)) is not command:
        yield plain
    wrapper = WRAPPERS.get(program(command))
    rest = (_behind_verb(wrapper, list(command.words[1:])) if wrapper and wrapper.is_loose else None) or ()
    words = [word.text for word in rest]
    is_found = False
    for at, word in enumerate(words):
        if (is_found and words[at - 1] != "--") or word.startswith("-") or re.fullmatch(_ASSIGNMENT, word):
            continue
        is_line = " " in word
        yield msgspec.structs.replace(
            command, words=(Word("sh"), Word("-c"), rest[at]) if is_line else tuple(rest[at:])
        )
        is_found = not is_line and (not at or words[at - 1][:1] != "-")


def all_started_by(commands: Iterable[SimpleCommand]) -> UnwrappedCommand:
    """Return what commands start through wrappers with unknown options, and what that runs and starts in turn. Of
    what cannot be unwrapped, `scripts` has the words.

    Raises:
        Unsure: too many words may begin a command.
    """
    found: list[SimpleCommand] = []
    scripts: list[str] = []
    todo = list(commands)
    count = 0
    while todo:
        for started in started_by(todo.pop()):
            count += 1
            if count > _MOST_STARTED:
                raise Unsure("too many words that may begin a command")
            try:
                inside = unwrap(started)
            except Unsure:
                inside = UnwrappedCommand((), (" ".join(started.argv),))
            found += inside.commands
            scripts += inside.scripts
            todo += inside.commands
    return UnwrappedCommand(tuple(found), tuple(dict.fromkeys(scripts)))


def _behind_verb(wrapper: Wrapper, words: list[Word]) -> list[Word] | None:
    """Return the words after the verb of a wrapper; None if it has another one, with which it runs nothing."""
    if not wrapper.verbs:
        return words
    return next((words[at:] for at, word in enumerate(words, 1) if re.fullmatch(wrapper.verbs, word.text)), None)


def _unwrapped(name: str, wrapper: Wrapper, words: list[Word], fed: bool) -> tuple[list[SimpleCommand], list[str]]:
    rest = _past_options(name, words, wrapper.flags, wrapper.valued)
    if name == "xargs":
        rest = _replaced(rest, _placeholders(words[: len(words) - len(rest)]))
    assigns = []
    while wrapper.assigns and rest and re.fullmatch(_ASSIGNMENT, rest[0].text, re.DOTALL):
        assigns.append(rest.pop(0).text.partition("=")[0].rstrip("+"))
    operands, rest = rest[: wrapper.operands], rest[wrapper.operands :]
    if any(word.glob for word in (*operands, *rest[:1])):
        raise Unsure(f"what `{name}` runs depends on file names")
    if wrapper.operands and rest and rest[0].text in ("-c", "--command"):
        return [], [_joined(rest[1:])]
    if fed and (not rest or wrapper.script):
        raise Unsure(_UNSEEN.format(name))
    if not rest:
        return ([SimpleCommand((), assigns=tuple(assigns))] if assigns else []), []
    if wrapper.script:
        return [], [_joined(rest)]
    if not rest[0].text or rest[0].text.startswith("-"):
        raise Unsure(f"an option of `{name}` that is not known")
    return [SimpleCommand(tuple(rest), assigns=tuple(assigns), has_unseen_words=fed or wrapper.feeds)], []


def _by_mise(words: list[Word], fed: bool) -> tuple[list[SimpleCommand], list[str]]:
    """Return what `mise exec` runs; any number of versions and options comes first."""
    for at, word in enumerate(words):
        if word.text == "--":
            return _unwrapped("mise", Wrapper(), words[at + 1 :], fed)
        if word.text in ("-c", "--command"):
            return [], [_joined(words[at + 1 : at + 2])]
        if word.text.startswith("--command="):
            return [], [_joined([Word(word.text.removeprefix("--command="), word.glob)])]
    raise Unsure(_UNSEEN.format("mise"))


def _placeholders(options: list[Word]) -> list[str]:
    """Return the texts that `xargs` replaces by its input."""
    found = []
    for at, option in enumerate(options):
        if option.text == "-I":
            found += [word.text for word in options[at + 1 : at + 2]]
        elif match := re.match(r"-I|-i|--replace=?", option.text):
            found.append(option.text[match.end() :] or "{}")
    return found


def _replaced(words: list[Word], placeholders: list[str]) -> list[Word]:
    """Mark the words that hold a placeholder as ones that may become any others."""
    return [Word(word.text, word.glob or any(text in word.text for text in placeholders)) for word in words]


def _past_options(name: str, words: list[Word], flags: str, valued: str) -> list[Word]:
    rest = list(words)
    while rest and rest[0].text.startswith(("-", "+")):
        option = rest.pop(0)
        if option.text == "--":
            break
        if valued and re.fullmatch(valued, option.text):
            if not rest or rest.pop(0).glob:
                raise Unsure(f"the value of `{name} {option.text}` is not certain")
        elif option.glob or not re.fullmatch(flags, option.text, re.DOTALL):
            raise Unsure(f"`{name} {option.text}`: the option is not known")
    return rest


def _shell_script(name: str, words: list[Word], fed: bool) -> list[str]:
    if [word.text for word in words] in (["--version"], ["--help"]):
        return []
    rest = _past_options(name, words, _SHELL_FLAGS, _SHELL_VALUED)
    if fed and not rest:
        raise Unsure(_UNSEEN.format(name))
    options = [word.text for word in words[: len(words) - len(rest)]]
    if not any(re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", option) for option in options):
        return []
    if not rest or rest[0].glob:
        raise Unsure(f"the script of `{name}` is not certain")
    return [rest[0].text]


def _find_commands(words: list[Word]) -> list[SimpleCommand]:
    cleared = leftovers(words)
    if cleared:
        return [SimpleCommand((Word("rm"), Word("-r"), *cleared))]
    found = []
    for at, word in enumerate(words):
        if word.text in _FIND_RUNS:
            end = next((i for i in range(at + 1, len(words)) if words[i].text in (";", "+")), len(words))
            if end == at + 1 or words[at + 1].glob or words[at + 1].text.startswith(("{", "-")):
                raise Unsure("what `find` runs is not certain")
            found.append(SimpleCommand(tuple(_replaced(words[at + 1 : end], ["{}"])), has_unseen_words=True))
    return found


def leftovers(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return patterns for what `find` deletes, if that is only what tools leave behind, such as `*.pyc`; otherwise
    nothing. `words` are those after `find`."""
    texts = [word.text for word in words]
    first = next((at for at, text in enumerate(texts) if text[:1] in ("-", "(", "!")), len(texts))
    names: list[str] = []
    is_named = deletes = spares_git = False
    rest = iter(texts[first:])
    for text in rest:
        text = " ".join((text, next(rest, ""), next(rest, ""))) if text in ("!", "-not") else text
        known = f"{_LEFTOVERS}|{_LIKE_BRANCHES}" if spares_git else _LEFTOVERS
        if text in ("-name", "-iname") and re.fullmatch(known, name := next(rest, "")):
            names.append(name.replace("[co]", "?"))
            is_named = True
        elif text.startswith(("! -path ", "-not -path ")):
            spares_git = spares_git or re.fullmatch(_NOT_OF_GIT, text) is not None
        elif text in ("-type", "-maxdepth", "-mindepth", "-mtime", "-mmin", "-size"):
            next(rest, "")
        elif text in ("-o", "-or") and is_named:
            is_named = spares_git = False
        elif is_named and (text == "-delete" or (text == "-exec" and _removes_found(rest))):
            deletes = True
        elif text not in ("-prune", "-print", "-depth", "-xdev", "-a", "(", ")"):
            return ()
    is_sure = not any(word.glob and (at < first or word.text not in names) for at, word in enumerate(words))
    if not (is_named and deletes and is_sure):  # names of files could be options
        return ()
    return tuple(Word(f"{start.rstrip('/')}/{name}", True) for start in texts[:first] or ["."] for name in names)


def _removes_found(rest: Iterator[str]) -> bool:
    """Read what follows `-exec`; return True if it only removes what was found."""
    words = list(takewhile(lambda word: word not in (";", "+"), rest))
    return (
        words[:1] == ["rm"]
        and words[-1:] == ["{}"]
        and all(re.fullmatch("-[rRfv]+", each) for each in words[1:-1])
    )


def _parallel(words: list[Word]) -> list[SimpleCommand]:
    """Return the command that `parallel` runs for each of its arguments; a single word may hold all of it."""
    ends = next((at for at, word in enumerate(words) if word.text.startswith(":::")), len(words))
    rest = _past_options("parallel", words[:ends], r"-[kqtvXmN0u]+|-[jnN]\d+%?|--[\w-]+(=.*)?", "-[jnNaIP]")
    if rest and " " in rest[0].text:
        rest = [*(Word(text) for text in rest[0].text.split()), *rest[1:]]
    if not rest:
        raise Unsure(_UNSEEN.format("parallel"))
    return [SimpleCommand(tuple(_replaced(rest, ["{"])), has_unseen_words=True)]


def _recorded(words: list[Word]) -> list[str]:
    """Return the line that `script` runs and records."""
    for at, word in enumerate(words):
        if re.fullmatch(r"-[a-zA-Z]*c|--command", word.text):
            return [_joined(words[at + 1 : at + 2])]
        if word.text.startswith("--command="):
            return [word.text.removeprefix("--command=")]
    return []


def _joined(words: list[Word]) -> str:
    if not words or any(word.glob for word in words):
        raise Unsure("the script of a nested shell is not certain")
    return " ".join(word.text for word in words)
