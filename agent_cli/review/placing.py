"""Convert a model's reports to findings with a location: arbitrary paths and lines become existing ones, or are
marked."""

import ast
import os
import posixpath
import warnings
from typing import Literal

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.sanitize import clean, clip, one_line, visible, visible_line
from agent_cli.redaction.redactor import PLACEHOLDER

from .finding import LEAST_PRIORITY, Evidence, Finding, Introduced, Side, Suggestion
from .fingerprint import enclosing, fingerprint
from .git_reader import GitReader
from .material import Material

_LONGEST_TITLE = 120
_LONGEST_BODY = 4000
_LONGEST_EVIDENCE = 2000
_MOST_EVIDENCE = 5
_LONGEST_PATH = 500
_LONGEST_REPLACEMENT = 10_000
_RULE = lazy_regex(r"[a-z][a-z0-9]*(?:-[a-z0-9]+){0,5}")
_DRIVE = lazy_regex(r"[A-Za-z]:[\\/]")


class ReportedSuggestion(msgspec.Struct, frozen=True):
    """A fix as reported by the model; `original` must be the text of its lines."""

    original: str
    replacement: str


class ReportedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding as reported by the model."""

    title: str
    body: str
    priority: int
    confidence: float
    path: str
    start_line: int
    end_line: int
    side: Side = "RIGHT"
    introduced: Introduced = "unsure"
    rule: str = ""
    evidence: tuple[Evidence, ...] = ()
    suggestion: ReportedSuggestion | None = None


class Placer:
    """Locates findings in the text of a review."""

    def __init__(self, git: GitReader, material: Material, folders: tuple[str, ...] = ()) -> None:
        """`folders` are the folders in which the model sees the files, in addition to the repository."""
        self._git = git
        self._material = material
        self._folders = (str(git.top), os.path.realpath(git.top), *folders)
        self._lines: dict[tuple[Side, str], list[str]] = {}
        self._around: dict[tuple[Side, str], list[str]] = {}
        """Cached results of `enclosing`."""

    async def lines(self, side: Side, path: str) -> list[str]:
        """Return the lines of a file, without line breaks; none if there is no such text."""
        known = self._lines.get((side, path))
        if known is None:
            tree = self._material.trees[side == "RIGHT"]
            text = await self._git.text(tree, path) if is_relative(path) else None
            known = self._lines[side, path] = (text or "").split("\n")
            if known[-1] == "":
                known.pop()
        return known

    def _enclosing(self, side: Side, path: str, lines: list[str]) -> list[str]:
        if (known := self._around.get((side, path))) is None:
            known = self._around[side, path] = enclosing(lines)
        return known

    async def placed(self, given: ReportedFinding) -> Finding:
        """Return a finding with an existing path and lines; if there are none it keeps the given ones, and is
        marked as outside the diff."""
        path = self._path(given.path)
        side = given.side
        lines = await self.lines(side, path)
        if not lines and side == "LEFT":
            lines, side = await self.lines("RIGHT", path), "RIGHT"
        last = max(1, len(lines))
        start = min(max(1, given.start_line), last)
        end = min(max(start, given.end_line), last)
        exists = bool(lines) and (start, end) == (given.start_line, given.end_line)
        title = clip(one_line(given.title), _LONGEST_TITLE) or "Untitled"
        return Finding(
            id=fingerprint(title, path, lines, start, end, around=self._enclosing(side, path, lines)),
            rule=given.rule if _RULE.fullmatch(given.rule) else "general",
            priority=min(max(0, given.priority), LEAST_PRIORITY),
            confidence=min(max(0.0, given.confidence), 1.0),
            title=title,
            body=clip(clean(given.body), _LONGEST_BODY),
            path=path,
            start_line=start,
            end_line=end,
            side=side,
            in_diff=exists and self.in_diff(path, side, start, end),
            introduced=given.introduced,
            evidence=evidence_of(given.evidence),
            suggestion=self._suggestion(given.suggestion, path, lines, (start, end)) if exists else None,
            is_checked=False,
        )

    def in_diff(self, path: str, side: Side, start: int, end: int) -> bool:
        """Return True if lines are in one hunk of the diff."""
        change = self._material.diff_of(path)
        return change is not None and change.holds(side, start, end)

    async def moved(self, finding: Finding, path: str) -> tuple[Finding, bool]:
        """Return an earlier finding at the present position of its code, and True if that was found; otherwise it
        stays near its old position. `path` is the present name of its file."""
        lines = await self.lines(finding.side, path)
        around = self._enclosing(finding.side, path, lines)
        last = max(1, len(lines))
        height = max(0, finding.end_line - finding.start_line)
        near = sorted(range(1, last + 1 - min(height, last - 1)), key=lambda at: abs(at - finding.start_line))
        for at in near[:_MOST_PLACES]:
            found = fingerprint(finding.title, finding.path, lines, at, at + height, around=around)
            if found == finding.id:
                return self._at(finding, path, at, at + height, is_same=True), True
        start = min(max(1, finding.start_line), last)
        return self._at(finding, path, start, min(start + height, last), is_same=False), False

    def _at(self, finding: Finding, path: str, start: int, end: int, *, is_same: bool) -> Finding:
        return msgspec.structs.replace(
            finding,
            path=path,
            start_line=start,
            end_line=end,
            in_diff=self.in_diff(path, finding.side, start, end),
            suggestion=finding.suggestion if is_same else None,
        )

    def _path(self, given: str) -> str:
        """Return a path relative to the repository, if possible, else the given path, safe to print."""
        text = given.strip()
        for folder in self._folders:
            if text.startswith(f"{folder.rstrip('/')}/"):
                text = text[len(folder.rstrip("/")) + 1 :]
                break
        if is_relative(text):
            text = posixpath.normpath(text)
            bare = text.partition("/")[2]
            if text[:2] in ("a/", "b/") and not self._material.diff_of(text) and self._material.diff_of(bare):
                text = bare
        is_plain = visible(text) == text and "\n" not in text and len(text) <= _LONGEST_PATH
        return text if is_plain else clip(visible_line(text), _LONGEST_PATH)

    def _suggestion(
        self, given: ReportedSuggestion | None, path: str, lines: list[str], at: tuple[int, int]
    ) -> Suggestion | None:
        """Return a fix that fits the text exactly; None if it does not fit, or if it breaks the syntax of a Python
        file."""
        if given is None or len(given.replacement) > _LONGEST_REPLACEMENT:
            return None
        old, new = lines[at[0] - 1 : at[1]], given.replacement.removesuffix("\n").split("\n")
        told = given.original.removesuffix("\n").split("\n")
        if [line.rstrip() for line in told] != [line.rstrip() for line in old] or new == old:
            return None
        text = "\n".join(new)
        if visible(text) != text or "\r" in text or PLACEHOLDER.search(text):
            return None
        if path.endswith((".py", ".pyi")):
            whole = "\n".join((*lines[: at[0] - 1], *new, *lines[at[1] :], ""))
            if not _is_python(whole):
                return None
        return Suggestion(text)


_MOST_PLACES = 2000
"""Maximum number of positions searched for the code of an earlier finding."""


def is_relative(path: str) -> bool:
    """Return True if a path can be that of a file in a repository."""
    if not path or path.startswith(("/", "~")) or _DRIVE.match(path) or visible(path) != path or "\n" in path:
        return False
    return posixpath.normpath(path).partition("/")[0] != ".." and posixpath.normpath(path) != "."


def evidence_of(given: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """Return the evidence for a finding, safe to print."""
    return tuple(Evidence(each.kind, clip(clean(each.text), _LONGEST_EVIDENCE)) for each in given[:_MOST_EVIDENCE])


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


class ReportedVerdict(msgspec.Struct, frozen=True):
    """The answer of a check."""

    verdict: Literal["confirmed", "refuted"]
    reason: str
    evidence: tuple[Evidence, ...] = ()
