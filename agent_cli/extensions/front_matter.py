"""Parser for the front matter of a Markdown file: the YAML between two lines of `---` at its start.

Many files contain almost-YAML, such as `argument-hint: [file] [line]` or a description with a colon, or one that
goes on in further lines with examples in tags. Front matter that is not valid YAML is read key by key.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.layer import ConfigError
from agent_cli.config.yaml_file import load_yaml
from agent_cli.protocol.lazy_regex import lazy_regex

_ENTRY = lazy_regex(r"[^\s,()]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?")

_KEY = lazy_regex(r"([\w-]+)[ \t]*:(?!//)[ \t]*(.*)")
_TAGGED = lazy_regex(r"^<(\w+)>.*?^</\1>", re.DOTALL | re.MULTILINE)
_BLOCK_MARK = lazy_regex(r"[|>][-+0-9]*")

_LONGEST = 16_000
"""Maximum length of the front matter in characters."""
_BLOCK = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)

_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n[\w-]+[ \t]*:")
_PLACE = re.compile(r"(?::(\d+))?:? ?(?:not valid YAML: )?(.*)", re.DOTALL)


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
        is_open = _OPENING.match(text) is not None
        return FrontMatter({}, text, "its front matter has no second line of ---" if is_open else "")
    block, body = found.group(1), text[found.end() :]
    if len(block) > _LONGEST:
        return FrontMatter({}, body, f"its front matter is longer than {_LONGEST:,} characters")
    try:
        values, _ = load_yaml(f"\n{block}", path)  # an error has its line in the file
    except ConfigError as error:
        return FrontMatter(_key_by_key(block, path), body, _problem(str(error).removeprefix(str(path))))
    if not isinstance(values, dict):
        return FrontMatter({}, body, "its front matter holds no keys" if block.strip() else "")
    return FrontMatter({str(key): value for key, value in values.items()}, body)


def _problem(message: str) -> str:
    """Return what is wrong in YAML as a note on its file, which names the file."""
    line, what = _PLACE.match(message).groups()  # type: ignore[union-attr]  # it matches any text
    return f"its front matter is not valid YAML: {f'line {line}: ' if line else ''}{what}"


def _key_by_key(block: str, path: Path) -> dict[str, Any]:
    """Return the values of front matter that is not valid YAML as a whole. Lines that begin no key belong to the
    key above them, and so do those between tags."""
    lines: dict[str, list[str]] = {}
    key = ""
    for line in _TAGGED.sub(lambda found: found[0].replace("\n", "\n  "), block).split("\n"):
        if begun := _KEY.match(line):
            key = begun[1]
            lines[key] = [begun[2].strip()]
        elif key and not line.startswith("#"):
            lines[key].append(line.rstrip())
    return {key: _value(key, written, path) for key, written in lines.items()}


def _value(key: str, lines: list[str], path: Path) -> Any:
    """Return the value in the lines of one key: that of YAML for a list, a block or quoted text if these are
    valid, otherwise the text as it stands."""
    first, text = lines[0], "\n".join(lines).strip()
    if not text:
        return None
    if not first or first[0] in "[{|>\"'":
        try:
            values, _ = load_yaml("\n".join((f"{key}: {first}", *lines[1:])), path)
            return values[key]
        except (ConfigError, KeyError, TypeError):
            pass
    return (text.removeprefix(first) if _BLOCK_MARK.fullmatch(first) else text).strip().strip("\"'")


def entries(value: Any) -> list[str]:
    """Return the entries of a list, or of a text separated by spaces or commas, without quotes around them;
    parentheses protect their content."""
    texts = value if isinstance(value, list) else [value]
    found = (entry.strip("\"'") for text in texts for entry in _ENTRY.findall(one_line(text).strip("[]")))
    return [entry for entry in found if entry]


def one_line(value: Any) -> str:
    """Return a value on one line; a list is restored to the text `[file]`."""
    if isinstance(value, list):
        return "[" + " ".join(str(item) for item in value) + "]"
    return "" if value is None else " ".join(str(value).split())


def first_line(text: str) -> str:
    """Return the first line of a text that holds more than blanks and dashes, without the marks of a heading."""
    return one_line(next((line for line in text.split("\n") if line.strip("- \t\r")), "").strip().lstrip("#"))
