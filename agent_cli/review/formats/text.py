"""A review as plain text."""

from collections.abc import Iterator

from agent_cli.protocol.sanitize import clean

from ..finding import Finding, Review

_MOST_OMITTED = 10


def text_lines(review: Review) -> Iterator[str]:
    """Yield the lines of a review; none can control a terminal or a CI runner."""
    for line in _lines(review):
        yield without_commands(" ".join(clean(line).split("\n")))


def without_commands(text: str) -> str:
    """Escape the older commands of CI runners, which are recognized anywhere in a line; newer ones only at its
    beginning."""
    return text.replace("##[", "# #[")


def summary(review: Review) -> str:
    """Return a summary of a review in one line."""
    many = len(review.open_findings)
    found = "1 finding" if many == 1 else f"{many} findings" if many else "No findings"
    if not (review.files or review.findings):
        found = "Nothing to review"
    elif not many and not review.is_complete:
        found = "No findings so far"
    counts = [f"P{level}: {count}" for level in range(4) if (count := _count(review, level))]
    fixed = review.count("fixed")
    more = [
        *([", ".join(counts)] if counts else []),
        *([f"{fixed} fixed since the earlier review"] if fixed else []),
        *([f"{len(review.refuted)} refuted"] if review.refuted else []),
        *([f"{review.left_out} more not checked"] if review.left_out else []),
    ]
    return found + (f" ({'; '.join(more)})" if more else "")


def about_target(review: Review) -> str:
    """Return a description of the reviewed change in one line, with its hashes."""
    target = review.target
    head = f"HEAD {target.head[:12]}" if target.head else "no commit yet"
    return f"{target.words}, {head}, diff {target.diff[:12]}"


def incomplete(review: Review) -> str:
    """Return in one line why a review is incomplete; empty if it is complete."""
    if review.is_complete:
        return ""
    unchecked = sum(not each.is_checked for each in review.open_findings)
    more = f"; findings not checked: {unchecked}" if unchecked else ""
    return f"The review is INCOMPLETE ({review.stop_reason}): {review.error or 'it ended early'}{more}."


def _lines(review: Review) -> Iterator[str]:
    yield f"Reviewed: {about_target(review)}"
    why = incomplete(review)
    if why and review.open_findings:
        yield why
    for each in review.open_findings:
        yield ""
        yield from _finding(each)
    yield ""
    for omitted in review.omitted[:_MOST_OMITTED]:
        yield f"Not reviewed: {omitted.path}: {omitted.reason}"
    if (more := len(review.omitted) - _MOST_OMITTED) > 0:
        yield f"Not reviewed: {more} more files"
    yield f"{summary(review)}."
    if why:
        yield why


def _finding(finding: Finding) -> Iterator[str]:
    marks = [
        *(["not checked"] if not finding.is_checked else []),
        *(["still open"] if finding.status == "still_open" else []),
        *(["was there before"] if finding.introduced == "pre_existing" else []),
        *([] if finding.in_diff else ["outside the diff"]),
    ]
    about = f"  [{', '.join(marks)}]" if marks else ""
    yield f"P{finding.priority} {finding.path}:{finding.lines}  {finding.title}{about}"
    for line in finding.body.splitlines():
        yield f"   | {line}"
    for evidence in finding.evidence:
        first, *rest = evidence.text.splitlines() or [""]
        yield f"   {evidence.kind}: {first}"
        for line in rest:
            yield f"   |   {line}"
    if finding.suggestion is not None:
        yield "   suggested:"
        for line in finding.suggestion.replacement.split("\n"):
            yield f"   |   {line}"
    yield f"   id {finding.id}"


def _count(review: Review, level: int) -> int:
    return sum(each.priority == level for each in review.open_findings)
