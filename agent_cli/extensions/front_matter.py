"""Parser for the front matter of a Markdown file: the YAML between two lines of `---` at its start.

Many files contain almost-YAML, such as `argument-hint: [file] [line]` or a description with a colon. Front matter
that is not valid YAML is read line by line.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.layer import ConfigError
from agent_cli.config.yaml_file import load_yaml
from agent_cli.protocol.lazy_regex import lazy_regex

_ENTRY = lazy_regex(r"[^\s,()]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?")

_LONGEST = 16_000
"""Maximum length of the front matter in characters."""
_BLOCK = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)


class FrontMatter(msgspec.Struct, frozen=True):
    """The parts of a Markdown file."""

    values: dict[str, Any]
    body: str
    problem: str = ""
    """Why the front matter is invalid or unusable; empty if nothing is wrong."""


def read_front_matter(text: str, path: Path) -> FrontMatter:
    """Split a file's text; without front matter all of it is the body."""
    found = _BLOCK.match(text)
    if found is None:
        return FrontMatter({}, text)
    block, body = found.group(1), text[found.end() :]
    if len(block) > _LONGEST:
        return FrontMatter({}, body, f"its front matter is longer than {_LONGEST:,} characters")
    try:
        values, _ = load_yaml(block, path)
    except ConfigError as error:
        return FrontMatter(_line_by_line(block), body, f"its front matter is not valid YAML: {error}")
    if not isinstance(values, dict):
        return FrontMatter({}, body, "its front matter holds no keys" if block.strip() else "")
    return FrontMatter({str(key): value for key, value in values.items()}, body)


def _line_by_line(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.split("\n") if line[:1] not in (" ", "\t", "#"))
    return {key.strip(): value.strip().strip("\"'") for key, colon, value in pairs if colon}


def entries(value: Any) -> list[str]:
    """Return the entries of a list, or of a text separated by spaces or commas; parentheses protect their
    content."""
    texts = value if isinstance(value, list) else [value]
    return [entry for text in texts for entry in _ENTRY.findall(one_line(text).strip("[]"))]


def one_line(value: Any) -> str:
    """Return a value on one line; a list is restored to the text `[file]`."""
    if isinstance(value, list):
        return "[" + " ".join(str(item) for item in value) + "]"
    return "" if value is None else " ".join(str(value).split())


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank, without the marks of a heading."""
    return one_line(next((line for line in text.split("\n") if line.strip()), "").strip().lstrip("#"))
