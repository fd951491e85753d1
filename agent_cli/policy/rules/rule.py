"""Permission rules: `shell(git diff *)`, `read(**/.env*)`, `write(src/**)`, `fetch(host)`, `mcp(server/tool)`,
`outside(docker ps)` for commands that run without the sandbox, or a bare name for everything of a kind. Each
rule records where it was written."""

import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Literal, get_args

import msgspec

from agent_cli.protocol.actions import canonical_host
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import usual_form

from .globs import covering, globs_meet
from .secret_paths import secret_patterns

Kind = Literal["shell", "outside", "read", "write", "fetch", "mcp"]
Effect = Literal["allow", "ask", "deny"]

BUILT_IN_PLACE = "built in"
"""Place of the default rules."""
_NAMES: dict[str, Kind] = {
    "shell": "shell", "outside": "outside", "read": "read", "write": "write", "fetch": "fetch", "mcp": "mcp",
    "read_file": "read", "grep": "read", "glob": "read", "list_dir": "read",
    "write_file": "write", "edit_file": "write", "edit": "write",
}  # fmt: skip
_HOST_AND_PORT = lazy_regex(r"(\[[^\]]*\]|[^:]*)(:\d+)?")
_NEXT_RULE = lazy_regex(r"(?<=\)); (?=(?:shell|outside)\()")
_FORM = lazy_regex(r"\s*([A-Za-z_]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


class RuleError(ValueError):
    """Malformed rule; the text gives the reason and the correct form."""


class Rule(msgspec.Struct, frozen=True):
    """A permission rule. An empty `pattern` covers everything of its kind."""

    effect: Effect
    kind: Kind
    pattern: str
    text: str
    """The rule as written."""
    place: str
    """Where it was written, such as `config.yaml:12` or `this session`."""

    def __str__(self) -> str:
        return f"{self.effect} {self.text} ({self.place})"


class Rules(tuple[Rule, ...]):
    """The rules in force, in the order in which they are looked at."""

    def of(self, effect: Effect, kind: Kind, *, built_in: bool = True) -> Sequence[Rule]:
        """Return the rules of an effect and a kind; without `built_in` only those that somebody wrote."""
        return self._groups.get((effect, kind, built_in), ())

    def closing(self, kind: Kind) -> Sequence[Rule]:
        """Return the rules of a kind that somebody wrote and that ask or deny."""
        return [*self.of("deny", kind, built_in=False), *self.of("ask", kind, built_in=False)]

    def first(self, effect: Effect, kind: Kind, texts: Sequence[str]) -> Rule | None:
        """Return the first rule of an effect and a kind that covers any of these commands, hosts or tools."""
        return next(
            (rule for rule in self.of(effect, kind) if any(matches_words(rule, text) for text in texts)), None
        )

    @cached_property
    def _groups(self) -> dict[tuple[Effect, Kind, bool], list[Rule]]:
        found: dict[tuple[Effect, Kind, bool], list[Rule]] = {}
        for rule in self:
            for built_in in (True,) if rule.place == BUILT_IN_PLACE else (True, False):
                found.setdefault((rule.effect, rule.kind, built_in), []).append(rule)
        return found


def join_rules(texts: Iterable[str]) -> str:
    """Return rules on commands as one text, `shell(a); shell(b)`, to be offered for one line."""
    return "; ".join(texts)


def split_rules(text: str) -> tuple[str, ...]:
    """Return the rules in a text of `join_rules`; a rule of another kind stays whole."""
    return tuple(_NEXT_RULE.split(text)) if text.startswith(("shell(", "outside(")) else (text,)


def parse_rule(text: str, effect: Effect, place: str) -> Rule:
    """Parse a rule.

    Raises:
        RuleError: unknown name, unclosed brackets, or a path pattern with `[`, `]`, `{` or `}`.
    """
    match = _FORM.fullmatch(text)
    name = match.group(1) if match else ""
    if match is None or name not in _NAMES:
        known = ", ".join(get_args(Kind))
        form = f"{text!r} is not a rule; write NAME or NAME(PATTERN) with NAME one of {known}"
        raise RuleError(form + _nearest(text if match is None else name))
    kind = _NAMES[name]
    pattern = (match.group(2) or "").strip()
    if kind in ("read", "write"):
        if odd := re.search(r"[][{}]", pattern):
            raise RuleError(f"{text!r} is not a rule: a path may hold `*`, `**` and `?`, but not `{odd.group()}`")
        pattern = pattern.rstrip("/") or pattern[:1]
    elif hint := _means_another(kind, pattern):
        raise RuleError(f"{text!r} would never match: {hint}")
    if kind == "fetch":
        pattern = _host_pattern(text, pattern)
    return Rule(effect, kind, "" if pattern in ("*", "**") else pattern, text.strip(), place)


def _means_another(kind: Kind, pattern: str) -> str:
    """Return what to write instead of a pattern in another program's syntax, which would never match here."""
    if kind in ("shell", "outside") and _NEXT_RULE.search(f"{pattern})"):
        return "these are several rules, write each as its own entry"
    if kind in ("shell", "outside") and pattern.endswith(":*"):
        return f"write {kind}({pattern[:-2]} *)"
    if kind == "fetch":
        host = re.sub(r"^[a-z]+://", "", pattern, flags=re.IGNORECASE).partition("/")[0]
        divided = _HOST_AND_PORT.fullmatch(host)
        name, port = (divided[1], divided[2]) if divided else (host, None)
        if host != pattern or (port and not re.fullmatch(r"localhost|[\d.]+", name, re.IGNORECASE)):
            return f"write the host only, fetch({name})"
    return ""


def _host_pattern(text: str, pattern: str) -> str:
    """Return the pattern of a host in the form of the hosts that it is compared with.

    Raises:
        RuleError: no host has this form.
    """
    divided = _HOST_AND_PORT.fullmatch(pattern)
    name, port = (divided[1], divided[2] or "") if divided else (pattern, "")
    try:
        if "*" not in name:
            return canonical_host(name) + port
        labels = name.lower().rstrip(".").split(".")
        if any("*" in label and not label.isascii() for label in labels):
            raise ValueError("no part of a label is written in another way")
        return ".".join(label if "*" in label else canonical_host(label) for label in labels)
    except ValueError as error:
        raise RuleError(f"{text!r} would never match: it is not the name or address of a host") from error


_FOREIGN: dict[str, Kind] = {
    "bash": "shell", "run": "shell", "exec": "shell", "command": "shell", "cmd": "shell", "execute": "shell",
    "webfetch": "fetch", "web": "fetch", "url": "fetch", "network": "fetch", "unsandboxed": "outside",
    "view": "read", "cat": "read", "create": "write", "multiedit": "write", "notebookedit": "write",
}  # fmt: skip
"""Names of these kinds in other programs."""


def _nearest(name: str) -> str:
    """Return a hint naming the kind that was probably meant."""
    from difflib import get_close_matches

    word = re.match(r"\s*([A-Za-z_]*)", name)
    written = word.group(1).lower() if word else ""
    near = get_close_matches(written, [*get_args(Kind), *_FOREIGN], n=1, cutoff=0.6)
    if not near:
        return ""
    kind = _FOREIGN.get(near[0], near[0])
    return f"; did you mean `{kind}(...)`?" if written != kind else ""


@lru_cache(maxsize=1024)
def _words_regex(pattern: str) -> re.Pattern[str]:
    """Return an expression that takes linear time: the first place where a part fits is never given up."""
    tail = f"(?:{re.escape(' ')}.*)?" if pattern.endswith(" *") else ""
    first, *parts = map(re.escape, (pattern[:-2] if tail else pattern).split("*"))
    last = [f".*{parts.pop()}"] if parts else []
    return re.compile("".join([first, *(f"(?>.*?{part})" for part in parts), *last, tail]), re.DOTALL)


def matches_words(rule: Rule, text: str) -> bool:
    """Return True if a rule covers a simple command, host or `server/tool`. `*` matches anything."""
    return not rule.pattern or _words_regex(rule.pattern).fullmatch(text) is not None


def matches_path(rule: Rule, path: str, root: str) -> bool:
    """Return True if a rule covers an absolute path. Patterns without a leading `/` or `~` start at the workspace
    root; a directory covers its content. For deny and ask rules case is ignored, as is the form of accents, spaces
    and apostrophes, `x/**` covers `x`, and a link covers its target."""
    if not rule.pattern:
        return True
    fold = rule.effect != "allow"
    paths = (path,) if path.isascii() or not fold else dict.fromkeys((path, usual_form(path)))
    return any(covering(pattern, fold)(each) for pattern in path_patterns(rule, root) for each in paths)


def may_match_path(rule: Rule, glob: str, root: str) -> bool:
    """Return True if an absolute shell glob may match a path that a rule covers. Built-in patterns name files, so
    nothing is below them unless they end in `/**`."""
    is_built_in = rule.place == BUILT_IN_PLACE
    if is_built_in and _is_far(glob.rsplit("/", 1)[-1], rule.pattern.rsplit("/", 1)[-1]):
        return False
    below = not is_built_in or rule.pattern.endswith("/**")
    if not rule.pattern or ".." in glob.split("/"):
        return True
    return any(globs_meet(glob, pattern, below) for pattern in path_patterns(rule, root))


def _is_far(glob: str, pattern: str) -> bool:
    """Return True if a glob meets the file name of a pattern only because both are nearly unrestricted, such as
    `*.py` and `id_rsa*`, which `id_rsa.py` would match."""
    if "*" not in pattern[1:] or pattern == "**":
        return False
    begins, wanted = re.split(r"[*?[]", glob)[0].lower(), pattern.split("*")[0].lower()
    return not (begins and wanted and (wanted.startswith(begins) or begins.startswith(wanted)))


@lru_cache(maxsize=1024)
def absolute_pattern(rule: Rule, root: str) -> str:
    """Return the pattern of a path rule in the absolute form used for matching."""
    pattern = os.path.expanduser(rule.pattern)
    if rule.effect != "allow":
        pattern = pattern.removesuffix("/**") or pattern
    if pattern.startswith("**/"):
        return f"/{pattern}"
    if not pattern.startswith("/"):
        pattern = pattern.removeprefix("./")
        pattern = f"{root.rstrip('/')}/{pattern}" if pattern not in (".", "") else root
    return pattern


BUILT_IN: tuple[Rule, ...] = tuple(
    parse_rule(f"read({path})", "ask", BUILT_IN_PLACE) for path in secret_patterns()
)
"""Files that usually hold secrets are read only with the user's approval."""


@lru_cache(maxsize=1024)
def path_patterns(rule: Rule, root: str) -> tuple[str, ...]:
    """Return the absolute pattern of a rule. For a deny or ask rule add the form with links in its fixed part
    resolved, because paths are judged in their real form, and the usual form of both."""
    written = absolute_pattern(rule, root)
    if rule.effect == "allow":
        return (written,)
    folder, _ = fixed_part(written)
    real = folder if folder in ("/", root) else os.path.realpath(folder)
    found = (written, real + written[len(folder) :] if real != folder else written)
    return tuple(dict.fromkeys((*found, *map(usual_form, found))))


@lru_cache(maxsize=1024)
def fixed_part(pattern: str) -> tuple[str, bool]:
    """Return the fixed folder or file at the start of an absolute pattern, and True if a wildcard follows."""
    parts = pattern.split("/")
    fixed = next((at for at, part in enumerate(parts) if "*" in part or "?" in part), len(parts))
    return "/".join(parts[:fixed]) or "/", fixed < len(parts)
