"""Workflow commands of GitHub Actions: annotations on the lines of a pull request.

Source: GitHub Docs, "Workflow commands for GitHub Actions", and the escapes of actions/toolkit. GitHub shows at
most 10 errors, 10 warnings and 10 notices of a step.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from agent_cli.protocol.sanitize import clean

from ..finding import Review
from .inert import LEVELS, place_of, stray
from .text import about_target, incomplete, summary, without_commands

_MOST_SHOWN = 10
"""Maximum number of annotations of a level."""


def commands(review: Review) -> Iterator[str]:
    """Yield the commands of a review, one per line, most severe finding first. The last one summarizes the review
    and counts the findings without annotations."""
    shown: Counter[str] = Counter(notice=1)
    left = 0
    if why := incomplete(review):
        shown["error"] += 1
        yield command("error", {"title": "Incomplete review"}, why)
    for each in review.open_findings:
        level = LEVELS[each.priority]
        shown[level] += 1
        if shown[level] > _MOST_SHOWN:
            left += 1
            continue
        path, start, end = place_of(each, review)
        title = f"P{each.priority} {each.title}"
        about = {"file": path, "line": str(start), "endLine": str(end), "title": title}
        checked = "" if each.is_checked else " (not checked)"
        yield command(level, about, f"{each.body or each.title}{checked}{stray(each)}")
    more = f" {left} of them are not annotated here; the file of the review has all." if left else ""
    yield command(
        "notice", {"title": "agent review"}, f"{summary(review)}. Reviewed: {about_target(review)}.{more}"
    )


def command(name: str, properties: Mapping[str, str], message: str) -> str:
    """Return a workflow command; no text in it can start another one."""
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    return without_commands(clean(text)).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
