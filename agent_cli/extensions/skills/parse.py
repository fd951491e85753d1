"""Parser for skill files: whatever other agents load is loaded, and errors are noted.

Used only for files that are not cached.
"""

import os
from pathlib import Path
from typing import Any

from ..found_files import UnusableError, read_text
from ..front_matter import entries, first_line, one_line, read_front_matter
from ..places import callable_name
from .skill import LARGEST_BYTES, SkillHead, SkillText

_LONGEST_DESCRIPTION = 4_000
"""Maximum number of characters read of a description; the format allows 1,024."""


def parse_skill(content: bytes, path: str) -> SkillText:
    """Parse a skill's file."""
    if len(content) > LARGEST_BYTES:
        return SkillText(b"", "", SkillHead(problem=f"it is larger than {LARGEST_BYTES:,} bytes"))
    try:
        parts = read_front_matter(read_text(content), Path(path))
    except UnusableError as error:
        return SkillText(b"", "", SkillHead(problem=str(error)))
    body = parts.body.strip("\n")
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
        description = first_line(body)[:_LONGEST_DESCRIPTION]
        notes.append("it has no description; its first line stands in for it")
    return SkillHead(
        name,
        description,
        one_line(values.get("when_to_use") or values.get("when-to-use"))[:_LONGEST_DESCRIPTION],
        one_line(values.get("argument-hint")),
        tuple(entries(values.get("arguments"))),
        tuple(entries(values.get("allowed-tools"))),
        is_for_model=not _is_true(values.get("disable-model-invocation"), usual=False),
        is_offered=_is_true(values.get("user-invocable"), usual=True),
        notes=tuple(notes),
    )


def _is_true(value: Any, *, usual: bool) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "yes", "on", "1")
    return usual if value is None else bool(value)
