"""Read the log of `--debug` back."""

import json
import re
from pathlib import Path
from typing import Any

_DECODER = json.JSONDecoder()
_HEAD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (\w+)")
_NAME = re.compile(r" +(?:(\w+)=)")
_BARE = re.compile(r"[\w./:@+-]+")


def logged(path: Path) -> list[dict[str, Any]]:
    """Events and requests of a log; `body` and `added` of a request hold what stands below its line."""
    found: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if head := _HEAD.match(line):
            found.append({"type": head[1], **_fields(line, head.end())})
        elif added := re.match(r"    (?:messages|input)\+ ", line):
            found[-1].setdefault("added", []).append(json.loads(line[added.end() :]))
        else:
            found[-1].setdefault("body", {}).update(_fields(line, 0))
    return found


def _fields(line: str, at: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    while at < len(line):
        name = _NAME.match(line, at)
        assert name, line[at : at + 80]
        try:
            fields[name[1]], at = _DECODER.raw_decode(line, name.end())
        except json.JSONDecodeError:
            bare = _BARE.match(line, name.end())
            assert bare, line[at : at + 80]
            fields[name[1]], at = bare[0], bare.end()
    return fields
