"""Lists of diagnostics for other tools: reviewdog's rdjsonl, and GitLab's code quality report.

Sources: reviewdog, `proto/rdf/reviewdog.proto` (a range without columns consists of whole lines, the last
inclusive); GitLab Docs, "Code Quality", the report format. An incomplete review has an entry that says so, because
an empty list means a clean result.
"""

from collections.abc import Iterator
from typing import Any

from agent_cli.protocol.sanitize import one_line

from ..finding import Finding, Review
from .inert import markdown, place_of, stray
from .text import incomplete

_RDF = ("ERROR", "ERROR", "WARNING", "INFO")
_GITLAB = ("blocker", "critical", "major", "minor")
_INCOMPLETE = "incomplete-review"


def rdjsonl(review: Review) -> Iterator[dict[str, Any]]:
    """Yield the diagnostics of a review, one per line. Messages are Markdown, as a pull request shows it."""
    source = {"name": f"agent review {review.target.head[:12]}".strip()}
    if why := incomplete(review):
        yield {
            "message": markdown(why),
            "location": {"path": next(iter(review.files), "unknown")},
            "severity": "ERROR",
            "source": source,
            "code": {"value": _INCOMPLETE},
        }
    for each in review.open_findings:
        path, start, end = place_of(each, review)
        lines = {"start": {"line": start}, "end": {"line": end}}
        value: dict[str, Any] = {
            "message": _message(each),
            "location": {"path": path, "range": lines},
            "severity": _RDF[each.priority],
            "source": source,
            "code": {"value": each.rule},
        }
        if each.suggestion is not None:
            value["suggestions"] = [{"range": lines, "text": each.suggestion.replacement}]
        yield value


def _message(finding: Finding) -> str:
    title = f"**P{finding.priority}** {markdown(finding.title)}{markdown(stray(finding))}"
    return "\n\n".join(filter(None, (title, markdown(finding.body))))


def gitlab(review: Review) -> list[dict[str, Any]]:
    """Return a review as a code quality report."""
    report = []
    if why := incomplete(review):
        path = next(iter(review.files), "unknown")
        head = f"{review.target.head}{review.target.diff}"[:24]
        report.append(_issue(why, _INCOMPLETE, f"incomplete-{head}", "blocker", path, 1))
    for each in review.open_findings:
        path, start, _ = place_of(each, review)
        text = f"P{each.priority} {each.title}{stray(each)}: {each.body}".removesuffix(": ")
        report.append(_issue(text, each.rule, each.id, _GITLAB[each.priority], path, start))
    return report


def _issue(text: str, check: str, fingerprint: str, severity: str, path: str, line: int) -> dict[str, Any]:
    return {
        "description": one_line(text),
        "check_name": check,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }
