"""Programs passed as text to an interpreter or to a tool that can run commands. What they do cannot be known;
these tables hold words typical of destruction."""

import re

from .parser import SimpleCommand
from .wrappers import SHELLS, program

INTERPRETERS = re.compile(
    r"python[\d.]*|pypy\d*|node|nodejs|deno|bun|perl|ruby|php|lua|Rscript|julia|osascript|tclsh|groovy|irb|ipython"
)
_RUN_THEIR_OWN = frozenset(
    "awk gawk mawk nawk sed vim vi nvim view ex ed emacs tar make gmake man less more fd fdfind rg entr expect gdb"
    " sqlite3 m4 zip rsync nmap socat ssh git".split()
)
_TREES = re.compile(
    r"rmtree|rm_rf|rm_r\b|remove_entry|removedirs|remove_tree|deltree|rimraf|removeSync|emptyDir|rm(dir)?Sync"
    r"|fs\.rm\b"
    r"|\brm\s+-\w*[rRf]|\bmkfs|\bshred\s|>\s*/dev/sd|\bdd\s+\S*of=|\bsudo\s|:!\s*rm\b|exec=\s*rm\b"
    r"|exec\w*=['\"]?rm\b"
    r"|delete_all|DROP\s+(TABLE|DATABASE)|FileUtils\.rm|Remove-Item"
)
_FILES = re.compile(r"\bunlink|os\.remove|\.rmdir\(|rename\(|truncate\(|\.rm\(|File\.delete|rmdir\s")


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
    if _TREES.search(text) or (is_interpreter and not is_confined and _FILES.search(text)):
        return f"`{name}` is given a program that deletes"
    return ""


def runs_what_was_fetched(commands: list[SimpleCommand], fetchers: frozenset[str]) -> str:
    """Return why a line that fetches a file and then runs it needs approval."""
    fetched: set[str] = set()
    for command in commands:
        name = program(command)
        if fetched and name not in fetchers:
            words = {_bare(word) for word in command.argv}
            runs = name in SHELLS or INTERPRETERS.fullmatch(name) or name in ("source", ".", "chmod", "sudo")
            if (runs and words & fetched) or (command.words and _bare(command.argv[0]) in fetched):
                return f"`{' '.join(command.argv)}` would run what was just fetched"
        if name in fetchers:
            fetched |= {_bare(word) for word in (*_outputs(command), *command.writes)}
    return ""


def _outputs(command: SimpleCommand) -> list[str]:
    """Return the files to which a fetching program writes."""
    argv = command.argv
    named = [
        value for flag, value in zip(argv, argv[1:], strict=False) if re.fullmatch(r"-\w*[oO]|--output\S*", flag)
    ]
    joined = [
        re.sub(r"^(-o|--output(-document)?=)", "", word) for word in argv if re.match(r"-o.|--output\S*=", word)
    ]
    urls = [word.rstrip("/").rsplit("/", 1)[-1] for word in argv[1:] if not word.startswith("-")]
    return [*named, *joined, *(urls if "-O" in argv or program(command) in ("wget", "aria2c") else [])]


def _bare(word: str) -> str:
    return word.removeprefix("./")
