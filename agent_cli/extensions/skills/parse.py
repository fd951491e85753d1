"""Parser for skill files: whatever other agents load is loaded, and errors are noted.

Used only for files that are not cached.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..front_matter import entries, one_line, read_front_matter
from ..names import callable_name
from .skill import LARGEST_BYTES, SkillHead, SkillText

_LONGEST_DESCRIPTION = 4_000
"""Maximum number of characters read of a description; the format allows 1,024."""


def parse_skill(content: bytes, path: str) -> SkillText:
    """Parse a skill's file."""
    if len(content) > LARGEST_BYTES:
        return SkillText(b"", "", SkillHead(problem=f"it is larger than {LARGEST_BYTES:,} bytes"))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return SkillText(b"", "", SkillHead(problem=f"it is not UTF-8 text (byte {error.start})"))
    parts = read_front_matter(text, Path(path))
    body = parts.body.replace("\r\n", "\n").strip("\n")
    return SkillText(
        content, body, _head(parts.values, body, os.path.basename(os.path.dirname(path)), parts.problem)
    )


def _head(values: dict[str, Any], body: str, folder: str, problem: str) -> SkillHead:
    notes = [problem] if problem else []
    given = one_line(values.get("name"))
    name = callable_name(given) or callable_name(folder)
    if not name:
        return SkillHead(problem="neither its name nor its folder's can be typed")
    if given and given != folder and name != callable_name(folder):
        notes.append(f"it is named {given}, and its folder {folder}")
    if given and name != given:
        notes.append(f"the name {given} can only be called as {name}")
    description = one_line(values.get("description"))[:_LONGEST_DESCRIPTION]
    if not description:
        description = _first_line(body)
        notes.append("it has no description; its first line stands in for it")
    return SkillHead(
        name,
        description,
        one_line(values.get("when_to_use") or values.get("when-to-use"))[:_LONGEST_DESCRIPTION],
        one_line(values.get("argument-hint")),
        tuple(_words(values.get("arguments"))),
        tuple(entries(values.get("allowed-tools"))),
        is_for_model=not _is_true(values.get("disable-model-invocation"), usual=False),
        is_offered=_is_true(values.get("user-invocable"), usual=True),
        notes=tuple(notes),
    )


def _first_line(body: str) -> str:
    line = next((line for line in body.split("\n") if line.strip()), "")
    return one_line(line.lstrip("#"))[:_LONGEST_DESCRIPTION]


def _words(value: Any) -> Sequence[str]:
    if isinstance(value, list):
        return [one_line(item) for item in value if one_line(item)]
    return one_line(value).replace(",", " ").strip("[]").split()


def _is_true(value: Any, *, usual: bool) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "yes", "on", "1")
    return usual if value is None else bool(value)
