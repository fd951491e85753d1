"""Escape untrusted text for the markup of forges, and find a location that every format can express."""

import json
import re
from typing import Any

from agent_cli.protocol.sanitize import clean, code_span, escape_json

from ..finding import Finding, Review
from ..placing import is_relative

LEVELS = ("error", "error", "warning", "notice")
"""Annotation levels by priority."""
_MARKS = re.compile(r"([\\`*_{}\[\]()#!|>~$^]|^[-+=]|(?<=^\d)[.)]|(?<=^\d\d)[.)])", re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]{1,200})\1(?!`)")
_ZERO_WIDTH = "\u200b"
_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)|\bGH-(?=\d)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)


def markdown(text: str) -> str:
    """Return text that Markdown renders literally: markup, HTML, links, images, mentions and references have no
    effect. Short code spans stay code, in which nothing has an effect either."""
    out, at = [], 0
    for found in _CODE.finditer(text):
        out += [_escaped(text[at : found.start()]), found.group()]
        at = found.end()
    return "".join((*out, _escaped(text[at:])))


def _escaped(text: str) -> str:
    lines = (line.strip() for line in clean(text).split("\n"))
    plain = "\n".join(lines) if "\n" in text else clean(text)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;")
    plain = _MARKS.sub(r"\\\1", plain)
    # Mentions and references are found in the rendered text, where a backslash is gone.
    return _REFERENCE.sub(lambda found: found.group() + _ZERO_WIDTH, plain)


def code(text: str) -> str:
    """Return text as a code span."""
    return code_span(clean(text).replace("\n", " "))


def place_of(finding: Finding, review: Review) -> tuple[str, int, int]:
    """Return a path and lines that every format can express: those of the finding, or the beginning of the first
    reviewed file if its path is not in the repository."""
    if is_relative(finding.path):
        return finding.path, finding.start_line, finding.end_line
    return next(iter(review.files), "unknown"), 1, 1


def stray(finding: Finding) -> str:
    """Return a note about a path that no format can express; empty for other paths."""
    return (
        ""
        if is_relative(finding.path)
        else f" (reported for {finding.path}, which is not a file of the repository)"
    )


def dumped(value: Any, *, indent: int | None = None) -> str:
    """Return JSON with a final line break that cannot control a terminal or a CI runner that prints it."""
    text = json.dumps(value, ensure_ascii=False, indent=indent).replace("##[", "#\\u0023[")
    return "\n".join(map(escape_json, text.split("\n"))) + "\n"
