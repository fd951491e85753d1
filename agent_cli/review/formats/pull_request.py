"""The body of the request that posts a review: `POST /repos/{owner}/{repo}/pulls/{number}/reviews`.

Source: GitHub Docs, "REST API endpoints for pull request reviews". A single comment on a line outside the diff
makes the whole request fail, so such findings go into the body. Findings of an earlier review are not commented
again.
"""

import json
from typing import Any

from agent_cli.protocol.sanitize import fenced

from ..finding import Finding, Review
from .inert import code, markdown
from .text import about_target, incomplete, summary

MARKER = "<!-- agent-review "
"""Prefix of the body, by which a later run finds an earlier review."""
_MOST_COMMENTS = 60
_LONGEST_BODY = 60_000
"""Maximum length in characters; GitHub accepts 65,536."""
_MOST_OMITTED = 20


def pull_request_review(review: Review) -> dict[str, Any]:
    """Return the request body. Its event is COMMENT: it neither approves nor blocks."""
    inline = [each for each in review.open_findings if each.in_diff and each.status == "new"][:_MOST_COMMENTS]
    rest = [each for each in review.open_findings if each not in inline]
    return {
        "commit_id": review.target.head,
        "event": "COMMENT",
        "body": _body(review, rest),
        "comments": [_comment(each) for each in inline],
    }


def _comment(finding: Finding) -> dict[str, Any]:
    value: dict[str, Any] = {
        "path": finding.path,
        "line": finding.end_line,
        "side": finding.side,
        "body": _text(finding, has_place=True)[:_LONGEST_BODY],
    }
    if finding.start_line != finding.end_line:
        value |= {"start_line": finding.start_line, "start_side": finding.side}
    return value


def _body(review: Review, rest: list[Finding]) -> str:
    known = {
        "head": review.target.head,
        "diff": review.target.diff,
        "ids": [each.id for each in review.open_findings],
    }
    parts = [f"{MARKER}{json.dumps(known)} -->", f"**Review** of {markdown(about_target(review))}"]
    if why := incomplete(review):
        parts.append(f"**{markdown(why)}**")
    parts.append(f"{markdown(summary(review))}.")
    for title, chosen in (
        ("Still open", [each for each in rest if each.status == "still_open"]),
        ("Without a line in the diff", [each for each in rest if each.status == "new"]),
    ):
        if chosen:
            parts.append(f"### {title}")
            parts += [_text(each, has_place=False) for each in chosen]
    if review.omitted:
        rows = [f"- {code(each.path)}: {markdown(each.reason)}" for each in review.omitted[:_MOST_OMITTED]]
        more = len(review.omitted) - _MOST_OMITTED
        parts.append("\n".join(("Not reviewed:", "", *rows, *([f"- {more} more"] if more > 0 else []))))
    return _bounded(parts)


def _text(finding: Finding, *, has_place: bool) -> str:
    place = "" if has_place else f"{code(f'{finding.path}:{finding.lines}')} "
    marks = "" if finding.is_checked else " (not checked)"
    marks += " (was there before)" if finding.introduced == "pre_existing" else ""
    parts = [f"**P{finding.priority}** {place}{markdown(finding.title)}{marks}", markdown(finding.body)]
    parts += [fenced(each.text, "text") for each in finding.evidence]
    if has_place and finding.suggestion is not None and finding.side == "RIGHT":
        parts.append(fenced(finding.suggestion.replacement, "suggestion"))
    return "\n\n".join(filter(None, parts))


def _bounded(parts: list[str]) -> str:
    """Join the parts, omitting the last ones if the text would be too long."""
    kept, size = [], 0
    for part in parts:
        size += len(part) + 2
        if size > _LONGEST_BODY:
            kept.append("The rest is in the file of the review.")
            break
        kept.append(part)
    return "\n\n".join(kept)
