"""What one command leaves behind and the next one finds: the working directory, variables and functions. Each
command still runs in a shell of its own, so that none can hang or break the ones after it: at its end the shell
writes a report, and the next shell starts from there.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

_REPORT = (
    '{ builtin printf "%s\\n" "$? ${PIPESTATUS[*]}"; builtin pwd -P; builtin printf "\\0"; builtin declare -p;'
    ' builtin printf "\\0"; builtin declare -f; builtin printf "\\0"; }'
)
"""Built-ins only: it starts no process, and no changed PATH misleads it."""
_DECLARED = re.compile(
    rb"declare -(\S+) (\w+)(?:=(?:\"((?:[^\"\\]|\\.)*)\"|\$'((?:[^'\\]|\\.)*)'"
    rb"|(\((?:[^\"'()]|\"(?:[^\"\\]|\\.)*\"|\$?'(?:[^'\\]|\\.)*')*\))))?\n",
    re.DOTALL,
)
_FUNCTION = re.compile(rb"^(\S+) \(\) ?$", re.MULTILINE)
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
_MAX_STATE_BYTES = 400_000
_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Report(msgspec.Struct, frozen=True):
    """What a shell said at its end."""

    pipe: tuple[int, ...]
    """Exit codes of the parts of the last pipeline."""
    cwd: str
    env: dict[str, str]
    """Exported variables."""
    local: dict[str, bytes]
    """Variables that are not exported, each as the line that declares it."""
    functions: bytes


class ShellSession:
    """The state that lasts from command to command.

    `env` is the environment of the first command; `folder`, created when first needed, is for the reports.
    """

    def __init__(self, root: Path, env: Mapping[str, str], folder: Path) -> None:
        self._root = root
        self._launch = dict(env)
        self._folder = folder
        self._functions = b""
        self._local: dict[str, bytes] = {}
        self.cwd = root
        self.env = dict(env)

    @property
    def altered(self) -> tuple[str, ...]:
        """Variables that earlier commands have set, changed or removed."""
        names = self.env.keys() | self._launch.keys()
        changed = {name for name in names if self.env.get(name) != self._launch.get(name)}
        return tuple(sorted(changed | self._local.keys()))

    def shadowed(self) -> tuple[str, ...]:
        """Names that now may mean another program than at the start: functions, and what lies in folders that
        earlier commands have put on the PATH."""
        names = {os.fsdecode(name) for name in _FUNCTION.findall(self._functions)}
        before = self._launch.get("PATH", "").split(os.pathsep)
        now = self.env.get("PATH", "").split(os.pathsep)
        for folder in () if now == before else now:
            if folder not in before:
                names.update(_names_in(self.cwd / folder))
        reordered = [folder for folder in now if folder in before] != before
        return (*sorted(names), *(("*",) if reordered else ()))

    @property
    def start(self) -> Path:
        """Where the next command starts: the working directory, or the root when it is no longer there."""
        return self.cwd if self.cwd.is_dir() else self._root

    def enter(self) -> bool:
        """Go to where the next command starts; False when the working directory was gone."""
        was_there, self.cwd = self.start == self.cwd, self.start
        return was_there

    def script(self, command: str, name: str) -> tuple[str, Path | None]:
        """What bash is to run for `command`, and the file its report comes in; `name` tells calls apart. Where
        nothing can be written there is no report, and nothing lasts."""
        try:
            return self._script(command, name)
        except OSError:
            return command, None

    def _script(self, command: str, name: str) -> tuple[str, Path]:
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        report = self._folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:60] or 'call'}.report"
        report.unlink(missing_ok=True)
        begin = f"trap '{_REPORT} 2>/dev/null >|{_quoted_twice(str(report))}' EXIT; "
        if state := b"".join(self._local.values()) + self._functions:
            file = report.with_suffix(".state")
            file.write_bytes(state)
            begin = f". {_quoted(str(file))}; {begin}"
        return begin + command, report

    def adopt(self, file: Path | None) -> Report | None:
        """Take over what the shell reported; None, and nothing is changed, when there is no whole report."""
        if file is None:
            return None
        file.with_suffix(".state").unlink(missing_ok=True)
        try:
            data = file.read_bytes()
            file.unlink()
        except OSError:
            return None
        report = read_report(data)
        if report is not None:
            self.cwd = Path(report.cwd)
            kept = {name: value for name, value in self.env.items() if not _is_the_users(name)}
            self.env = {**kept, **{name: value for name, value in report.env.items() if _is_the_users(name)}}
            small = len(report.functions) + sum(map(len, report.local.values())) <= _MAX_STATE_BYTES
            self._functions, self._local = (report.functions, report.local) if small else (b"", {})
        return report


def _is_the_users(name: str) -> bool:
    """Whether bash reports a variable, and it means something from one command to the next."""
    return name not in _OWN and not name.startswith("BASH") and name.isidentifier() and name.isascii()


def read_report(data: bytes) -> Report | None:
    """The report in `data`; None when it is torn or was not written by us."""
    parts = data.split(b"\0")
    if len(parts) != 4 or parts[3]:
        return None
    codes, _, cwd = parts[0].partition(b"\n")
    numbers = codes.split()
    if not numbers or not all(number.isdigit() for number in numbers) or not cwd.startswith(b"/"):
        return None
    if (variables := _variables(parts[1])) is None:
        return None
    pipe = tuple(int(number) for number in numbers[1:])
    return Report(pipe, os.fsdecode(cwd.removesuffix(b"\n")), *variables, parts[2])


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
    """The value of bash's `$'…'`."""

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
    """The files of a folder on the PATH; `*`, any name, when they cannot be listed."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError:
        return ["*"]


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


def _quoted_twice(path: str) -> str:
    """A path as one word of a script that itself stands between single quotes."""
    return _quoted(path).replace("'", "'\\''")
