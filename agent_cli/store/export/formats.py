"""Export formats of a session: Markdown or HTML to read, JSON to import. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from agent_cli.protocol.records import AnyRecord, encode
from agent_cli.redaction.redactor import Redactor

Format = Literal["md", "json", "html"]
ENDINGS: dict[str, Format] = {".md": "md", ".markdown": "md", ".json": "json", ".html": "html", ".htm": "html"}

_KEPT = frozenset(
    {"id", "type", "turn_id", "call_id", "message_id", "session_id", "checkpoint", "through", "fold_id", "data",
     "signature", "media_type", "provider", "seen", "queued_ids", "call_ids", "turn_ids", "kept", "told", "mode"}
)  # fmt: skip
"""Fields with names, hashes and images: masking them would break the session and hide nothing."""
_OUTPUTS = frozenset({"text", "display"})


def exported(records: Sequence[AnyRecord], format: Format, agents: Mapping[str, str] | None = None) -> str:
    """Return the records of a session in a format. JSON is a session file, one record per line. `agents` maps
    session ids of sub-agents to their names."""
    if format == "json":
        return "[\n" + ",\n".join(encode(record).decode() for record in records) + "\n]\n"
    if format == "md":
        from .markdown import markdown_of
        from .transcript import transcript_of

        return markdown_of(transcript_of(records))
    from .html import page_of

    return page_of(records, agents or {})


def masked(records: Sequence[AnyRecord], redactor: Redactor) -> tuple[AnyRecord, ...]:
    """Return the records with secrets in all texts masked; in tool results also values assigned to names that
    suggest a secret."""
    return tuple(_masked(record, redactor) for record in records)


def _masked(record: AnyRecord, redactor: Redactor) -> AnyRecord:
    plain: dict[str, Any] = msgspec.to_builtins(record)
    of_tool = plain["type"] == "tool_result"

    def in_field(name: str, value: Any) -> Any:
        if name in _KEPT:
            return value
        return _mapped(value, lambda text: redactor.mask(text, assignments=of_tool and name in _OUTPUTS), in_field)

    shown = {name: in_field(name, value) for name, value in plain.items()}
    return record if shown == plain else msgspec.convert(shown, AnyRecord)


def _mapped(value: Any, mask: Callable[[str], str], in_field: Callable[[str, Any], Any]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {name: in_field(name, item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, mask, in_field) for item in value]
    return value
