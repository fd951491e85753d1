"""Reconstruct from the records the calls made for the newest prompt, so that a turn resumed after a crash is
subject to the same rules as before it."""

from collections.abc import Iterator, Sequence

import msgspec

from agent_cli.protocol.actions import Action, RunCommand
from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, CallStarted
from agent_cli.session.undo_state import taken_back
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.registry import Registry

from .call_rules import was_made


class CallMade(msgspec.Struct, frozen=True):
    """A call that ran or had begun to run."""

    tool: str
    actions: tuple[Action, ...]
    result: ToolResult | None
    """None if the call was cut off."""


def calls_made(records: Sequence[AnyRecord], registry: Registry, context: ToolContext) -> Iterator[CallMade]:
    """Yield the calls of the newest prompt in the order of their results, then those that were cut off."""
    recent = _newest_input(records)
    calls = {call.id: call for each in recent if isinstance(each, AssistantMessage) for call in each.calls}
    begun = {each.call_id for each in recent if isinstance(each, CallStarted)}
    results = {each.call_id: each for each in recent if isinstance(each, ToolResult)}
    for call_id in (*results, *(begun - results.keys())):
        result = results.get(call_id)
        if call_id not in calls or not (call_id in begun or (result and was_made(result))):
            continue
        call = calls[call_id]
        if (actions := _actions(call, result, registry, context)) is not None:
            yield CallMade(call.name, actions, result)


def _newest_input(records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
    """Return the records from the newest turn that began with a prompt; later turns continued it."""
    undone = taken_back(records).messages
    turns: set[str] = set()
    start = 0
    for index, record in enumerate(records):
        if record.turn_id in turns or record.turn_id in undone or not record.turn_id:
            continue
        turns.add(record.turn_id)
        if isinstance(record, UserMessage) and record.origin == "human":
            start = index
    return [record for record in records[start:] if record.turn_id not in undone]


def _actions(
    call: ToolCall, result: ToolResult | None, registry: Registry, context: ToolContext
) -> tuple[Action, ...] | None:
    """Return the actions of a call; None if it cannot be parsed."""
    try:
        tool, params = registry.parse(call.name, call.arguments)
        actions = tuple(tool.actions(params, context))
    except Exception:  # the call's own result says what was wrong
        return None
    if result is None or not result.command:
        return actions
    # the user may have edited the command before allowing it
    return tuple(
        msgspec.structs.replace(each, command=result.command) if isinstance(each, RunCommand) else each
        for each in actions
    )
