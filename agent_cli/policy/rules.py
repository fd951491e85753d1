"""Permission rules: `shell(git diff *)`, `read(**/.env*)`, `write(src/**)`, `fetch(host)`,
`mcp(server/tool)`, or a bare name for all of a kind. A rule knows where it was written."""

import os
import re
from functools import lru_cache
from typing import Literal

import msgspec

from .globs import globs_meet

Kind = Literal["shell", "read", "write", "fetch", "mcp"]
Effect = Literal["allow", "ask", "deny"]

_NAMES: dict[str, Kind] = {
    "shell": "shell", "read": "read", "write": "write", "fetch": "fetch", "mcp": "mcp",
    "read_file": "read", "grep": "read", "glob": "read", "list_dir": "read",
    "write_file": "write", "edit_file": "write", "edit": "write",
}  # fmt: skip
_FORM = re.compile(r"\s*([A-Za-z_]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


class RuleError(ValueError):
    """A rule that cannot be read; the text says why and what a rule looks like."""


class Rule(msgspec.Struct, frozen=True):
    """One rule. An empty `pattern` covers everything of its kind."""

    effect: Effect
    kind: Kind
    pattern: str
    text: str
    """As written."""
    place: str
    """Where it was written, such as `config.yaml:12` or `this session`."""

    def __str__(self) -> str:
        return f"{self.effect} {self.text} ({self.place})"


def parse_rule(text: str, effect: Effect, place: str) -> Rule:
    """A rule from its text.

    Raises:
        RuleError: unknown name, brackets that do not close, or a path pattern with `[`, `]`, `{` or `}`.
    """
    match = _FORM.fullmatch(text)
    name = match.group(1) if match else ""
    if match is None or name not in _NAMES:
        known = ", ".join(("shell", "read", "write", "fetch", "mcp"))
        raise RuleError(f"{text!r} is not a rule; write NAME or NAME(PATTERN) with NAME one of {known}")
    kind = _NAMES[name]
    pattern = (match.group(2) or "").strip()
    if kind in ("read", "write"):
        if odd := re.search(r"[][{}]", pattern):
            raise RuleError(f"{text!r} is not a rule: a path may hold `*`, `**` and `?`, but not `{odd.group()}`")
        pattern = pattern.rstrip("/") or pattern[:1]
    return Rule(effect, kind, "" if pattern in ("*", "**") else pattern, text.strip(), place)


@lru_cache(maxsize=1024)
def _words_regex(pattern: str) -> re.Pattern[str]:
    body = "".join(".*" if char == "*" else re.escape(char) for char in pattern)
    if pattern.endswith(" *"):
        body = f"{body[: -len(re.escape(' ') + '.*')]}(?:{re.escape(' ')}.*)?"
    return re.compile(body, re.DOTALL)


def matches_words(rule: Rule, text: str) -> bool:
    """Whether a rule's pattern covers a simple command, host or `server/tool`. `*` stands for anything."""
    return not rule.pattern or _words_regex(rule.pattern).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _path_regex(pattern: str, fold: bool) -> re.Pattern[str]:
    body = []
    rest = pattern
    while rest:
        if rest.startswith("**/"):
            body.append("(?:.*/)?")
            rest = rest[3:]
        elif rest.startswith("**"):
            body.append(".*")
            rest = rest[2:]
        elif rest[0] == "*":
            body.append("[^/]*")
            rest = rest[1:]
        elif rest[0] == "?":
            body.append("[^/]")
            rest = rest[1:]
        else:
            body.append(re.escape(rest[0]))
            rest = rest[1:]
    return re.compile("".join(body) + "(?:/.*)?", re.DOTALL | (re.IGNORECASE if fold else 0))


def matches_path(rule: Rule, path: str, root: str) -> bool:
    """Whether a rule's pattern covers an absolute path. Patterns without a leading `/` or `~` start at the
    workspace root; a directory covers what is in it; deny and ask rules ignore case, and `x/**` covers `x`."""
    if not rule.pattern:
        return True
    return _path_regex(_absolute(rule, root), rule.effect != "allow").fullmatch(path) is not None


def may_match_path(rule: Rule, glob: str, root: str) -> bool:
    """Whether a shell's glob, made absolute, may stand for a path that a rule covers. The built-in patterns
    name files, so nothing lies below them unless they end in `/**`."""
    below = rule.place != "built in" or rule.pattern.endswith("/**")
    return not rule.pattern or ".." in glob.split("/") or globs_meet(glob, _absolute(rule, root), below)


@lru_cache(maxsize=1024)
def _absolute(rule: Rule, root: str) -> str:
    pattern = os.path.expanduser(rule.pattern)
    if rule.effect != "allow":
        pattern = pattern.removesuffix("/**") or pattern
    if pattern.startswith("**/"):
        return f"/{pattern}"
    if not pattern.startswith("/"):
        pattern = pattern.removeprefix("./")
        pattern = f"{root.rstrip('/')}/{pattern}" if pattern not in (".", "") else root
    return pattern
