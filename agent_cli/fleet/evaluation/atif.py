"""Convert a session to a trajectory in the Agent Trajectory Interchange Format (ATIF v1.8, Harbor's RFC 0001).
Pure.

The conversion is complete: prompts with their attachments, answers, reasoning, tool calls and their results,
tokens and cost of each model call, compaction, undo, and the sessions of sub-agents. Unknown numbers are omitted.
Facts for which the format has no field are in `extra`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import AssistantMessage, Image, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import (
    AnyRecord,
    CompactionSaved,
    Header,
    ModelCalled,
    SettingsSet,
    TurnEnded,
    TurnsUndone,
    header_of,
)
from agent_cli.protocol.usage import NON_CONVERSATION_KINDS
from agent_cli.session.costs import totals_of
from agent_cli.session.undo_state import taken_back

SCHEMA_VERSION = "ATIF-v1.8"
Children = Mapping[str, Sequence[Sequence[AnyRecord]]]
"""The sessions of sub-agents, by the id of the call that started them."""
_Step = dict[str, Any]


def trajectory(records: Sequence[AnyRecord], children: Children | None = None) -> dict[str, Any]:
    """Return the trajectory of a session, ready for JSON.

    Args:
        records: the session; the first one is its header.
        children: sessions of all descendant sub-agents.
    """
    header = header_of(records)
    known = children or {}
    steps = list(_steps(header, records, known)) or [_step(header, "system", "")]
    started = (known.get(record.call_id, ()) for record in records if isinstance(record, ToolResult))
    below = {child[0].id: trajectory(child, known) for each in started for child in each}
    name, _, version = header.created_by.partition(" ")
    return _present(
        schema_version=SCHEMA_VERSION,
        session_id=header.session_id,
        trajectory_id=header.session_id,
        agent=_present(
            name=name or "agent-cli",
            version=version or "unknown",
            model_name=header.model,
            extra=_present(type=header.agent_type, name=header.agent_name) or None,
        ),
        steps=[{"step_id": number, **step} for number, step in enumerate(steps, start=1)],
        final_metrics=_final(records, len(steps)),
        subagent_trajectories=list(below.values()) or None,
        extra=_present(
            cwd=header.cwd,
            mode=header.mode,
            forked_from=header.forked_from,
            ended=_ends(records),
        ),
    )


def _steps(header: Header, records: Sequence[AnyRecord], children: Children) -> Iterator[_Step]:
    results = {each.call_id: each for each in reversed(records) if isinstance(each, ToolResult)}
    undone = taken_back(records).messages
    effort, calls = header.effort, list[ModelCalled]()
    if header.system:
        yield _step(header, "system", header.system)
    for record in records[1:]:
        step: _Step | None = None
        match record:
            case ModelCalled() if record.kind not in NON_CONVERSATION_KINDS:
                calls.append(record)
            case SettingsSet():
                effort = record.effort
            case AssistantMessage():
                step = _answer(record, results, calls, children)
                step |= {"reasoning_effort": effort} if effort else {}
                calls = []
            case _:
                step = _said(record)
        if step is not None:
            if record.turn_id and record.turn_id in undone:
                step["extra"] = {**step.get("extra", {}), "undone": True}
            yield step


def _said(record: AnyRecord) -> _Step | None:
    """Return the step of a message that is not the model's."""
    match record:
        case UserMessage():
            parts = (record.context, *(f"{each.name}\n{each.text}" for each in record.attachments), record.text)
            text = "\n\n".join(part for part in parts if part)
            if record.origin == "human":
                return _step(record, "user", text, record.images)
            return _step(record, "system", text, record.images) | {"extra": {"origin": record.origin}}
        case CompactionSaved():
            sizes = {"tokens_before": record.before, "tokens_after": record.after}
            return _step(record, "system", record.summary) | {"extra": {"compaction": record.how, **sizes}}
        case TurnsUndone():
            extra = {"undone_turns": list(record.turn_ids), "what": record.what}
            return _step(record, "system", "Turns were undone.") | {"extra": extra}
        case TurnEnded(error=error) if error:
            return _step(record, "system", error) | {"extra": {"stop_reason": record.stop_reason}}
    return None


def _answer(
    message: AssistantMessage, results: Mapping[str, ToolResult], calls: Sequence[ModelCalled], children: Children
) -> _Step:
    thought = "\n\n".join(each.text for each in message.reasoning if each.text.strip())
    answered = [_observed(results[call.id], children) for call in message.calls if call.id in results]
    return _present(
        **_step(message, "agent", message.text),
        model_name=message.model or (calls[-1].model if calls else None),
        reasoning_content=thought or None,
        tool_calls=[_call(call) for call in message.calls] or None,
        observation={"results": answered} if answered else None,
        metrics=_metrics(calls) if calls else None,
        llm_call_count=len(calls) or None,
        extra={"finish": message.finish},
    )


def _call(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = decode_json(call.arguments)
    except msgspec.DecodeError:
        arguments = None
    whole = isinstance(arguments, dict)
    named = {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments if whole else {}}
    extra = {} if whole and not call.problem else _present(arguments=call.arguments, problem=call.problem)
    return {**named, "extra": extra} if extra else named


def _observed(result: ToolResult, children: Children) -> dict[str, Any]:
    refs = [
        {"trajectory_id": header.session_id, "session_id": header.session_id}
        for child in children.get(result.call_id, ())
        if isinstance(header := child[0], Header)
    ]
    return _present(
        source_call_id=result.call_id,
        content=_content(result.text, result.images),
        subagent_trajectory_ref=refs or None,
        extra=_present(
            status=result.status,
            duration_s=result.duration_s or None,
            exit_code=result.exit_code,
            untrusted=result.untrusted,
        ),
    )


def _metrics(calls: Sequence[ModelCalled]) -> dict[str, Any]:
    sums = totals_of(calls)
    extra = _present(
        cache_write_tokens=sums.cache_write,
        reasoning_tokens=sums.reasoning,
        duration_s=round(sum(call.duration_s for call in calls), 6) or None,
        failed_calls=[call.outcome for call in calls[:-1]] or None,
        cost_is_partial=True if sums.unpriced and sums.cost_usd is not None else None,
    )
    return _present(
        prompt_tokens=sums.sent,
        completion_tokens=sums.output,
        cached_tokens=sums.cache_read,
        cost_usd=sums.cost_usd,
        extra=extra or None,
    )


def _final(records: Sequence[AnyRecord], steps: int) -> dict[str, Any]:
    """Return the totals over all model calls of a session. The cost includes that of its sub-agents; their tokens
    are in their own trajectories."""
    calls = [record for record in records if isinstance(record, ModelCalled)]
    own, sums = totals_of(call for call in calls if call.kind != "subagent"), totals_of(calls)
    extra = _present(
        cache_write_tokens=own.cache_write,
        reasoning_tokens=own.reasoning,
        model_calls=own.requests,
        calls_of_unknown_cost=sums.unpriced or None,
    )
    return _present(
        total_prompt_tokens=own.sent,
        total_completion_tokens=own.output,
        total_cached_tokens=own.cache_read,
        total_cost_usd=sums.cost_usd,
        total_steps=steps,
        extra=extra,
    )


def _ends(records: Sequence[AnyRecord]) -> str | None:
    ends = [record.stop_reason for record in records if isinstance(record, TurnEnded)]
    return ends[-1] if ends else None


def _step(record: AnyRecord, source: str, text: str, images: Sequence[Image] = ()) -> _Step:
    stamp = {"timestamp": datetime.fromtimestamp(record.time, UTC).isoformat()} if record.time else {}
    return {**stamp, "source": source, "message": _content(text, images)}


def _content(text: str, images: Sequence[Image]) -> str | list[dict[str, Any]]:
    if not images:
        return text
    pictures = [
        {
            "type": "image",
            "source": {"media_type": image.media_type, "path": f"data:{image.media_type};base64,{image.data}"},
        }
        for image in images
    ]
    return [{"type": "text", "text": text}, *pictures]


def _present(**values: Any) -> dict[str, Any]:
    """Return the known values; empty texts are omitted, except for messages."""
    return {name: value for name, value in values.items() if value is not None and (value != "" or name in _SAID)}


_SAID = frozenset(("message", "content"))
