"""Writes the methods into `docs/serve.md` from the types: `python docs/make_serve.py`. A test compares them."""

import sys
from pathlib import Path

import msgspec
from make_events import doc, notes_of, table

from agent_cli.protocol import client, operation_json, operations
from agent_cli.serve.app import methods
from agent_cli.serve.app.schema import schema
from agent_cli.serve.sessions import host

TARGET = Path(__file__).with_name("serve.md")
BEGIN = "<!-- Written by docs/make_serve.py from the types; do not edit below. -->\n"


def main() -> None:
    """Write the page."""
    TARGET.write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page: its first part as it stands, and the methods."""
    notes = notes_of(methods, client, host, operations, operation_json)
    first = TARGET.read_text(encoding="utf-8").partition(BEGIN)[0]
    parts = [first + BEGIN, "## Methods"]
    for name, each in methods.METHODS.items():
        parts += [f"### `{name}`", doc(each.params).rstrip(), table(each.params, notes)]
        if msgspec.structs.fields(each.result):
            parts += [f"Result: {_small(doc(each.result))}", table(each.result, notes)]
    parts += ["## Operations", _operations(notes), "## Values"]
    for kind in (client.Snapshot, client.RewindPoint, host.SavedSession):
        parts += [f"### {kind.__name__}", doc(kind).rstrip(), table(kind, notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _operations(notes: dict[tuple[str, str], str]) -> str:
    rows = ["Each takes `session_id` and its own fields, and answers `submission_id`.", ""]
    rows += ["| method | fields | |", "|---|---|---|"]
    methods_now = schema()["methods"]
    for name in operation_json.NAMES:
        params = methods_now[name]["params"]
        fields = ", ".join(f"`{field}`" for field in params["properties"] if field != "session_id")
        rows.append(f"| `{name}` | {fields} | {methods_now[name]['description']} |")
    return "\n".join([*rows, "", "### Decision", "", doc(operations.Decision), table(operations.Decision, notes)])


def _small(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip()


if __name__ == "__main__":
    sys.exit(main())
