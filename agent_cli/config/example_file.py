"""Generate `config.example.yaml` from the schema: every key at its default, with the schema's docstrings as
comments.
"""

import ast
from pathlib import Path
from typing import Any

import msgspec

from . import schema

_HEADER = """\
# Every configuration key of agent-cli at its default.
# Copy what you want to change to the file that `agent config path` names.
"""


def example() -> str:
    """Return the text of the file."""
    lines = [_HEADER.rstrip("\n"), ""]
    defaults = schema.Config()
    for field in msgspec.structs.fields(schema.Config):
        lines += _field(field.name, getattr(defaults, field.name), "Config", 0)
    return "\n".join(lines) + "\n"


def words(owner: str, name: str) -> str:
    """Return the docstring of a field in `schema.py`, in one line; empty if there is none."""
    return " ".join(_COMMENTS.get(f"{owner}.{name}", "").split())


def _field(name: str, default: Any, owner: str, depth: int) -> list[str]:
    indent = "  " * depth
    comment = _COMMENTS.get(f"{owner}.{name}", "")
    lines = [f"{indent}# {line}" for line in comment.splitlines()]
    if not isinstance(default, msgspec.Struct):
        return [*lines, f"{indent}{name}: {msgspec.json.encode(default).decode()}"]
    kind = type(default)
    about = [f"{indent}# {line.strip()}" for line in (kind.__doc__ or "").strip().splitlines() if depth == 0]
    lines += [*about, f"{indent}{name}:"]
    for field in msgspec.structs.fields(kind):
        lines += _field(field.name, getattr(default, field.name), kind.__name__, depth + 1)
    return lines


def _comments() -> dict[str, str]:
    """Return the field docstrings of `schema.py` by `Class.field`."""
    tree = ast.parse((Path(__file__).parent / "schema.py").read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, words in zip(owner.body, owner.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(words, ast.Expr):
                value = words.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    text = "\n".join(line.strip() for line in value.value.splitlines())
                    found[f"{owner.name}.{ast.unparse(field.target)}"] = text
    return found


_COMMENTS = _comments()
