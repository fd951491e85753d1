"""Commands that undo cannot take back, or that plant something to be run later, as tables. They ask in every
mode. All of it looks at normalised commands: wrappers taken off, `/usr/bin/` and git's global options too."""

import re
from collections.abc import Callable

import msgspec

from .globs import globs_meet
from .shell_syntax import SimpleCommand, Word
from .unwrap import SHELLS, git_settings, normalised, program

HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})

_SYSTEM = r"/(?:private/)?(?:etc|usr|bin|sbin|lib\w*|boot|dev|sys|proc|System|Library)(?:/.*)?"
_START_UP = (
    r"/\.(?:bashrc|bash_\w+|profile|zshrc|zshenv|zprofile|zlogin|kshrc|cshrc|inputrc|gitconfig|npmrc|pypirc|vimrc"
    r"|pythonrc\w*|ssh(?:/.*)?|gnupg(?:/.*)?|config/(?:fish|git|autostart|systemd|nvim)(?:/.*)?|local/bin/.*)"
)
_SETTINGS = (
    r"(?:core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|askpass|gitproxy|attributesfile|worktree)|pager\.\S*"
    r"|sequence\.editor|gpg\.\S*|credential\.\S*|url\.\S*|protocol\.\S*|safe\.\S*|include(?:if)?\.\S*|init\.templatedir"
    r"|(?:alias|diff|filter|merge|difftool|mergetool|browser|man|web|tar)\.\S+|submodule\.\S*update"
    r"|remote\.\S*\.(?:uploadpack|receivepack|vcs|proxy)|\S*\.(?:textconv|command|driver|clean|smudge|process|cmd|helper"
    r"|program))"
)
_RUNS_LATER = (
    r"LD_\w+|DYLD_\w+|PATH|GIT_\w+|PYTHON(?:PATH|HOME|STARTUP|BREAKPOINT)|PERL5\w*|RUBY(?:OPT|LIB)|NODE_(?:OPTIONS|PATH)"
    r"|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|\w*EDITOR|VISUAL|\w*PAGER|JAVA_TOOL_OPTIONS"
    r"|CLASSPATH|SHELL|HOME|SSH_\w+"
)


_HEEDED = (
    r"\w*(?:PATH|CONFIG\w*|RC|OPTIONS?|OPTS|FLAGS|HOME|HOOKS?|COMMANDS?|EXEC\w*|PRELOAD|LOADER|WRAPPER|TOOLCHAIN|STARTUP"
    r"|INIT\w*|EDITOR|PAGER|VIEWER|BROWSER|SHELL|DIRS?|PLUGINS?)"
    r"|(?:XDG|PYTHON|PIP|RIPGREP|JDK|JAVA|_JAVA|RUSTUP|CARGO|GO|NPM|YARN|COREPACK|LESS|MAN|PERL|RUBY|GEM|BUNDLE|DOCKER"
    r"|DOTNET|TERMINFO|OPENSSL|CURL|WGET|ASDF|MISE|PYENV|NVM|GREP|HG|SVN|LOC|NLS|GCONV|TMP)_?\w*|NODE_(?!ENV$)\w+"
)
"""Names by which programs are told to load, run or read something, and the families of some of them."""


def changes_what_runs(variable: str) -> bool:
    """Whether a variable of this name can make harmless programs run others; the PATH is seen to apart."""
    return variable != "PATH" and re.fullmatch(_RUNS_LATER, variable) is not None


def may_change_what_runs(variable: str) -> bool:
    """Whether programs that only read might run others, or read other settings, for a variable of this name."""
    return variable != "PATH" and re.fullmatch(f"(?i:{_HEEDED})|{_RUNS_LATER}", variable) is not None


class Danger(msgspec.Struct, frozen=True):
    """A command that asks: `words` is searched for in its arguments, joined by spaces, one at either end."""

    words: str
    why: str


def _all(names: str, words: str, why: str) -> dict[str, Danger]:
    return dict.fromkeys(names.split(), Danger(words, why))


DANGERS: dict[str, Danger] = {
    **_all("sudo doas su pkexec runuser run0", "", "acts as another user"),
    **_all(
        "fdisk parted wipefs shred shutdown reboot halt poweroff swapoff losetup cryptsetup dd mkswap mkfs sgdisk",
        "", "works on disks or the machine itself",
    ),
    **_all("kill", r" \S.* -1 | -- -1 ", "ends every process"),
    "crontab": Danger(r"^(?! -l $)", "changes what runs by itself"),
    **_all("at batch launchctl systemd-run", "", "changes what runs by itself"),
    **_all(
        "systemctl service", r"^(?! (\S+ )*(status|show|cat|list-\S+|is-\S+)( |$))", "changes services"
    ),
    "history": Danger(" -", "changes the history of the shell"),
    **_all(
        "docker podman nerdctl",
        r" --privileged| (-v|--volume)[ =]?/| --mount \S*(src|source)=/| --(pid|net|network|ipc|userns)[ =]host"
        r"|docker\.sock| --cap-add| --device| (prune|push) | volume rm ",
        "reaches the whole machine, or removes or publishes what undo does not keep",
    ),
    **_all(
        "npm pnpm yarn bun cargo twine gem poetry uv flit hatch pdm lerna vsce helm",
        r"^( \S+)? (publish|unpublish|deprecate|upload|yank|push|uninstall-release)( |$)", "publishes",
    ),
    "gh": Danger(r" (delete|create|publish|merge|upload|archive|transfer) ", "changes what is on GitHub"),
    **_all("terraform tofu pulumi cdk terragrunt", r" (destroy|apply|up|deploy|import) ", "changes machines"),
    "kubectl": Danger(r" (delete|drain|replace|apply|scale|patch|exec) ", "changes a cluster"),
    **_all("aws gcloud az gsutil", r" (rm|rb|delete\S*|terminate\S*|remove\S*|purge\S*) ", "deletes in the cloud"),
    **_all("psql mysql mariadb sqlite3 mongosh", r"(?i)\b(drop|truncate|delete\s+from)\b", "drops data"),
    **_all("dropdb dropuser", "", "drops data"),
    "redis-cli": Danger(r"(?i) flush", "drops data"),
    **_all("chown chgrp", r" -\w*R| --r", "changes the owner of a whole tree"),
    "chmod": Danger(r" [ugoa]*[+=][rwxXt]*s| 0*[2467]\d{3} ", "lets a program run as another user"),
    "rsync": Danger(r" --(del|remove)", "deletes files"),
    "find": Danger(r" -(delete|fprint\w*|fls) ", "deletes or overwrites what it finds"),
    **_all("export declare typeset readonly", rf" (?:{_RUNS_LATER})=", "changes what later commands run"),
    **_all("alias trap enable hash", r" \S", "changes what later commands run"),
}  # fmt: skip
DISCARDS: dict[str, str] = {
    "reset": r" --(h|m|k)",
    "clean": r" (-\w*f|--f)",
    "checkout": r" (-\w*f\w*|--f\S*|\.|--|:\S*|--pathspec\S*) ",
    "restore": r"^(?!.* (--st\S*|-S) )| (--w|-\w*W)",
    "switch": r" (-\w*[fC]|--f|--d\w*-)",
    "stash": r"^ (drop|clear) ",
    "push": r" (-\w*[fd]|--forc|--mir|--del|--pru|\+\S|:\S)",
    "branch": r" -\w*D|^(?=.* (-\w*d|--de))(?=.* (-\w*f|--f))",
    "filter-repo": "",
    "update-ref": "",
    "gc": r" --prune",
    "prune": "",
    "worktree": r"^ remove .*(-f|--f)",
    "submodule": r"^ deinit .*(-f|--f)",
    "reflog": r"^ (expire|delete) ",
    "config": rf"(?i)^(?! --(get\S*|list) | -l ).* {_SETTINGS}",
}
"""Verbs of git and the arguments with which they throw work away or plant a program."""

_WRITES: dict[str, str] = {
    **dict.fromkeys("cp mv install ln rsync scp".split(), "last"),
    **dict.fromkeys("tee chmod chown chgrp touch truncate mkdir sed patch".split(), "all"),
}
_REMOVES = frozenset("rm rmdir mv truncate unlink".split())
_TREES = frozenset("chmod chown chgrp".split())
_FETCHES = frozenset("curl wget base64 base32 xxd openssl nc ncat socat fetch aria2c gunzip zcat ssh".split())
_INTERPRETERS = r"python[\d.]*|node|perl|ruby|php|lua|deno|bun|osascript|tclsh"
_CATASTROPHE = (
    r"\brm\b[\s,]+-|\s-\w*(?:r\w*f|f\w*r)\w*[\s,]|\b(?:sudo|doas|mkfs|shred|chown|crontab|systemctl|rmtree|terraform)\b"
    r"|\bdd\s+\S*of=|>\s*[\"']?(?:/(?:etc|usr|bin|boot|dev/(?!null|stdout|stderr|tty))|~/\.|\$HOME/\.)"
    r"|(?:\||<\(|\beval\b|\s-\w*c\s).*(?:\bcurl\b|\bwget\b)|\|\s*(?:\S*/)?(?:\w+\s+)*(?:ba|z|da|k|fi)?sh\b"
    r"|\b(?:curl|wget|base64)\b.*\|\s*\S*(?:python|perl|ruby|node|php)"
    r"|\bpush\b.*(?:--f|\s-f\b|--del|\s:|\s\+)|\breset\b.*--h|\bclean\s+-\S*f|-delete\b|:\(\)\s*\{|\bpublish\b"
    r"|\b(?:LD_\w+|DYLD_\w+|PATH|GIT_\w+|PYTHONPATH|BASH_ENV|NODE_OPTIONS)=|\bkill\b.*\s-1\b|\bchmod\b.*(?:-R|\+s)"
)


class Place(msgspec.Struct, frozen=True):
    """Where a command runs."""

    resolve: Callable[[str], str]
    roots: tuple[str, ...]
    home: str


def catastrophic(line: str) -> bool:
    """For lines beyond the reader: whether they look like destruction."""
    return bool(re.search(_CATASTROPHE, line + " "))


def destroys(command: SimpleCommand, place: Place) -> str:
    """Why one normalised simple command needs a person in every mode; empty when nothing is known."""
    for name in command.assigns:
        if re.fullmatch(_RUNS_LATER, name):
            return f"setting {name} changes what programs run"
    if not command.words:
        return ""
    name, *args = normalised(command)
    line = f" {' '.join(args)} "
    danger = DANGERS.get(name.split(".")[0] if name.startswith("mkfs") else name)
    if danger is not None and re.search(danger.words, line):
        return f"`{name}` {danger.why}"
    if name == "git":
        return _discards(command, args)
    if name in _TREES and re.search(r" -\w*R| --r", line):
        return _removes(name, command, place)
    if name in _REMOVES and (why := _removes(name, command, place)):
        return why
    return _writes(name, command, place)


def runs_a_pipe(commands: list[SimpleCommand]) -> str:
    """Why a pipeline must be asked about: a shell or interpreter runs what comes through it."""
    fetched = False
    piped = False
    for command in commands:
        name = program(command)
        plain = [word for word in command.argv[1:] if not word.startswith("-") or word == "-"]
        if piped and name in SHELLS and (not plain or "-s" in command.argv) and not command.fed:
            return f"`{name}` would run whatever comes through the pipe"
        if fetched and re.fullmatch(_INTERPRETERS, name) and plain in ([], ["-"]):
            return f"`{name}` would run what was fetched or decoded"
        fetched = fetched or name in _FETCHES
        piped = piped or command.then in ("|", "|&")
    return ""


def protected_target(path: str, place: Place) -> str:
    """Why a file outside the workspace is not to be written to without a person."""
    if path in HARMLESS or path.startswith("/dev/fd/") or _inside(path, place.roots):
        return ""
    if re.fullmatch(_SYSTEM, path):
        return f"{path} belongs to the system"
    if path.startswith(place.home) and re.fullmatch(_START_UP, path[len(place.home.rstrip("/")) :]):
        return f"{path} is read whenever a shell or a tool starts"
    return ""


def _inside(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _discards(command: SimpleCommand, args: list[str]) -> str:
    if any(re.match(rf"(?i){_SETTINGS}", setting) for setting in git_settings(command)):
        return "`git -c` sets a program to be run"
    discards = DISCARDS.get(args[0]) if args else None
    if discards is not None and re.search(discards, f" {' '.join(args[1:])} "):
        return f"`git {args[0]}` discards work, rewrites history or plants a program"
    return ""


def _operands(command: SimpleCommand) -> list[Word]:
    ended = False
    found = []
    for word in command.words[1:]:
        if not ended and word.text == "--":
            ended = True
        elif ended or not word.text.startswith("-"):
            found.append(word)
    return found


def _removes(name: str, command: SimpleCommand, place: Place) -> str:
    if command.fed:
        return f"`{name}` gets its files from another program"
    targets = _operands(command)
    if name in _TREES or (name == "mv" and len(targets) > 1):
        targets = targets[1:] if name in _TREES else targets[:-1]
    for target in targets:
        real = place.resolve(target.text)
        if real in (*place.roots, place.home, "/") or (target.glob and _covers_a_root(real, place)):
            return f"`{name} {target.text}` concerns a whole workspace, home or root"
        if ".git" in real.split("/") or (target.glob and globs_meet(real, "**/.git")):
            return f"`{name} {target.text}` concerns git's own data"
        if not _inside(real, place.roots):
            return f"`{name} {target.text}` lies outside the workspace"
    return ""


def _covers_a_root(path: str, place: Place) -> bool:
    """Whether a pattern stands for all there is in a workspace, such as `*`, `.*` or `*/*`."""
    return any(
        path.startswith(root.rstrip("/") + "/") and re.fullmatch(r"[*?.!/]+", path[len(root.rstrip("/")) + 1 :])
        for root in (*place.roots, place.home)
    )


def _writes(name: str, command: SimpleCommand, place: Place) -> str:
    which = _WRITES.get(name)
    if which is None:
        return ""
    targets = [word.text for word in _operands(command)]
    if which == "last":
        targets = targets[-1:] + [
            re.sub(r"^(-t|--target-directory=?)", "", word)
            for word in command.argv
            if word.startswith(("-t", "--ta"))
        ]
        if "-t" in command.argv[:-1]:
            targets.append(command.argv[command.argv.index("-t") + 1])
    for target in targets:
        if target and (why := protected_target(place.resolve(target), place)):
            return why
    return ""
