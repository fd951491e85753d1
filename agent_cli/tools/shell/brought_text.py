"""Whether a command prints text that others have written, by the programs it starts: `git log src/ssh` fetches
nothing. Apart from `shell`, because attached commands are examined in the same way. The room of tools knows no
parser of command lines; where this cannot be sure, every word counts as a program."""

from collections.abc import Iterator

from agent_cli.protocol.lazy_regex import lazy_regex

_BRING_TEXT = frozenset("curl wget gh glab lynx w3m httpie xh ssh ftp nc ncat telnet".split())
_WRAPPERS = frozenset(
    "sudo doas env exec command builtin time timeout nice ionice nohup setsid stdbuf xargs parallel watch eval"
    " find unbuffer torsocks proxychains proxychains4 strace flock sh bash zsh dash busybox docker podman"
    " script su tmux screen entr unshare chroot perl ruby node php awk gawk mawk expect".split()
)
"""Programs that run some of their words."""
_PYTHON = lazy_regex(r"python[\d.]*|pypy[\d.]*")
_UNSURE = lazy_regex(r"<<|#|\\[^\n]")
"""Here-documents, comments and escapes: the quotes in them are not those of the line."""
_WORD = lazy_regex(r"\w[\w.-]*")
_QUOTED = lazy_regex(r"'[^']*'|\"[^\"]*\"")
_RUNS = lazy_regex(r"\$\(|`")
_END = lazy_regex(r"([;&|(){}\n`]+)")
_BEFORE = lazy_regex(r"\w+\+?=\S*|!|if|then|else|elif|do|while|until")
"""What may come before the program of a command: assignments and words of the shell."""
_ABOUT = lazy_regex(r"\s*[\w.-]+ +(--version|--help|-[vV])( +2>)?\s*")
"""A program that only prints its version or its help."""
_HOSTS = lazy_regex(r"(?:https?://|@)(\[[0-9a-fA-F:]+\]|[\w.-]+)")
_OURSELVES = lazy_regex(r"localhost|127(?:\.\d+){3}|\[::1\]|0\.0\.0\.0")


def brings_text(command: str) -> str:
    """Return the source of untrusted text in a command's output; empty if it fetches none."""
    words = _WORD.findall(command)
    if _BRING_TEXT.isdisjoint(words):
        return ""
    possible = words if _UNSURE.search(command) else _programs(command)
    found = next((word for word in possible if word in _BRING_TEXT), "")
    hosts = _HOSTS.findall(command)
    is_ours = bool(hosts) and all(_OURSELVES.fullmatch(host) for host in hosts)
    return f"the output of {found}" if found and not is_ours else ""


def _programs(command: str) -> Iterator[str]:
    """Yield the names that may be programs of a line, all words if there is a wrapper."""
    parts = _END.split(_QUOTED.sub(lambda found: _opened(found.group()), command))
    for part, end in zip(parts[::2], [*parts[1::2], ""], strict=True):
        if end[:1] not in ("(", "{", "`") and _ABOUT.fullmatch(part):  # those begin more of its words
            continue
        words = iter(part.split())
        first = next((word for word in words if _BEFORE.fullmatch(word) is None), "")
        name = first.strip("'\"").rpartition("/")[2]
        yield name
        if name in _WRAPPERS or _PYTHON.fullmatch(name) or "$" in first:
            yield from _WORD.findall(command)
            return


def _opened(quoted: str) -> str:
    """Return a quoted text as one word, unless the shell runs something in it."""
    text = quoted[1:-1]
    if quoted[0] == '"' and _RUNS.search(text):
        return f'";{text};"'
    return text if _WORD.fullmatch(text.replace("/", "")) else "_"
