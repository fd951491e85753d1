"""Detect sandbox denials: tell from a failed command's output whether it would have succeeded unconfined. Pure,
except that the caller passes in a function that answers what this user may do.

Precision is preferred to recall: a false positive makes the user run the command outside the sandbox for nothing.
So an error counts only if it names a path that the confinement withholds and the user could access, or uses words
that programs use for nothing else.
"""

import os
import re
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from agent_cli.protocol.paths import is_inside

from .profile.confinement import Confinement

Kind = Literal["write", "read", "keys", "network", "privilege", "namespace", "syscall"]


class Denial(msgspec.Struct, frozen=True):
    """An operation that the sandbox denied to a command."""

    kind: Kind
    subject: str = ""
    """The path, the host or the program's own words; empty if the output did not say."""


_LAST_BYTES = 40_000
_LONGEST_LINE = 1000
"""Longer lines are data, and searching them would take too long."""
_KILLED_FOR_A_CALL = 128 + 31
_PRIVATE = ("/tmp", "/var/tmp", "/run")
_OF_THE_KERNEL = ("/proc", "/sys", "/dev")
_READ_ONLY = re.compile(
    r"read-only file ?system['\"]?[.)]?\s*$|\bEROFS\b|\[Errno 30\]|\(os error 30\)|Read-only file system:|"
    r"read-only file system \(os|Read-only file system(?= *['\"(\[]|$)|Read-only file system at \S+ line"
    r"|Read-only file system\) ->",
    re.I,
)
_REFUSED = re.compile(
    r"(?:permission denied|operation not permitted)(?:['\")\].,]|\s*$|: )|\bEACCES\b|\bEPERM\b|\[Errno 1(?:3)?\]"
    r"|\(os error 1(?:3)?\)|unable to open database|attempt to write a readonly database",
    re.I,
)
_BUSY = re.compile(r"device or resource busy|\bEBUSY\b|resource busy or locked", re.I)
_ABSENT = re.compile(r"no such file or directory|\bENOENT\b|cannot access|does not exist", re.I)
_OF_FILES = (
    *(
        "read-only file",
        "readonly database",
        "unable to open database",
        "erofs",
        "errno 30",
        "os error 30",
        "busy",
    ),
    *("permission denied", "not permitted", "eacces", "eperm", "errno 1", "os error 1", "cannot access"),
)
"""Words of an error about a file, in lower case."""
_PRIVILEGE = re.compile(
    r'"?no new privileges"? flag is set|must be owned by uid 0 and have the setuid bit set|must be setuid root'
    r"|effective uid is not 0, is|^su: cannot set groups: Operation not permitted",
    re.I,
)
_NAMESPACE = re.compile(
    r"^bwrap: (.*)|^unshare: unshare failed: (Operation not permitted)|(No usable sandbox!)"
    r"|(?:Failed to move to new namespace)|cannot clone: (Operation not permitted)|^nsenter: .*(not permitted)",
    re.M,
)
_SYSCALL = re.compile(
    r"(PTRACE_\w+)[^\n]*(?:Operation not permitted|EPERM)|ptrace: (Operation not permitted)"
    r"|perf_event_open[^\n]*(Operation not permitted)|(Bad system call)|(No permission to enable \S+ event)",
    re.I,
)
_LEAK_CHECK_FAILED = re.compile("LeakSanitizer has encountered a fatal error")
_LEAK_CHECK = "of LeakSanitizer (ASAN_OPTIONS=detect_leaks=0 runs all other checks)"
_HOST = r"['‘\"(]?(?:[a-z+]+://)?(?:[^\s/@'\"]*@)?([A-Za-z0-9_.-]*[A-Za-z0-9](?::\d+)?)"
_NETWORK = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"could not resolve (?:host|hostname|proxy):? {_HOST}",
        rf"unable to access {_HOST}[^\n]*(?:could not resolve|failed to connect|unreachable)",
        rf"getaddrinfo (?:EAI_AGAIN|ENOTFOUND|EAI_FAIL) {_HOST}",
        rf"(?:EAI_AGAIN|ENETUNREACH|ENOTFOUND)[^\n]*?(?:connect|for|to) {_HOST}",
        rf"(?:lookup|resolving) {_HOST}[^\n]*(?:no such host|misbehaving|failure|unreachable|server|refused)",
        rf"temporary failure resolving {_HOST}",
        r"(?:HTTPS?ConnectionPool|HTTPS?Connection)\(host='([^']+)'[^\n]*(?:resol|unreachable|NewConnection)",
        rf"(?:could not|unable to|cannot) resolve (?:host address |the host |address |host )?{_HOST}",
        r"(\d+(?:\.\d+){3})\[\d+: [^\n]*network is unreachable",
        rf"connect(?: to|ing to)? (?:host )?{_HOST}[^\n]*(?:network is unreachable|ENETUNREACH)",
        rf"dial tcp {_HOST}[^\n]*network is unreachable",
        r"No matching distribution found for()",
        rf"can't checkout from {_HOST}[^\n]*you are in the offline mode",
        r"(?:you're using offline mode \(--offline\)|make an HTTP request, but --offline was specified)()",
        r"_socket\.socket\.__init__[^\n]*\n(?:[ ^~]*\n)?(?:E +)?PermissionError: \[Errno 1\]()",
        r"\b(?:listen|connect) EPERM(?:: operation not permitted)? (?:\d+(?:\.\d+){3}|[0-9a-f]*:[0-9a-f]*:)()",
        r"\bsocket: operation not permitted()",
        r"(?:failed to (?:fetch|download|get))[^\n]*?https?://([A-Za-z0-9.-]+)[^\n]*(?:dns|resol|unreachable|connect)",
        r"(?:temporary failure in name resolution|name or service not known|network is unreachable|EAI_AGAIN"
        r"|failed to lookup address information|NameResolutionError|could not resolve|getaddrinfo failed"
        r"|dns error|no address associated with hostname|Name does not resolve)()",
    )
)
_KEYS_OF_SIGNERS = ((re.compile(r"gpg failed to sign the data|gpg: signing failed"), "/.gnupg"),)
_KEYS = (
    (re.compile(r"could not read (?:Username|Password) for '[^'\n]*': terminal prompts disabled"), ""),
    (re.compile(r"Permission denied \([\w,-]*publickey[\w,-]*\)|Host key verification failed"), "/.ssh"),
    *_KEYS_OF_SIGNERS,
)
"""What programs say that got none of the user's keys, or know no host, and the folder without which the sandbox is
not to blame."""
_NO_FOLDER = re.compile(
    r"Failed to create parent directories for tracking file (/\S+)"
    r"|Could not create local repository at (/\S+)"
    r"|(/\S+\.part\.lock) \(No such file or directory\)"
    r"|ENOENT: no such file or directory, mkdir '(/[^']+)'"
)
"""What Maven and Node say of a file system that is read-only, if a folder with those above it cannot be made."""
_WARNING = re.compile(r"\W{0,3}(?:npm |yarn |pnpm )?warn(?:ing)?\b", re.I)
_DOCKER = re.compile(r"Cannot connect to the Docker daemon at unix://(/\S+?)\.?(?:\s|$)")
_OURSELVES = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|0\.0\.0\.0)(?::\d+)?", re.I)
_QUOTED = re.compile(r"['‘\"“`]([^'’\"”`\n]{1,400})['’\"”`]")
_BARE = re.compile(r"(?<![\w.~'\"-])((?:~?/|\.{1,2}/|[\w.-]+/)[^\s'\"’`:;,()\[\]<>]*)")
_BEFORE_COLON = re.compile(r"(?:^|: )([^\s:'\"][^:'\"\n]*?)(?=: [^:\n]+$)")
_SPEAKER = re.compile(r"^(?:[^\s:]+: (?:line )?\d+: |/\S*bin/[^\s:]+: )")
"""The prefix that names the speaker: a shell with a line number, or a program by its path."""


def detect_denial(
    exit_code: int,
    output: str,
    confinement: Confinement,
    cwd: str,
    may: Callable[[str, int], bool] = os.access,
) -> Denial | None:
    """Return the cause of a command's failure if that was the sandbox.

    `output` holds stdout and stderr; `may` has the signature of `os.access` and answers as it would outside the
    sandbox.
    """
    if exit_code == 0:
        return None
    lines = _lines(output)
    text = "\n".join(lines)
    return (
        _call(exit_code, text)
        or _privilege(text)
        or (_network(text) if confinement.network == "none" else None)
        or next(_files(lines, confinement, cwd, may), None)
        or _keys(text, confinement)
    )


def detect_denied_part(
    output: str, confinement: Confinement, cwd: str, may: Callable[[str, int], bool] = os.access
) -> Denial | None:
    """Return what the sandbox denied to a part of a command that succeeded. Only an error that names the
    file counts, or LeakSanitizer's own message that it cannot run."""
    if _LEAK_CHECK_FAILED.search(output[-_LAST_BYTES:]):
        return Denial("syscall", _LEAK_CHECK)
    said = output[-_LAST_BYTES:].lower()
    if not any(word in said for word in _OF_FILES):
        return None
    lines = _lines(output)
    return next((each for each in _files(lines, confinement, cwd, may) if each.subject), None)


def _lines(output: str) -> list[str]:
    return [line for line in output[-_LAST_BYTES:].splitlines() if len(line) <= _LONGEST_LINE]


def _call(exit_code: int, text: str) -> Denial | None:
    if exit_code == _KILLED_FOR_A_CALL:
        return Denial("syscall")
    if _LEAK_CHECK_FAILED.search(text):
        return Denial("syscall", _LEAK_CHECK)
    if found := _SYSCALL.search(text):
        return Denial("syscall", found.group(0).strip()[:120])
    if found := _NAMESPACE.search(text):
        return Denial("namespace", found.group(0).strip()[:200])
    return None


def _privilege(text: str) -> Denial | None:
    found = _PRIVILEGE.search(text)
    return Denial("privilege", found.group(0)) if found else None


def _network(text: str) -> Denial | None:
    for pattern in _NETWORK:
        for found in pattern.finditer(text):
            host = found.group(1) or ""
            if not _OURSELVES.fullmatch(host):
                return Denial("network", host)
    return None


def _keys(text: str, confinement: Confinement) -> Denial | None:
    usual = _KEYS if confinement.network == "open" else _KEYS_OF_SIGNERS
    for pattern, folder in usual:
        if pattern.search(text) and any(folder in path for path in confinement.hidden):
            return Denial("keys")
    return None


def _files(
    lines: list[str], confinement: Confinement, cwd: str, may: Callable[[str, int], bool]
) -> Iterator[Denial]:
    """Yield denials found in the output, last line first: the error a program prints last is the one that ended
    it."""
    unnamed: str | None = None
    for at, line in reversed(list(enumerate(lines))):
        read_only, refused, busy = _READ_ONLY.search(line), _REFUSED.search(line), _BUSY.search(line)
        absent = _ABSENT.search(line)
        if (found := _DOCKER.search(line)) and may(found.group(1), os.F_OK):
            yield Denial("network", found.group(1))
        if found := _NO_FOLDER.search(line):
            path = found[found.lastindex or 0]
            if _is_kept_from_writing(path, confinement, may, True):
                yield Denial("write", path)
        if not (read_only or refused or busy or absent) or _WARNING.match(line):
            continue
        paths = _paths(line, cwd)
        for path in paths:
            if (refused or absent) and _is_out_of_sight(path, confinement, may):
                yield Denial("read", path)
            elif (read_only or refused or busy) and _is_kept_from_writing(path, confinement, may, bool(read_only)):
                yield Denial("write", path)
        # A path relative to an unknown folder, or none at all: nothing writable is read-only.
        if read_only and all(is_inside(path, confinement.writable) for path in paths):
            near = [] if paths else lines[max(0, at - 3) : at]  # what an error in Rust says above its cause
            above = (path for each in reversed(near) for path in _paths(each, cwd))
            named = (path for path in above if _is_kept_from_writing(path, confinement, may, True))
            unnamed = unnamed or next(named, "")
    if unnamed is not None:
        yield Denial("write", unnamed)


def _paths(line: str, cwd: str) -> list[str]:
    """Return the absolute paths that an error line may be about, the last first: those before it name the speaker
    and the operation."""
    said = _SPEAKER.sub("", line)
    found = [
        (match.start(1), match.group(1))
        for pattern in (_QUOTED, _BARE, _BEFORE_COLON)
        for match in pattern.finditer(said)
    ]
    words = [word.strip().rstrip(".") for _, word in sorted(found, reverse=True)]
    return [
        os.path.normpath(os.path.join(cwd, os.path.expanduser(word)))
        for word in dict.fromkeys(words)
        if word and "\0" not in word and not word.startswith(("http:", "https:", "-"))
    ]


def _is_kept_from_writing(
    path: str, confinement: Confinement, may: Callable[[str, int], bool], is_read_only: bool
) -> bool:
    """Return True if a path is outside the writable folders although the user could write or create it."""
    if is_inside(path, confinement.writable):
        return _is_fixed(path, confinement) and _could_be_written(path, may)
    # Nothing in the private folder itself is read-only: that is a folder around a workspace in `/tmp`.
    private = bool(confinement.tmp) and is_inside(path, _PRIVATE[:2]) and not is_read_only
    return not is_inside(path, _OF_THE_KERNEL) and not private and _could_be_written(path, may)


def _is_fixed(path: str, confinement: Confinement) -> bool:
    return is_inside(path, confinement.read_only) or any(
        is_inside(fixed, (path,)) for fixed in confinement.read_only
    )


def _is_out_of_sight(path: str, confinement: Confinement, may: Callable[[str, int], bool]) -> bool:
    """Return True if a path exists and the user could read it, but the command sees nothing or something else
    there."""
    if is_inside(path, confinement.hidden):
        return may(path, os.R_OK)
    if is_inside(path, _PRIVATE) and path not in _PRIVATE:
        return not is_inside(path, (*confinement.writable, confinement.tmp)) and may(path, os.R_OK)
    return False


def _could_be_written(path: str, may: Callable[[str, int], bool]) -> bool:
    while not may(path, os.F_OK) and path != "/":
        path = os.path.dirname(path)
    return may(path, os.W_OK)
