"""State passed from one command to the next: the working directory, variables and functions. Each command still
runs in a new shell, so that none can hang or break later ones: when it ends, the shell writes a report, from which
the next shell is set up.

The shell gets its start script and the file for its report as descriptors of files without a name: nothing is
written to disk, no sandbox needs a hole for them, and no command finds the files of another."""

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from agent_cli.fs.files import unnamed_file
from agent_cli.fs.which import with_checkouts
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_inside

REPORT = (
    '{ builtin printf "%s " $? "${PIPESTATUS[@]}"; builtin printf "\\n"; builtin pwd -P; builtin printf "\\0";'
    ' builtin declare -p; builtin printf "\\0"; builtin declare -f; builtin printf "\\0"; }'
)
"""Only built-ins: it starts no process, and a changed PATH cannot mislead it."""
_DECLARED = lazy_regex(
    rb"declare -(\S+) (\w+)(?:=(?:\"((?:[^\"\\$`]|\\.)*)\"|\$'((?:[^'\\]|\\.)*)'"
    rb"|(\((?:[^\"'()$]|\$(?!')|\"(?:[^\"\\]|\\.)*\"|\$?'(?:[^'\\]|\\.)*')*\))))?\n",
    re.DOTALL,
)
_VOLATILE = lazy_regex(
    rb"^declare -(?:\S+ (?:_|AGENT_CALL)|[^\sx]+ (?:S?RANDOM|SECONDS|EPOCH(?:SECONDS|REALTIME)|LINENO"
    rb"|HISTCMD|PIPESTATUS|PPID|BASHPID|BASH_(?:ARGC|ARGV0?|COMMAND|EXECUTION_STRING|LINENO|SOURCE|SUBSHELL)))"
    rb"(?:=(?:\"(?:[^\"\\]|\\.)*\"|\$'(?:[^'\\]|\\.)*'|\([^\n\\]*\)))?\n",
    re.DOTALL | re.MULTILINE,
)
"""Matches variables that differ in each shell. None of them lasts; without them, most reports are like the one
before and are not parsed anew."""
_ESCAPED = lazy_regex(rb"\\([\\\"$`\n])")
_FUNCTION = lazy_regex(rb"([^\s;&|(){}]+)\s*\(\)|\bfunction\s+([^\s;&|(){}]+)")
"""Matches whatever may define a function: possibly too much, never too little."""
_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "AGENT_CALL", "AGENT_COMMAND", "SHELLOPTS", "PS1", "PS2"})
"""Variables set anew by each shell or each call; a shell without a terminal removes the prompts."""
_OWN_LOCAL = frozenset(
    {
        "SHELL", "TERM", "PATH", "IFS", "PS4", "OPTIND", "OPTERR", "OPTARG", "RANDOM", "SRANDOM", "SECONDS",
        "LINENO", "PIPESTATUS", "FUNCNAME", "DIRSTACK", "GROUPS", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE",
        "HISTCMD", "EPOCHSECONDS", "EPOCHREALTIME", "COMP_WORDBREAKS", "REPLY", "LINES", "COLUMNS",
    }
)  # fmt: skip
"""Variables that are not kept unless exported."""
_FINDS_SHELLS = lazy_regex(r"\bp(kill|grep)\b|\bps\b[^|\n]{0,99}\|")
"""Matches programs that find processes by their arguments, and would end the shell that runs them: `pkill -f`, or
`ps` before a pipe."""
_RUN = 'builtin eval -- "$AGENT_COMMAND"'
"""Runs the command without having it as the argument. PIPESTATUS is then lost."""
_BEGIN_FD, _REPORT_FD = 58, 59
"""Descriptors in the shell: its start script, which it closes, and its report. Below 64, since the limit may be
low; scripts use 3 to 9, 100, 200 or 255, and bash takes those from 63 down for itself if they are free."""
_MAX_REPORT_BYTES = 1_000_000
"""Reading a longer report would block for too long."""
_MAX_VALUE_BYTES = 100_000
_MAX_ENV_BYTES = 500_000
"""The system limits both; with more, no program could be started."""
_STEERING = frozenset({"CDPATH", "GLOBIGNORE", "EXECIGNORE", "POSIXLY_CORRECT"})
"""Variables that change the behaviour of the shell itself, exported or not."""
_CONVERTS = re.compile(rb"declare -\w*[cinlu]")
"""A variable that changes what is assigned to it, or stands for another."""
_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class ShellState(msgspec.Struct, frozen=True):
    """The report of a shell at its end."""

    pipe: tuple[int, ...]
    """Exit codes of the parts of the last pipeline."""
    cwd: str
    """Working directory; empty if it no longer existed."""
    env: Mapping[str, str]
    """Exported variables."""
    local: Mapping[str, bytes]
    """Variables that are not exported, each as its declaration."""
    functions: bytes


_BEGAN_NS = time.time_ns()
"""Loaded with the tools, before the first call."""


class ShellStart(msgspec.Struct, frozen=True):
    """Start parameters of a shell."""

    command: str
    """The shell's argument: the line to run, or `_RUN`."""
    env: dict[str, str]
    begin: FileIO | None = None
    """The script that it reads before the command."""
    report: FileIO | None = None
    """The file for its report; None if there will be none."""
    own: frozenset[str] = frozenset()
    """Variables that may be present only because of the confinement."""
    leaves: bool = False
    """True if it started in the initial state, outside the sandbox of the others."""
    reports_start: bool = False
    """True if it also reports its state after the user's `BASH_ENV`, before the command."""

    @property
    def files(self) -> dict[int, int]:
        """The descriptors to hand over, by their numbers in the shell."""
        files = {_BEGIN_FD: self.begin, _REPORT_FD: self.report}
        return {number: file.fileno() for number, file in files.items() if file is not None}

    def close(self) -> None:
        """Close the files; a shell that still runs keeps its own descriptors."""
        for file in (self.begin, self.report):
            if file is not None:
                file.close()


class _Lasting(NamedTuple):
    cwd: Path
    came_from: str
    env: dict[str, str]
    local: Mapping[str, bytes]
    functions: bytes


class ShellSession:
    """The state that lasts from command to command. `env` is the environment of the first command."""

    def __init__(self, root: Path, env: Mapping[str, str], roots: Iterable[Path] = ()) -> None:
        """`roots` are the folders of the workspace."""
        self._root = root
        self._roots = with_checkouts((root, *roots))
        self._launch = {name: value for name, value in env.items() if name != "OLDPWD"}
        self._functions = b""
        self._local: Mapping[str, bytes] = {}
        self._came_from = ""
        """Where `cd -` leads; empty before the first `cd`."""
        self._path_at_start = ""
        """The PATH that the user's `BASH_ENV` has set for the last command; empty if there is none."""
        self.cwd = root
        self.env = dict(self._launch)
        self._taken: tuple[object, ...] = ()
        """What the last report was applied to, and what came of it: with the same again, nothing changes."""
        self._left_out = ""
        self.pipe: tuple[int, ...] = ()
        """Exit codes of the parts of the last pipeline, as last reported."""

    def begin_with(self, variables: Mapping[str, str]) -> None:
        """Set variables as if the first command had been started with them."""
        taken = {name: value for name, value in variables.items() if _is_the_users(name)}
        self._launch |= taken
        self.env |= taken

    def lasting(self) -> _Lasting:
        """Return what the next command would start with, for `restore`."""
        return _Lasting(self.cwd, self._came_from, self.env, self._local, self._functions)

    def restore(self, earlier: _Lasting) -> None:
        """Return to an earlier state."""
        self.cwd, self._came_from, self.env, self._local, self._functions = earlier

    def fresh(self) -> "ShellSession":
        """Return a session in the initial state of this one, without changes by commands."""
        return ShellSession(self._root, self._launch, map(Path, self._roots))

    @property
    def altered(self) -> tuple[str, ...]:
        """Variables that earlier commands have set, changed or removed and that programs or the shell read."""
        changed: set[str] = set()
        if self.env != self._launch:
            names = self.env.keys() | self._launch.keys()
            changed = {name for name in names if self.env.get(name) != self._launch.get(name)}
        special = {name for name, told in self._local.items() if name in _STEERING or _CONVERTS.match(told)}
        return tuple(sorted(changed | special))

    @property
    def functions(self) -> tuple[str, ...]:
        """Names that earlier commands have defined as functions."""
        found = {os.fsdecode(first or second) for first, second in _FUNCTION.findall(self._functions)}
        return ("*",) if "command_not_found_handle" in found else tuple(sorted(found))

    def shadowed(self) -> tuple[str, ...]:
        """Return programs in folders that earlier commands have added to the PATH; `*` if it may be any."""
        before = self._launch.get("PATH", "").split(os.pathsep)
        now = self.env.get("PATH", "").split(os.pathsep)
        if now == before:
            return ()
        if [folder for folder in now if folder in before] != before:
            return ("*",)
        names: set[str] = set()
        for folder in now:
            if folder not in before:
                names.update(_names_in(Path(folder)) if os.path.isabs(folder) else ["*"])
        return tuple(sorted(names))

    def local(self) -> tuple[str, ...]:
        """Return the programs that the PATH finds in the workspace; `*` if it may be any."""
        from agent_cli.fs.real_path import RealPaths

        names: set[str] = set()
        start, real = str(self.start), RealPaths()
        for path in {self.env.get("PATH", ""), self._path_at_start} - {""}:
            before: list[str] = []
            for folder in path.split(os.pathsep):
                place = real(os.path.join(start, folder))
                if is_inside(place, self._roots):
                    names.update(each for each in _names_in(Path(place)) if not _is_found(each, before))
                else:
                    before.append(place)
        return tuple(sorted(names))

    def _search_path(self) -> str:
        """Return the PATH of the agent's start. If programs in the workspace have changed since, which commands in
        the sandbox can do, those elsewhere come first."""
        folders = self._launch.get("PATH", "").split(os.pathsep)
        local = [each for each in folders if is_inside(os.path.realpath(self._root / each), self._roots)]
        if not any(_has_changed(self._root / each) for each in local):
            return os.pathsep.join(folders)
        return os.pathsep.join((*(each for each in folders if each not in local), *local))

    @property
    def start(self) -> Path:
        """Start folder of the next command: the working directory, or the root if that no longer exists."""
        return self.cwd if self.cwd.is_dir() else self._root

    def enter(self) -> bool:
        """Move to the start folder of the next command. Return False if the working directory no longer
        existed."""
        was_there, self.cwd = self.start == self.cwd, self.start
        return was_there

    def prepare(
        self,
        command: str,
        confined: Callable[[Mapping[str, str]], dict[str, str]] = dict,
        own: frozenset[str] = frozenset(),
        *,
        leaves: bool = False,
        reports: bool = True,
    ) -> ShellStart:
        """Return the start parameters of the next shell, which runs `command`: the current environment as modified
        by `confined`, and, if it `reports`, the files for that. The caller closes them.

        A shell that `leaves` the sandbox starts in the initial state, because the variables and functions set by
        sandboxed commands were never checked.
        """
        env = self._launch | {"PATH": self._search_path()} if leaves else confined(self.env)
        if self._came_from:
            env = {**env, "OLDPWD": self._came_from}
        start = ShellStart(
            command, env, own=own, leaves=leaves, reports_start=reports and bool(env.get("BASH_ENV"))
        )
        if not reports:
            return start
        try:
            begin, report = FileIO(unnamed_file(self._beginning(start))), FileIO(unnamed_file(), "r+")
        except OSError:
            return start
        env = {**env, "BASH_ENV": f"/dev/fd/{_BEGIN_FD}"}
        command = _RUN if _FINDS_SHELLS.search(command) else command
        return msgspec.structs.replace(start, command=command, env=env, begin=begin, report=report)

    def _beginning(self, given: ShellStart) -> bytes:
        """Return the script that bash reads first: the user's own BASH_ENV, the state left by earlier commands,
        the report trap, and the command if it is not the argument. Error messages quote nothing else."""
        from shlex import quote

        own = given.env.get("BASH_ENV", "")
        first = f"export BASH_ENV={quote(own)}; [ -r {quote(own)} ] && . {quote(own)}" if own else "unset BASH_ENV"
        if given.reports_start:
            first += f"\n{REPORT} 2>/dev/null >&{_REPORT_FD}"
        left = b"" if given.leaves else b"".join(self._local.values()) + self._functions
        trap = quote(f"{REPORT} 2>/dev/null >&{_REPORT_FD}")
        last = f"trap {trap} EXIT\n"
        if _FINDS_SHELLS.search(given.command):
            last += f"AGENT_COMMAND={quote(given.command)}\n"
        return os.fsencode(f"exec {_BEGIN_FD}<&-\n{first}\n") + left + os.fsencode(last)

    def adopt(self, given: ShellStart) -> str:
        """Apply the shell's report. Return in words what is lost, empty if nothing. The exit codes of the last
        pipeline are then in `pipe`."""
        self.pipe = ()
        if given.report is None:
            return "no memory or descriptor is left for its report: cd and export do not last"
        file = given.report.fileno()
        data = os.pread(file, min(os.fstat(file).st_size, _MAX_REPORT_BYTES + 1), 0)
        at_start, data = _start_of(data) if given.reports_start else (None, data)
        if not data:
            return "its shell ended without a report: cd and export in it do not last"
        if len(data) > _MAX_REPORT_BYTES:
            self._move(data)
            return "the variables and functions of the shell are too large to last"
        report = read_report(data)
        if report is None:
            return "its shell's report cannot be read: cd and export in it do not last"
        self.pipe = report.pipe
        self.cwd = Path(report.cwd) if report.cwd else self.cwd
        if (came_from := report.env.get("OLDPWD", "")).startswith("/"):
            self._came_from = came_from
        if at_start is not None:
            report = _without(report, at_start)
            self._path_at_start = at_start.env.get("PATH", "")
        if not given.leaves:
            self._local, self._functions = report.local, report.functions
        return self._take_env(report.env, given.env if at_start is None else at_start.env, given.own)

    def _move(self, data: bytes) -> None:
        if (first := data.partition(b"\0")[0].partition(b"\n")[2]).startswith(b"/"):
            self.cwd = Path(os.fsdecode(first.removesuffix(b"\n")))

    def _take_env(self, env: Mapping[str, str], start: Mapping[str, str], own: frozenset[str]) -> str:
        """Apply the variables reported by the shell; `start` are those that the command started with. Variables
        added by the sandbox are not kept unless changed; variables removed by the sandbox remain for commands
        outside it."""
        if (env, start, own, self.env) == self._taken:
            return self._left_out
        lasting = {name: value for name, value in self.env.items() if name not in start}
        for name, value in env.items():
            told = self.env.get(name) if value == start.get(name) else value
            if told is not None and (name in self.env or name not in own):
                lasting[name] = told
        users = {name: value for name, value in lasting.items() if _is_the_users(name)}
        left_out = _too_large(users)
        for name in left_out:
            del users[name]
        self.env = {name: value for name, value in self.env.items() if not _is_the_users(name)} | users
        self._taken = (env, start, own, self.env)
        self._left_out = f"too large to last: {', '.join(sorted(left_out))}" if left_out else ""
        return self._left_out


def _too_large(env: Mapping[str, str]) -> set[str]:
    """Return the variables that do not last, the largest: they would leave no room for the others."""
    if sum(map(len, env)) + sum(map(len, env.values())) <= min(_MAX_ENV_BYTES, _MAX_VALUE_BYTES):
        return set()
    left_out, room = set(), _MAX_ENV_BYTES
    for name, value in sorted(env.items(), key=lambda item: len(item[1])):
        room -= len(name) + len(value)
        if room < 0 or len(value) > _MAX_VALUE_BYTES:
            left_out.add(name)
    return left_out


def _start_of(data: bytes) -> tuple[ShellState | None, bytes]:
    """Split off the report that a shell makes before its command."""
    parts = data.split(b"\0", 3)
    if len(parts) < 4:
        return None, b""
    return read_report(b"\0".join(parts[:3]) + b"\0"), parts[3]


def _without(report: ShellState, at_start: ShellState) -> ShellState:
    """Return the report without what was there before the command: the next shell sets it anew."""
    local = {name: told for name, told in report.local.items() if told != at_start.local.get(name)}
    functions = report.functions if report.functions != at_start.functions else b""
    return msgspec.structs.replace(report, local=local, functions=functions)


@lru_cache(maxsize=1024)
def _is_the_users(name: str) -> bool:
    """Return True if a variable is worth keeping between commands and bash reports it."""
    return name not in _OWN and not name.startswith("BASH") and name.isidentifier() and name.isascii()


def read_report(data: bytes) -> ShellState | None:
    """Parse the report in `data`; None if it is torn or not one of ours."""
    parts = data.split(b"\0")
    if len(parts) != 4 or parts[3]:
        return None
    codes, _, cwd = parts[0].partition(b"\n")
    numbers = codes.split()
    if not numbers or not all(number.isdigit() for number in numbers) or (cwd and not cwd.startswith(b"/")):
        return None
    if (variables := _variables(_VOLATILE.sub(b"", parts[1]))) is None:
        return None
    pipe = tuple(int(number) for number in numbers[1:])
    return ShellState(pipe, os.fsdecode(cwd.removesuffix(b"\n")), *variables, parts[2])


@lru_cache(maxsize=4)
def _variables(text: bytes) -> tuple[Mapping[str, str], Mapping[str, bytes]] | None:
    """Return exported variables, and others worth keeping, from the output of `declare -p`; None if it cannot be
    parsed to the end."""
    env: dict[str, str] = {}
    local: dict[str, bytes] = {}
    at = 0
    while at < len(text):
        match = _DECLARED.match(text, at)
        if match is None:
            return None
        at = match.end()
        flags, raw_name, quoted, ansi, _ = match.groups()
        name = raw_name.decode()
        if b"x" not in flags:
            if b"r" not in flags and name not in _OWN_LOCAL and _is_the_users(name):
                local[name] = match.group()
        elif quoted is not None:
            env[name] = os.fsdecode(_ESCAPED.sub(rb"\1", quoted) if b"\\" in quoted else quoted)
        elif ansi is not None:
            env[name] = _ansi_c(ansi)
    return env, local


def _ansi_c(text: bytes) -> str:
    """Return the value of bash's `$'…'`."""

    def value(found: re.Match[bytes]) -> bytes:
        code = found.group(1)
        if code[:1] in b"01234567":
            return bytes([int(code, 8) & 255])
        if code[:1] == b"x":
            return bytes([int(code[1:], 16)])
        letter = code.decode("latin-1")
        return _ESCAPES.get(letter, letter).encode("latin-1")

    return os.fsdecode(re.sub(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", value, text, flags=re.DOTALL))


def _is_found(name: str, folders: Iterable[str]) -> bool:
    return name != "*" and any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders)


def _has_changed(folder: Path) -> bool:
    """Return True if a program in a folder was made or changed since this program began. The time is the kernel's;
    no command can set it back."""
    for name in _names_in(folder):
        try:
            times = (os.lstat(folder / name).st_ctime_ns, os.stat(folder / name).st_ctime_ns)
        except FileNotFoundError:
            continue
        except OSError:
            return True
        if max(times) > _BEGAN_NS:
            return True
    return False


def _names_in(folder: Path) -> list[str]:
    """Return the files of a folder on the PATH; `*`, for any name, if they cannot be listed."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError:
        return ["*"]
