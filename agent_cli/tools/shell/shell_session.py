"""What one command leaves behind and the next one finds: the working directory, variables and functions. Each
command still runs in a shell of its own, so that none can hang or break the ones after it: at its end the shell
writes a report, and the next shell starts from there.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from agent_cli.fs.files import create_file, read_regular
from agent_cli.protocol.lazy_regex import lazy_regex

REPORT = (
    '{ builtin printf "%s " $? "${PIPESTATUS[@]}"; builtin printf "\\n"; builtin pwd -P; builtin printf "\\0";'
    ' builtin declare -p; builtin printf "\\0"; builtin declare -f; builtin printf "\\0"; }'
)
"""Built-ins only: it starts no process, and no changed PATH misleads it."""
_DECLARED = lazy_regex(
    rb"declare -(\S+) (\w+)(?:=(?:\"((?:[^\"\\$`]|\\.)*)\"|\$'((?:[^'\\]|\\.)*)'"
    rb"|(\((?:[^\"'()$]|\$(?!')|\"(?:[^\"\\]|\\.)*\"|\$?'(?:[^'\\]|\\.)*')*\))))?\n",
    re.DOTALL,
)
_FUNCTION = lazy_regex(rb"([^\s;&|(){}]+)\s*\(\)|\bfunction\s+([^\s;&|(){}]+)")
"""What may define a function; more than does is found, never less."""
_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "AGENT_CALL", "SHELLOPTS"})
"""Set anew by each shell or each call."""
_OWN_LOCAL = frozenset(
    {
        "SHELL", "TERM", "PATH", "IFS", "PS4", "OPTIND", "OPTERR", "OPTARG", "RANDOM", "SRANDOM", "SECONDS",
        "LINENO", "PIPESTATUS", "FUNCNAME", "DIRSTACK", "GROUPS", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE",
        "HISTCMD", "EPOCHSECONDS", "EPOCHREALTIME", "COMP_WORDBREAKS", "REPLY", "LINES", "COLUMNS",
    }
)  # fmt: skip
"""As long as they are not exported."""
_REPORT_NAME = "report"
_MAX_REPORT_BYTES = 1_000_000
"""Reading a longer one would hold up the rest."""
_MAX_VALUE_BYTES = 100_000
_MAX_ENV_BYTES = 500_000
"""With more, no program could be started any more: the system bounds both."""
_STEERING = frozenset({"CDPATH", "GLOBIGNORE", "EXECIGNORE", "POSIXLY_CORRECT"})
"""Variables that change what the shell itself does, exported or not."""
_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class ShellState(msgspec.Struct, frozen=True):
    """What a shell said at its end."""

    pipe: tuple[int, ...]
    """Exit codes of the parts of the last pipeline."""
    cwd: str
    """Empty when it was gone."""
    env: dict[str, str]
    """Exported variables."""
    local: dict[str, bytes]
    """Variables that are not exported, each as the line that declares it."""
    functions: bytes


class ShellStart(msgspec.Struct, frozen=True):
    """What a shell was started with."""

    env: dict[str, str]
    folder: Path | None
    """For its report; None when there will be none."""
    own: frozenset[str] = frozenset()
    """Variables that may be there only because it is confined."""
    leaves: bool = False
    """It started as the first one did, outside the sandbox of the others."""


class ShellSession:
    """The state that lasts from command to command. `env` is the environment of the first command."""

    def __init__(
        self, root: Path, env: Mapping[str, str], scratch: Callable[[], Path | None] = lambda: None
    ) -> None:
        """`scratch` gives the folder for temporary files; None for the system's."""
        self._root = root
        self._scratch = scratch
        self._launch = dict(env)
        self._folder: Path | None = None
        self._functions = b""
        self._local: dict[str, bytes] = {}
        self.cwd = root
        self.env = dict(env)
        self.pipe: tuple[int, ...] = ()
        """Exit codes of the parts of the last pipeline, as last reported."""

    def begin_with(self, variables: Mapping[str, str]) -> None:
        """Take variables as if the first command had been started with them."""
        taken = {name: value for name, value in variables.items() if _is_the_users(name)}
        self._launch |= taken
        self.env |= taken

    def fresh(self) -> "ShellSession":
        """Return a session as this one began, without what commands have left in it."""
        return ShellSession(self._root, self._launch, self._scratch)

    @property
    def altered(self) -> tuple[str, ...]:
        """Variables that earlier commands have set, changed or removed and that programs or the shell heed."""
        names = self.env.keys() | self._launch.keys()
        changed = {name for name in names if self.env.get(name) != self._launch.get(name)}
        return tuple(sorted(changed | (self._local.keys() & _STEERING)))

    @property
    def functions(self) -> tuple[str, ...]:
        """Names that earlier commands have made functions of."""
        found = {os.fsdecode(first or second) for first, second in _FUNCTION.findall(self._functions)}
        return ("*",) if "command_not_found_handle" in found else tuple(sorted(found))

    def shadowed(self) -> tuple[str, ...]:
        """Programs in folders that earlier commands have put on the PATH; `*` when it may be any."""
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

    @property
    def start(self) -> Path:
        """Where the next command starts: the working directory, or the root when it is no longer there."""
        return self.cwd if self.cwd.is_dir() else self._root

    def enter(self) -> bool:
        """Go to where the next command starts; False when the working directory was gone."""
        was_there, self.cwd = self.start == self.cwd, self.start
        return was_there

    def prepare(self, name: str) -> Path | None:
        """Return a folder for the report of the next shell; `name` tells calls apart. Where nothing can be written
        there is no report, and nothing lasts."""
        import tempfile

        try:
            self._folder = self._folder or Path(tempfile.mkdtemp(prefix="agent-shell-", dir=self._scratch()))
            return Path(tempfile.mkdtemp(prefix=f"{name[:40]}-", dir=self._folder))
        except OSError:
            return None

    def environment(
        self,
        folder: Path | None,
        confined: Callable[[Mapping[str, str]], dict[str, str]] = dict,
        own: frozenset[str] = frozenset(),
        *,
        leaves: bool = False,
    ) -> ShellStart:
        """Return the environment for the next shell: ours as `confined` makes it, and the order to report in
        `folder`.

        A shell that `leaves` the sandbox in which the others ran starts as the first one did: whatever those have
        set, and what they have made functions of, was never looked at.
        """
        env = dict(self._launch) if leaves else confined(self.env)
        if folder is None:
            return ShellStart(env, None, leaves=leaves)
        begin = folder / "begin"
        try:
            create_file(begin, self._beginning(env, folder / _REPORT_NAME, leaves))
        except OSError:
            return ShellStart(env, None, leaves=leaves)
        return ShellStart({**env, "BASH_ENV": str(begin)}, folder, own, leaves)

    def _beginning(self, env: Mapping[str, str], report: Path, leaves: bool) -> bytes:
        """Return what bash reads before the command: the user's own BASH_ENV, what earlier commands have left, and
        the order to report. The command itself is passed as it is, so that errors quote nothing else."""
        from shlex import quote

        own = env.get("BASH_ENV", "")
        first = f"export BASH_ENV={quote(own)}; [ -r {quote(own)} ] && . {quote(own)}" if own else "unset BASH_ENV"
        trap = quote(f"{REPORT} 2>/dev/null >|{quote(str(report))}")
        left = b"" if leaves else b"".join(self._local.values()) + self._functions
        return os.fsencode(f"{first}\n") + left + os.fsencode(f"trap {trap} EXIT\n")

    def adopt(self, given: ShellStart) -> str:
        """Take over what the shell reported; what of it does not last, in words, empty when all does. The exit
        codes of the last pipeline are in `pipe` then."""
        self.pipe = ()
        if given.folder is None:
            return "no temporary file can be written: cd and export do not last"
        try:  # the command may have put a link or a pipe in its place
            data = read_regular(given.folder / _REPORT_NAME, _MAX_REPORT_BYTES + 1)
        except OSError:
            data = None
        if data is None:
            return "its shell ended without a report: cd and export in it do not last"
        if len(data) > _MAX_REPORT_BYTES:
            self._move(data)
            return "the variables and functions of the shell are too large to last"
        report = read_report(data)
        if report is None:
            return "its shell's report cannot be read: cd and export in it do not last"
        self.pipe = report.pipe
        self.cwd = Path(report.cwd) if report.cwd else self.cwd
        if not given.leaves:
            self._local, self._functions = report.local, report.functions
        return self._take_env(report.env, given)

    def close(self) -> None:
        """Remove the reports of commands that never ended."""
        import shutil

        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _move(self, data: bytes) -> None:
        if (first := data.partition(b"\0")[0].partition(b"\n")[2]).startswith(b"/"):
            self.cwd = Path(os.fsdecode(first.removesuffix(b"\n")))

    def _take_env(self, env: dict[str, str], given: ShellStart) -> str:
        """Return the variables as the shell left them. What only the sandbox added does not last, unless it was
        changed; what the sandbox left out is still there for a command outside it."""
        lasting = {name: value for name, value in self.env.items() if name not in given.env}
        for name, value in env.items():
            told = self.env.get(name) if value == given.env.get(name) else value
            if told is not None and (name in self.env or name not in given.own):
                lasting[name] = told
        kept = {name: value for name, value in self.env.items() if not _is_the_users(name)}
        left_out = []
        room = _MAX_ENV_BYTES
        for name, value in sorted(lasting.items(), key=lambda item: len(item[1])):
            if not _is_the_users(name):
                continue
            room -= len(name) + len(value)
            if room < 0 or len(value) > _MAX_VALUE_BYTES:
                left_out.append(name)
            else:
                kept[name] = value
        self.env = kept
        return f"too large to last: {', '.join(sorted(left_out))}" if left_out else ""


def _is_the_users(name: str) -> bool:
    """Return whether bash reports a variable, and it means something from one command to the next."""
    return name not in _OWN and not name.startswith("BASH") and name.isidentifier() and name.isascii()


def read_report(data: bytes) -> ShellState | None:
    """Return the report in `data`; None when it is torn or was not written by us."""
    parts = data.split(b"\0")
    if len(parts) != 4 or parts[3]:
        return None
    codes, _, cwd = parts[0].partition(b"\n")
    numbers = codes.split()
    if not numbers or not all(number.isdigit() for number in numbers) or (cwd and not cwd.startswith(b"/")):
        return None
    if (variables := _variables(parts[1])) is None:
        return None
    pipe = tuple(int(number) for number in numbers[1:])
    return ShellState(pipe, os.fsdecode(cwd.removesuffix(b"\n")), *variables, parts[2])


def _variables(text: bytes) -> tuple[dict[str, str], dict[str, bytes]] | None:
    """Exported variables, and the others that are worth keeping, from the output of `declare -p`; None when it
    cannot be read to its end."""
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
            env[name] = os.fsdecode(re.sub(rb"\\([\\\"$`\n])", rb"\1", quoted))
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


def _names_in(folder: Path) -> list[str]:
    """Return the files of a folder on the PATH; `*`, any name, when they cannot be listed."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError:
        return ["*"]
