"""Findings and reviews as values, and parsing of the JSON of an earlier review."""

from typing import Annotated, Any, Literal

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.stop_reason import StopReason, exit_code

Side = Literal["LEFT", "RIGHT"]
"""`RIGHT` is the reviewed text, `LEFT` the text before the change, used for removed lines."""
Introduced = Literal["new", "pre_existing", "unsure"]
Status = Literal["new", "still_open", "fixed", "dismissed"]
TargetKind = Literal["uncommitted", "base", "commit", "patch"]

LEAST_PRIORITY = 3
_LONGEST = 20_000
"""Maximum length of a text in an earlier review, in characters."""
_Text = Annotated[str, msgspec.Meta(max_length=_LONGEST)]
_Line = Annotated[int, msgspec.Meta(ge=1)]
_MOST_PREVIOUS = 5000
"""Maximum number of findings read from an earlier review."""


class Evidence(msgspec.Struct, frozen=True):
    """Evidence for a finding: a command and its output, code, or a test."""

    kind: Literal["command", "code", "test"]
    text: _Text


class Suggestion(msgspec.Struct, frozen=True):
    """A fix for a finding: replaces its lines, without a line break at the end."""

    replacement: _Text


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of a change."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    """Stable from one review to the next: derived from title, path and code, not from the line."""
    rule: _Text
    """The kind of problem, such as `error-handling`."""
    priority: Annotated[int, msgspec.Meta(ge=0, le=LEAST_PRIORITY)]
    """0 to 3; 0 is the most severe."""
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    """0 to 1."""
    title: _Text
    body: _Text
    path: _Text
    """Relative to the repository; as given if it names no file of the reviewed text."""
    start_line: _Line
    end_line: _Line
    side: Side = "RIGHT"
    in_diff: bool = True
    """True if all its lines are in one hunk of the diff, so that forges accept a comment on them."""
    introduced: Introduced = "new"
    evidence: tuple[Evidence, ...] = ()
    suggestion: Suggestion | None = None
    status: Status = "new"
    is_checked: bool = True
    """True if a second conversation has confirmed it."""

    @property
    def is_open(self) -> bool:
        """True if the finding is shown and counts."""
        return self.status in ("new", "still_open")

    @property
    def lines(self) -> str:
        """Its lines, such as `12` or `12-14`."""
        return f"{self.start_line}" if self.start_line == self.end_line else f"{self.start_line}-{self.end_line}"


class Refuted(msgspec.Struct, frozen=True):
    """A finding that its check has refuted."""

    finding: Finding
    reason: str


class Omitted(msgspec.Struct, frozen=True):
    """A file of the change that was not reviewed."""

    path: str
    reason: str
    is_gap: bool = False
    """True if the review is incomplete without it."""


class Target(msgspec.Struct, frozen=True):
    """The reviewed change."""

    kind: TargetKind
    words: str
    """Description, such as `the uncommitted changes`."""
    head: str
    """Hash of the commit that is reviewed, or on which the change is based; empty before the first commit."""
    base: str
    """Hash of the commit it is compared with; empty if there is none."""
    diff: str
    """Hash of the whole change, including binary files."""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a review."""

    target: Target
    findings: tuple[Finding, ...]
    """All except refuted findings, most severe first, including fixed and dismissed ones."""
    refuted: tuple[Refuted, ...] = ()
    files: tuple[str, ...] = ()
    """Paths of the files whose changes were reviewed."""
    omitted: tuple[Omitted, ...] = ()
    left_out: int = 0
    """Number of further findings beyond the requested number, not checked."""
    fail_on: int = LEAST_PRIORITY
    stop_reason: StopReason = "end_turn"
    signal: int = 0
    """The signal that stopped it, 0 for none."""
    error: str = ""
    """Why the review is incomplete."""
    passes: int = 0
    model: str = ""
    session_id: str = ""
    cost_usd: float | None = None
    duration_s: float = 0.0

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """The findings to show."""
        return tuple(each for each in self.findings if each.is_open)

    @property
    def is_complete(self) -> bool:
        """True if everything was reviewed, and every finding checked."""
        return self.stop_reason == "end_turn" and not self.error

    @property
    def exit_code(self) -> int:
        """8 if a finding reaches `fail_on`, unless the run failed for a more serious reason."""
        if self.signal:
            return 128 + self.signal
        has_failed = any(each.priority <= self.fail_on for each in self.open_findings)
        return exit_code(self.stop_reason, verified=not has_failed)

    def count(self, status: Status) -> int:
        """Return the number of findings with a status."""
        return sum(each.status == status for each in self.findings)


class PreviousError(ValueError):
    """A file is not an earlier review; the text says why."""


class _Earlier(msgspec.Struct, frozen=True):
    """The parts of an earlier review that the next one needs."""

    type: Literal["review"]
    findings: tuple[Finding, ...]


def earlier_findings(data: bytes) -> tuple[Finding, ...]:
    """Return the findings of an earlier review, from its JSON.

    Raises:
        PreviousError: the data is not a review.
    """
    try:
        found = decode_json(data, type=_Earlier).findings
    except msgspec.DecodeError as error:
        raise PreviousError(f"not the JSON of a review: {error}; write one with --format json -o FILE") from error
    if len(found) > _MOST_PREVIOUS:
        raise PreviousError(f"has {len(found):,} findings; at most {_MOST_PREVIOUS:,} are read")
    return found


def as_json(review: Review, version: str) -> dict[str, Any]:
    """Return a review as the value of `--format json`."""
    built: dict[str, Any] = msgspec.to_builtins(review)
    target = built.pop("target")
    del built["signal"]  # the exit code names it
    return {
        "type": "review",
        "version": version,
        "head": target["head"],
        "target": target,
        "complete": review.is_complete,
        "exit_code": review.exit_code,
        **built,
    }
