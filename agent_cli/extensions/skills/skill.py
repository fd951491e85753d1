"""A skill: a folder with a file `SKILL.md` whose front matter says what it is for.

Reading is lenient: what other agents load is loaded, and what is wrong with it is noted.
"""

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..front_matter import one_line, read_front_matter
from ..places import Place

FILE_NAMES = ("SKILL.md", "skill.md")
LARGEST_BYTES = 1_000_000
_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 4_000
"""Characters of a description that are looked at; the format allows 1,024."""
_ENTRY = re.compile(r"[^\s,()]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?")


class SkillHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the front matter of a skill says."""

    name: str = ""
    """As a command could be called; empty where there is none."""
    description: str = ""
    when_to_use: str = ""
    hint: str = ""
    """What to write behind its name."""
    arguments: tuple[str, ...] = ()
    """Names of its arguments, by position."""
    allowed_tools: tuple[str, ...] = ()
    """Calls that it wants allowed, in the words of other agents, such as `Bash(git *)`."""
    is_for_model: bool = True
    """False: only the user calls it (`disable-model-invocation`)."""
    is_offered: bool = True
    """False: completion does not offer it to the user (`user-invocable`)."""
    notes: tuple[str, ...] = ()
    """What is wrong with the file, and does not keep it from being used."""
    problem: str = ""
    """Why it cannot be used."""


class Skill(msgspec.Struct, frozen=True):
    """A skill that can be called."""

    name: str
    """By which it is called: its own, or behind what tells it from another of the same name, as `user:deploy`."""
    path: str
    """Of its file, without links."""
    place: Place
    head: SkillHead
    stamp: tuple[int, int, int]
    """Size, time and number of its file; others once it has changed."""

    @property
    def folder(self) -> str:
        """The folder it lies in, without links."""
        return os.path.dirname(self.path)

    @property
    def about(self) -> str:
        """What it does and when to use it."""
        return " ".join(filter(None, (self.head.description, self.head.when_to_use)))

    @property
    def is_of_project(self) -> bool:
        """Whether the project brought it, and not the user."""
        return self.place.origin == "project"

    @property
    def trust_place(self) -> str:
        """Under which the user's yes to its content is kept."""
        return f"{self.path}#skill"


class SkillText(msgspec.Struct, frozen=True):
    """A skill's file as it is now."""

    content: bytes
    body: str
    """Without its front matter."""
    head: SkillHead

    @property
    def text(self) -> str:
        """All of the file."""
        return self.content.decode("utf-8")


def parse_skill(content: bytes, path: str) -> SkillText:
    """Split a skill's file."""
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
        tuple(_entries(values.get("allowed-tools"))),
        is_for_model=not _is_true(values.get("disable-model-invocation"), usual=False),
        is_offered=_is_true(values.get("user-invocable"), usual=True),
        notes=tuple(notes),
    )


def callable_name(name: str) -> str:
    """Return a name as it can be typed: small letters, digits, `-` and `_`."""
    plain = re.sub(r"[^\w-]+", "-", unicodedata.normalize("NFKC", name).lower())
    plain = plain[:_LONGEST_NAME].strip("-_")
    return plain if re.search(r"[^\W\d_]", plain) else ""


def _first_line(body: str) -> str:
    line = next((line for line in body.split("\n") if line.strip()), "")
    return one_line(line.lstrip("#"))[:_LONGEST_DESCRIPTION]


def _words(value: Any) -> Sequence[str]:
    if isinstance(value, list):
        return [one_line(item) for item in value if one_line(item)]
    return one_line(value).replace(",", " ").strip("[]").split()


def _entries(value: Any) -> list[str]:
    """Return the calls of a list, or of a text in which blanks or commas part them."""
    texts = value if isinstance(value, list) else [value]
    return [entry for text in texts for entry in _ENTRY.findall(one_line(text).strip("[]"))]


def _is_true(value: Any, *, usual: bool) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "yes", "on", "1")
    return usual if value is None else bool(value)
