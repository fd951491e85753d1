"""Find commands that undo cannot revert, or that plant something to run later: they ask in every mode. All
functions expect normalized commands: without wrappers, `/usr/bin/` and git's global options."""

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from agent_cli.protocol.actions import Reach
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_inside

from ..rules.dangers import ADDS, DANGERS, DISCARDS, GIT_WHY, LATER, RUNNING_SETTINGS, STEERS, is_said
from ..rules.globs import globs_meet
from .databases import CLIENTS, DROPS, QUOTE, empties, with_files
from .parser import SimpleCommand, Unsure, Word, parse
from .wrappers import (
    SHELLS,
    all_started_by,
    git_settings,
    leftovers,
    normalize,
    option_values,
    plainly_named,
    program,
    unwrap,
)

HARMLESS = frozenset(f"/dev/{name}" for name in "null zero full random urandom stdin stdout stderr tty".split())

_SYSTEM = r"/|/(?:private/)?(?:etc|usr|bin|sbin|lib\w*|boot|dev|sys|proc|System|Library)(?:/.*)?"
_START_UP = (
    r"/\.(?:bashrc|bash_\w+|profile|zshrc|zshenv|zprofile|zlogin|kshrc|cshrc|inputrc|gitconfig|npmrc|pypirc|vimrc"
    r"|pythonrc\w*|ssh(?:/.*)?|gnupg(?:/.*)?|config/(?:fish|git|autostart|systemd|nvim)(?:/.*)?|local/bin/.*)"
)
_WRITES: dict[str, str] = {
    **dict.fromkeys("cp install ln rsync scp".split(), "last"),
    **dict.fromkeys(
        "mv tee touch truncate mkdir rmdir rm unlink sed perl ruby patch mkfifo dd shred".split(), "all"
    ),
    **dict.fromkeys("chmod chown chgrp".split(), "rest"),
}
_OUTPUTS = {
    "curl": r"-\w*o|--output",
    "wget": r"-\w*O|--output-document",
    "sort": r"-\w*o|--output",
    **dict.fromkeys("gcc g++ cc c++ clang clang++ rustc".split(), "-o"),
    "xxd": "-r",
    "gpg": "-o",
    "tar": "-C|--directory",
    "unzip": "-d",
}
"""Options with the file or folder that a program writes, in the same word or in the next."""
_VALUED = {"truncate": "-s", "mkdir": "-m", "touch": "-[dtr]"}
"""Options whose value, no file that is written, is the next word."""
_TARGET_DIRECTORY = tuple("--target-directory"[:end] for end in range(3, 19))
"""The option and its abbreviations."""
_REMOVES = frozenset("rm rmdir mv truncate unlink".split())
_TREES = frozenset("chmod chown chgrp".split())
_SPEAKERS = QUOTE | frozenset("npm pnpm yarn apt brew pip docker podman kubectl".split())
"""Programs for which `rm` is an ordinary word."""
_FETCHES = frozenset("curl wget base64 base32 xxd openssl nc ncat socat fetch aria2c gunzip zcat ssh".split())
_OURSELVES = r"(?:-\w*m)?agent_cli(?:\.\w+)?|\S*/agent(?:_cli)?"
"""This program as an argument of an interpreter: a module, or the path of its script."""


class Cwd(msgspec.Struct, frozen=True):
    """Context of a command: its working directory, and the folders it may change."""

    resolve: Callable[[str], str]
    roots: tuple[str, ...]
    home: str
    scratch: tuple[str, ...] = ()
    """Private folders that vanish with the command, such as the `/tmp` of a sandbox."""
    read: Callable[[str], str] = lambda path: ""
    """Returns the text of a small file; empty if there is none."""
    temporary: tuple[str, ...] = ()
    """Temporary files and folders that commands of the session have made."""


def destroys(command: SimpleCommand, place: Cwd) -> str:
    """Return why a normalized simple command needs approval in every mode; empty if no reason is known."""
    for name in command.assigns:
        if re.fullmatch(STEERS, name):
            return f"setting {name} changes what programs run"
    if not command.words:
        return ""
    name, *args = _own_program(normalize(command))
    line = f" {' '.join(args)} "
    danger = DANGERS.get(name.split(".")[0] if name.startswith("mkfs") else name)
    clears = name == "find" and leftovers(command.words[1:])
    if danger is not None and not clears and danger.is_in(args):
        return f"`{name}` {danger.why}"
    if why := empties(name, command, place.read):
        return why
    is_removal = name in _REMOVES or (name in _TREES and re.search(r" -\w*R| --r", line))
    return (
        (_discards(command, args) if name == "git" else "")
        or destroys_by_code(command, bool(place.scratch))
        or _hidden(name, command, place)
        or (_removes(name, command, place) if is_removal else "")
        or _writes(command, place)
    )


def loses(command: SimpleCommand, read: Callable[[str], str]) -> bool:
    """Return True if the words of a command say that something is lost for good, whatever its variables stand
    for."""
    try:
        name, *args = normalize(command) or ("",)
    except Unsure:
        return False
    line = f" {' '.join(args)} "
    danger = DANGERS.get(name)
    if danger and danger.why != LATER and danger.is_in(args) and not re.match(ADDS, line):
        return True
    if name in _REMOVES and command.has_unseen_words:
        return True
    return bool(empties(name, command, read) or (name == "git" and _discards(command, args)))


def _own_program(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command that runs this program through an interpreter in the form `agent …`."""
    at = next((at for at, word in enumerate(words) if re.fullmatch(_OURSELVES, word)), 0)
    return ("agent", *words[at + 1 :]) if at and INTERPRETERS.fullmatch(words[0]) else words


def _hidden(name: str, command: SimpleCommand, place: Cwd) -> str:
    """Return why the words after an unknown program need approval in case it runs them: `tool rm -rf ~`."""
    if name in _SPEAKERS or name in _REMOVES:
        return ""
    for at, word in enumerate(command.words[1:], 1):
        if word.text.rsplit("/", 1)[-1] in ("rm", "shred"):
            fed = name in ("fd", "fdfind", "entr") or command.has_unseen_words
            return _removes("rm", SimpleCommand(command.words[at:], has_unseen_words=fed), place)
    return ""


def runs_a_pipe(commands: list[SimpleCommand], read: Callable[[str], str]) -> str:
    """Return why a pipeline needs approval: a shell, an interpreter or a database runs its input. `read` returns
    the text of a small file."""
    if runner := _running(commands, _fetched_by, "chmod", "sudo"):
        return f"`{' '.join(runner.argv)}` would run what was just fetched"
    fetched = piped = told = False
    for command in map(plainly_named, commands):
        name = program(command)
        plain = [word for word in command.argv[1:] if not word.startswith("-") or word == "-"]
        if _only_asks_for_its_version(name, command.argv[1:]):
            plain = ["nothing"]
        if piped and name in SHELLS and (not plain or "-s" in command.argv) and not command.has_unseen_words:
            return f"`{name}` would run whatever comes through the pipe"
        if told and name not in QUOTE and (client := next(filter(CLIENTS.__contains__, command.argv), "")):
            return f"`{client}` drops data"
        if fetched and INTERPRETERS.fullmatch(name) and plain in ([], ["-"]):
            return f"`{name}` would run what was fetched or decoded"
        is_read = command.operator in ("|", "|&")
        in_shell = re.findall(r"[\w-]+", " ".join(command.argv)) if is_read and name in SHELLS else ()
        fetched = fetched or name in _FETCHES or not _FETCHES.isdisjoint(in_shell)
        piped = piped or is_read
        said = " ".join((*command.argv, *command.reads))
        told = is_read and (told or bool(re.search(DROPS, with_files(said, read))))
    return ""


def _only_asks_for_its_version(name: str, arguments: Sequence[str]) -> bool:
    known = r"--version|--help|-h|-V+" + "|-v" * (name in ("node", "ruby", "perl", "php"))
    return len(arguments) == 1 and re.fullmatch(known, arguments[0]) is not None


def destroys_by_redirection(command: SimpleCommand, place: Cwd) -> str:
    """Return why a redirection of a command needs approval; empty if no reason is known."""
    targets = [target for target in command.writes if target not in HARMLESS]
    return next(filter(None, (protected_target(place.resolve(target), place) for target in targets)), "")


def reach_of(command: SimpleCommand, needed: Reach) -> Reach:
    """Return the reach that a destructive command needs. Git's own data and the shell can be changed in a sandbox,
    and a command that only loses something on the network needs no more than that."""
    words = normalize(command)
    if words and (danger := DANGERS.get(words[0])) and danger.why == LATER:
        return needed
    if words[:1] == ("git",) and words[1:2] != ("config",) and not git_settings(command) and not command.assigns:
        return needed
    return needed if needed == "network" and words[:1] != ("rsync",) else "outside"


def protected_target(path: str, place: Cwd) -> str:
    """Return why a file outside the workspace must not be written without approval."""
    if path in HARMLESS or path.startswith("/dev/fd/") or is_inside(path, (*place.roots, *place.scratch)):
        return ""
    if re.fullmatch(_SYSTEM, path):
        return f"{path} belongs to the system"
    if path.startswith(place.home) and re.fullmatch(_START_UP, path[len(place.home.rstrip("/")) :]):
        return f"{path} is read whenever a shell or a tool starts"
    return ""


def _discards(command: SimpleCommand, args: list[str]) -> str:
    if any(re.match(rf"(?i){RUNNING_SETTINGS}", setting) for setting in git_settings(command)):
        return "`git -c` sets a program to be run, or what is pushed"
    discards = DISCARDS.get(args[0]) if args else None
    if discards is not None and is_said(discards, args[1:]):
        return f"`git {args[0]}` {GIT_WHY.get(args[0], 'may discard uncommitted work or rewrite history')}"
    return ""


def operands(command: SimpleCommand) -> list[Word]:
    """Return the words of a command that are neither options nor their values; all of them after `--`."""
    ended = False
    found = []
    valued = _VALUED.get(program(command), "(?!)")
    words = iter(command.words[1:])
    for word in words:
        if not ended and word.text == "--":
            ended = True
        elif not ended and re.fullmatch(valued, word.text):
            next(words, None)
        elif ended or not word.text.startswith("-"):
            found.append(word)
    return found


def _removes(name: str, command: SimpleCommand, place: Cwd) -> str:
    if command.has_unseen_words:
        return f"`{name}` gets its files from another program"
    targets = operands(command)
    if name in _TREES or (name == "mv" and len(targets) > 1):
        targets = targets[1:] if name in _TREES else targets[:-1]
    for target in targets:
        real = place.resolve(target.text)
        if real in (*place.roots, place.home, "/") or (target.glob and _covers_a_root(real, place)):
            return f"`{name} {target.text}` concerns a whole workspace, home or root"
        if ".git" in real.split("/") or (target.glob and globs_meet(real, "**/.git")):
            return f"`{name} {target.text}` concerns git's own data"
        if not is_inside(real, (*place.roots, *place.scratch, *place.temporary)):
            return f"`{name} {target.text}` is outside the workspace"
    return ""


def _covers_a_root(path: str, place: Cwd) -> bool:
    """Return True if a pattern matches everything in a workspace, such as `*`, `.*` or `*/*`."""
    return any(
        path.startswith(root.rstrip("/") + "/") and re.fullmatch(r"[*?.!/]+", path[len(root.rstrip("/")) + 1 :])
        for root in (*place.roots, place.home)
    )


def _writes(command: SimpleCommand, place: Cwd) -> str:
    for target in written_targets(command):
        if why := protected_target(place.resolve(target), place):
            return why
    return ""


def written_targets(command: SimpleCommand) -> list[str]:
    """Return the files that a program of the tables changes, as written, without redirections and devices."""
    return [target for target in _written_words(command) if target and target not in HARMLESS]


def _written_words(command: SimpleCommand) -> list[str]:
    name = program(command)
    which = _WRITES.get(name)
    if which is None:
        argv = command.argv
        names = _OUTPUTS.get(name, "(?!)")
        words = [found[1] for word in argv if (found := re.fullmatch(rf"(?:{names})=?(.+)", word))]
        words += [value for flag, value in zip(argv, argv[1:], strict=False) if re.fullmatch(names, flag)]
        return [word for word in words if word != "-"]  # standard output
    targets = [word.text for word in operands(command)]
    if which == "last":
        targets = targets[-1:]
    elif which == "rest":
        targets = targets[1:]
    if which == "last" or name == "mv":
        targets += option_values(command.argv, "-t", *_TARGET_DIRECTORY)
    if name in ("sed", "perl", "ruby"):
        is_in_place = any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in command.argv)
        targets = (targets if "-e" in command.argv or name != "sed" else targets[1:]) if is_in_place else []
    if name == "dd":
        targets = [word.removeprefix("of=") for word in targets if word.startswith("of=")]
    return targets


_VERBS = ("reset", "checkout", "restore", "switch", "stash", "clean", "read-tree", "rm")


_UNREAD = lazy_regex(rf"\bgit\b.*\b(?:{'|'.join(_VERBS)})\b", re.DOTALL)


def discards_git_state(line: str) -> bool:
    """Return True if a line may discard staged or stashed work. A line that cannot be parsed, or that has code, is
    judged by its words."""
    try:
        inside = [unwrap(part) for part in parse(line)]
        inside.append(all_started_by(command for each in inside for command in each.commands))
        commands = [command for each in inside for command in each.commands]
        has_code = any(each.scripts for each in inside) or any(_is_given_code(command) for command in commands)
        return any(_forgets(normalize(each)) for each in commands) or (has_code and bool(_UNREAD.search(line)))
    except Unsure:
        return _UNREAD.search(line) is not None


def _is_given_code(command: SimpleCommand) -> bool:
    name = program(command)
    return (name in SHELLS or bool(INTERPRETERS.fullmatch(name))) and any(" " in word for word in command.argv)


def _forgets(words: tuple[str, ...]) -> bool:
    if words[:1] != ("git",) or len(words) < 2 or words[1] not in _VERBS:
        return False
    pattern = DISCARDS.get(words[1])
    return pattern is None or re.search(pattern, f" {' '.join(words[2:])} ") is not None


INTERPRETERS = lazy_regex(
    r"(?:python|pypy|node|nodejs|perl|ruby|php|lua|tclsh|ipython)[\d.]*|deno|bun|Rscript|julia|osascript|groovy"
    r"|ghci|irb"
)
_RUN_THEIR_OWN = frozenset(
    "awk gawk mawk nawk sed vim vi nvim view ex ed emacs tar make gmake man less more fd fdfind rg entr expect gdb"
    " sqlite3 m4 zip rsync nmap socat ssh git".split()
)
_SEARCHING = frozenset("man less more fd fdfind rg".split())
_LIST = lazy_regex(r"""(["'])\s*,\s*\1""")
_ENDS = lazy_regex(r"""["'`\n;|&(){}!\[\]]+|\\n""")
_DELETING_TREES = lazy_regex(
    r"rmtree|rm_rf|rm_r\b|remove_entry|removedirs|remove_tree|deltree|rimraf|removeSync|emptyDir|rm(dir)?Sync"
    r"|fs\.rm\b|\brm\s+-\w*[rRf]|\bmkfs|\bshred\s|>\s*/dev/sd|\bdd\s+\S*of=|\bsudo\s|:!\s*rm\b|exec=\s*rm\b"
    r"|exec\w*=['\"]?rm\b|delete_all|DROP\s+(TABLE|DATABASE)|FileUtils\.rm|Remove-Item"
)
_DELETING_FILES = lazy_regex(r"\bunlink|os\.remove|\.rmdir\(|rename\(|truncate\(|\.rm\(|File\.delete|rmdir\s")


def destroys_by_code(command: SimpleCommand, is_confined: bool) -> str:
    """Return why a command with an inline program needs approval in every mode; empty if nothing in it looks
    destructive. Deleting single files counts only if no sandbox `is_confined` to the workspace, which undo
    restores."""
    name = program(command)
    is_interpreter = INTERPRETERS.fullmatch(name) is not None
    if not is_interpreter and name not in _RUN_THEIR_OWN:
        return ""
    texts = [word for word in command.argv[1:] if re.search(r"[\s('\";{!=]", word)]
    if name == "git":
        texts = [word for word in texts if word.startswith("-") and not word.startswith("-m")]
    text = "\n".join(texts)
    if name not in _SEARCHING and any(map(_discards_by_text, pieces_of(text))):
        return f"`{name}` is given a program in which git discards or overwrites work"
    if _DELETING_TREES.search(text) or (is_interpreter and not is_confined and _DELETING_FILES.search(text)):
        return f"`{name}` is given a program that deletes"
    return ""


def pieces_of(code: str) -> list[str]:
    """Return the texts in a program that may be commands: `git push` in `system("git push")`."""
    return [piece.strip(" \t@-+") for piece in _ENDS.split(_LIST.sub(" ", code))]


def _discards_by_text(piece: str) -> bool:
    words = piece.split()
    try:
        command = SimpleCommand(tuple(map(Word, words)))
        return words[:1] == ["git"] and bool(_discards(command, list(normalize(command)[1:])))
    except Unsure:
        return False


def runs_what_was_written(commands: list[SimpleCommand]) -> bool:
    """Return True if a line runs a file that it writes before, so that nothing tells what it runs."""
    return _running(commands, _written_by) is not None


def _running(
    commands: list[SimpleCommand], files_of: Callable[[SimpleCommand], Iterable[str]], *others: str
) -> SimpleCommand | None:
    """Return the first command that runs one of the files that `files_of` names for those before it, or that is
    one of the `others` and names it."""
    files: set[str] = set()
    for command in commands:
        name = program(command)
        is_run = name in SHELLS or INTERPRETERS.fullmatch(name) or name in ("source", ".", *others)
        named = _run_by(command) if is_run else command.argv[:1]
        if not files.isdisjoint(map(_bare, named)):
            return command
        files |= set(map(_bare, files_of(command)))
    return None


def _written_by(command: SimpleCommand) -> tuple[str, ...]:
    return (*command.writes, *(command.argv[1:] if program(command) == "tee" else ()))


def _run_by(command: SimpleCommand) -> tuple[str, ...]:
    """Return the files that a command may run; what follows the name of a script, and its input, is data."""
    argv = command.argv
    at = next((at for at, word in enumerate(argv) if at and not word.startswith("-")), 0)
    return (
        argv[: at + 1]
        if at and re.fullmatch(r"[\w./~-]+\.(?:py|[cm]?[jt]s|rb|pl|php|sh)", argv[at])
        else (*argv, *command.reads)
    )


def _fetched_by(command: SimpleCommand) -> list[str]:
    """Return the files to which a fetching program writes."""
    name, argv = program(command), command.argv
    if name not in ("curl", "wget", "aria2c"):
        return []
    named = [value for flag, value in zip(argv, argv[1:], strict=False) if re.fullmatch(r"-\w*[oO]", flag)]
    joined = option_values(argv, "-o", "--output", "--output-document")
    urls = [word.rstrip("/").rsplit("/", 1)[-1] for word in argv[1:] if not word.startswith("-")]
    return [*named, *joined, *command.writes, *(urls if "-O" in argv or name != "curl" else [])]


def _bare(word: str) -> str:
    return word.removeprefix("./")
