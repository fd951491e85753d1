"""What is known of programs, as data: which ones only read and with which flags, which ones destroy what
undo cannot bring back, and which rule to offer when a person says "always"."""

import re
from collections.abc import Callable

import msgspec

from .shell_syntax import SimpleCommand


class Reader(msgspec.Struct, frozen=True):
    """A program that only reads. `refused`: options (a regular expression at the start of a word) that make
    it write or run something. `paths`: whether its plain words are files it reads."""

    refused: str = ""
    paths: bool = True
    recursive: bool = False
    """It may open files nobody named."""


_TEXT = Reader(paths=False)
READERS: dict[str, Reader] = {
    **dict.fromkeys((
    "echo printf pwd true false which whoami id uname date test seq sleep basename "
    "dirname tr"
).split(), _TEXT),
    **{
        name: Reader()
        for name in (
    "cat head wc stat file cut nl rev paste comm fold column strings md5sum sha1sum "
    "sha256sum cmp tac od hexdump readlink realpath du df ls"
).split()
    },
    "tail": Reader(refused=r"-[a-zA-Z]*[fF]|--follow|--retry"),
    "date": Reader(refused=r"-s|--set", paths=False),
    "printf": Reader(refused=r"-v", paths=False),
    "file": Reader(refused=r"-[a-zA-Z]*[Cm]|--compile|--magic-file"),
    "sort": Reader(refused=r"-[a-zA-Z]*[oT]|--output|--temporary|--compress|--files0"),
    "wc": Reader(refused=r"--files0"),
    "du": Reader(refused=r"--files0"),
    "tree": Reader(refused=r"-o|--output|-[a-zA-Z]*R"),
    "diff": Reader(refused=r"--output|--from-file|--to-file", recursive=True),
    "grep": Reader(refused=r"-[a-zA-Z]*f|--file", recursive=True),
    "egrep": Reader(refused=r"-[a-zA-Z]*f|--file", recursive=True),
    "fgrep": Reader(refused=r"-[a-zA-Z]*f|--file", recursive=True),
    "rg": Reader(
        refused=r"--pre|--hostname-bin|-[a-zA-Z]*[zf]|--search-zip|--file|--ignore-file", recursive=True
    ),
    "find": Reader(refused=r"-exec|-ok|-delete|-fls|-fprint|-files0"),
    "jq": Reader(refused=r"-[a-zA-Z]*[fL]|--from-file|--rawfile|--slurpfile|--library|--args|--jsonargs"),
}  # fmt: skip

_GIT_READERS = frozenset(
    (
        "status diff log show rev-parse ls-files blame describe shortlog rev-list cat-file ls-tree merge-base"
    ).split()
)
_GIT_REFUSED = re.compile(
    r"--output|--ext-diff|--textconv|--exec|-O|--open-files|--upload-pack|--filters|--no-index|--contents|--git-dir|--work-tree|-c$|-C"
)
_GIT_LISTS = {
    "branch": re.compile(r"--show-current|-a|-r|-v|-vv|--list|--all"),
    "tag": re.compile(r"-l|--list|-n"),
    "remote": re.compile(r"-v"),
    "stash": re.compile(r"list"),
}
_VERSION_ONLY = frozenset("python python3 node npm cargo rustc go java gcc make cmake ruby pip pip3 uv".split())


def is_reader(command: SimpleCommand) -> bool:
    """Whether a simple command is known to read only, given its flags. Paths are judged elsewhere."""
    if command.assigns or command.background or not command.words:
        return False
    name, *args = command.argv
    if name == "git":
        return _git_reads(args)
    if name in _VERSION_ONLY:
        return args in (["--version"], ["-V"], ["version"])
    if name == "cd":
        return len(args) == 1 and not args[0].startswith("-")
    if name == "sed":
        return len(args) >= 2 and args[0] == "-n" and bool(re.fullmatch(r"(\d+|\$)(,(\d+|\$))?p", args[1]))
    if name == "uniq":
        return sum(not arg.startswith("-") for arg in args) < 2
    reader = READERS.get(name)
    if reader is None:
        return False
    return not (reader.refused and any(re.match(reader.refused, arg) for arg in args))


def _git_reads(args: list[str]) -> bool:
    if args == ["--version"]:
        return True
    if not args or any(_GIT_REFUSED.match(arg) for arg in args):
        return False
    name, rest = args[0], args[1:]
    if name in _GIT_READERS:
        return True
    allowed = _GIT_LISTS.get(name)
    if name == "stash" and not rest:
        return False
    return allowed is not None and all(allowed.fullmatch(arg) for arg in rest)


def reads_recursively(command: SimpleCommand) -> bool:
    """Whether a known reader may open files that its words do not name."""
    reader = READERS.get(command.argv[0]) if command.words else None
    return command.argv[:1] == ("git",) or (reader is not None and reader.recursive)


def path_words(command: SimpleCommand) -> tuple[str, ...]:
    """Words that may name files: plain ones, and the value of `--option=value`. A search pattern is none."""
    name = command.argv[0] if command.words else ""
    if name in READERS and not READERS[name].paths:
        return ()
    args = command.argv[1:]
    words = []
    for word in args:
        value = word.partition("=")[2] if word.startswith("-") else word
        if value and not value.startswith("-"):
            words.append(value)
    if name in _TAKES_PATTERN and not any(re.match(r"-[a-zA-Z]*e|--regexp", arg) for arg in args):
        words = [word for word in words if word != next((a for a in args if not a.startswith("-")), None)]
    return tuple(words)


def hidden_paths(command: SimpleCommand) -> tuple[str, ...]:
    """Parts of words that a program may take for a file: behind `=`, `@` or `:`, as in `if=x`, `@x`, `HEAD:x`."""
    if command.words and command.argv[0] in READERS and not READERS[command.argv[0]].paths:
        return ()
    return tuple(
        part
        for word in command.argv[1:]
        if re.search("[=@:]", word)
        for part in re.split("[=@:]", word)[1:]
        if part
    )


_TAKES_PATTERN = frozenset("grep egrep fgrep rg jq".split())


_SHELLS = frozenset(["sh", "bash", "zsh", "dash", "ksh", "fish", "ash"])
_DISK = frozenset(
    ("fdisk parted wipefs shred shutdown reboot halt poweroff swapoff losetup cryptsetup dd mkswap").split()
)
_WRAPPERS = frozenset("sudo doas env nohup nice ionice timeout time xargs setsid stdbuf command exec".split())
_DISCARDS: dict[str, Callable[[list[str]], bool]] = {
    "reset": lambda rest: any(arg in ("--hard", "--merge") for arg in rest),
    "clean": lambda rest: any(re.match(r"-[a-zA-Z]*f|--force", arg) for arg in rest),
    "checkout": lambda rest: any(arg in ("-f", "--force", ".", "--") for arg in rest),
    "restore": lambda rest: "--staged" not in rest or "--worktree" in rest,
    "switch": lambda rest: any(arg in ("-f", "--force", "--discard-changes") for arg in rest),
    "stash": lambda rest: rest[:1] in (["drop"], ["clear"]),
    "push": lambda rest: any(re.match(r"-[a-zA-Z]*f|--force|--mirror|--delete|-d$|\+|:", arg) for arg in rest),
    "branch": lambda rest: "-D" in rest,
    "filter-branch": lambda rest: True,
    "filter-repo": lambda rest: True,
    "update-ref": lambda rest: True,
    "reflog": lambda rest: rest[:1] in (["expire"], ["delete"]),
}
_CATASTROPHE = re.compile(
    r"\brm\s+(-\S*\s+)*-\S*[rRf]|\bsudo\b|\bmkfs|\bdd\s+\S*of=|>\s*/dev/(sd|nvme|vd)|\|\s*(sudo\s+)?(ba|z|da|k)?sh\b"
    r"|\bpush\b.*(--force|\s-f\b)|\breset\s+--hard|\bclean\s+-\S*f|-delete\b|\bshred\b|\brmtree\b|:\(\)\s*\{"
)


def destroys(command: SimpleCommand, resolve: Callable[[str], str], roots: tuple[str, ...], home: str) -> str:
    """Why a simple command may destroy what undo cannot bring back; empty when it is not known to."""
    if command.argv[:1] in (("sudo",), ("doas",), ("su",)):
        return f"`{command.argv[0]}` acts as another user"
    argv = _unwrapped(list(command.argv))
    if not argv:
        return ""
    name, args = argv[0].rsplit("/", 1)[-1], argv[1:]
    if name in _DISK or name.startswith("mkfs"):
        return f"`{name}` works on disks or the machine itself"
    if name in _SHELLS and any(re.fullmatch(r"-[a-z]*c", arg) for arg in args):
        return "a nested shell may destroy data" if _CATASTROPHE.search(" ".join(args)) else ""
    if name == "git":
        verb = next((arg for arg in args if not arg.startswith("-")), "")
        rest = args[args.index(verb) + 1 :] if verb else []
        discards = _DISCARDS.get(verb)
        return f"`git {verb}` discards work or rewrites history" if discards and discards(rest) else ""
    if name == "find" and ("-delete" in args or ("rm" in args and "-exec" in args)):
        return "`find` deletes what it finds"
    if name in ("rm", "rmdir", "mv", "truncate", "unlink"):
        return _removes(name, args, resolve, roots, home)
    return ""


def script_of(command: SimpleCommand) -> str:
    """The script that a nested shell is given with `-c` or `eval`; empty when there is none."""
    argv = command.argv
    if argv[:1] == ("eval",):
        return " ".join(argv[1:])
    if argv and argv[0].rsplit("/", 1)[-1] in _SHELLS:
        for place, word in enumerate(argv[1:-1], start=1):
            if re.fullmatch(r"-[a-z]*c", word):
                return argv[place + 1]
    return ""


def unwrapped(command: SimpleCommand) -> SimpleCommand | None:
    """The command that a wrapper such as `env`, `timeout` or `xargs` runs; None when it is no wrapper."""
    inner = _unwrapped(list(command.argv))
    if not inner or len(inner) == len(command.words):
        return None
    return SimpleCommand(command.words[-len(inner) :])


def _unwrapped(argv: list[str]) -> list[str]:
    while argv and argv[0].rsplit("/", 1)[-1] in _WRAPPERS:
        argv = argv[1:]
        while argv and (argv[0].startswith("-") or "=" in argv[0] or re.fullmatch(r"[\d.]+[smhd]?", argv[0])):
            argv = argv[1:]
    return argv


def _removes(name: str, args: list[str], resolve: Callable[[str], str], roots: tuple[str, ...], home: str) -> str:
    targets = [arg for arg in args if not arg.startswith("-")]
    if name == "mv":
        targets = targets[:-1]
    for target in targets:
        real = resolve(target)
        if real in (*roots, home, "/"):
            return f"`{name} {target}` concerns a whole workspace, home or root"
        if ("/.git" in f"{real}/" and real.rstrip("/").endswith((".git", "/.git"))) or "/.git/" in real:
            return f"`{name} {target}` concerns git's own data"
        if not any(real.startswith(f"{root}/") for root in roots):
            return f"`{name} {target}` lies outside the workspace"
    return ""


def catastrophic(line: str) -> bool:
    """For lines beyond the reader: whether they look like destruction."""
    return bool(_CATASTROPHE.search(line))


_VERBS: dict[str, int] = {
    **dict.fromkeys("git cargo go make pip pip3 docker kubectl poetry brew apt apt-get systemctl gh".split(), 2),
    **dict.fromkeys(["npm", "pnpm", "yarn", "bun", "uv"], 2),
    "npm run": 3, "pnpm run": 3, "yarn run": 3, "bun run": 3, "uv run": 3, "docker compose": 3,
}  # fmt: skip
_EXACT_ONLY = frozenset(
    (
    "python python3 node perl ruby php lua deno eval source rm rmdir mv dd curl wget "
    "ssh scp rsync nc sudo doas env xargs find docker kubectl nohup timeout tee chmod "
    "chown kill pkill killall"
).split()
) | _SHELLS  # fmt: skip


def grant_for(command: SimpleCommand) -> str:
    """The narrowest useful rule that would allow a simple command next time; empty when none should."""
    if not command.words or command.assigns or any(word.glob or "*" in word.text for word in command.words):
        return ""
    argv = command.argv
    name = argv[0]
    if name in _EXACT_ONLY or "/" in name:
        return f"shell({' '.join(argv)})"
    arity = _VERBS.get(" ".join(argv[:2]), _VERBS.get(name, 1))
    prefix = argv[:arity]
    if any(word.startswith("-") for word in prefix[1:]):
        return f"shell({' '.join(argv)})"
    return f"shell({' '.join(prefix)} *)" if len(argv) > len(prefix) else f"shell({' '.join(prefix)})"
