"""Access to full tool results: a result over the limit is saved in a file, one that was shortened or compacted
stays in the session, and both can be recalled by the id of the call."""

from collections.abc import Sequence
from pathlib import Path

from agent_cli.protocol.messages import AssistantMessage, Message, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, CompactionSaved
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.kit.output import bounded, keep_whole, opened_by, result_tokens, spill_path, was_cut

_MAX_LISTED = 30
_LEAST_CHARS = 400
"""Shorter results are not worth a line in a summary."""
_NOT_WHOLE = "[The full result is no longer stored with this session; the part that was shown follows]"


def truncate_result(text: str, context: ToolContext, call_id: str) -> str:
    """Return a result for the model: only head and tail if it is too long. The full text is then saved in a file,
    if possible."""
    if result_tokens(text) <= context.max_tokens():
        return text
    path = keep_whole(context.spill_dir, call_id, text, context.redactor)
    return bounded(text, context.max_tokens(), f"{opened_by(path)} or recall {call_id}" if path else "")


def recall_text(records: Sequence[AnyRecord], spill_dir: Path, identifier: str) -> tuple[str, str] | None:
    """Return the full text of a call's result or of a message, or what is left of it with a note; None if there is
    none with this id. The second value is the source of text that is untrusted and not marked: results are marked
    after their full text is saved."""
    result = next((each for each in records if isinstance(each, ToolResult) and each.call_id == identifier), None)
    if result is None:
        messages = (each for each in records if isinstance(each, UserMessage | AssistantMessage | CompactionSaved))
        found = next((each for each in messages if each.id == identifier), None)
        if found is None:
            return None
        return found.summary if isinstance(found, CompactionSaved) else found.text, ""
    call_id = result.call_id
    try:
        return spill_path(spill_dir, call_id).read_text(encoding="utf-8", errors="replace"), result.untrusted
    except OSError:
        return f"{_NOT_WHOLE}\n{result.text}" if was_cut(result.text) else result.text, ""


def recallable(messages: Sequence[Message]) -> list[str]:
    """Return a line for each of the newest longer results: call id, tool, and the beginning of the arguments."""
    answers = (message for message in messages if isinstance(message, AssistantMessage))
    calls = {call.id: call for answer in answers for call in answer.calls}
    lines = [
        f"- {result.call_id}: {result.tool} {calls[result.call_id].arguments[:100]}"
        for result in messages
        if isinstance(result, ToolResult) and result.call_id in calls and len(result.text) >= _LEAST_CHARS
    ]
    return lines[-_MAX_LISTED:]
