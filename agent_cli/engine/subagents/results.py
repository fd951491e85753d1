"""The parent's view of a sub-agent's result: its answer as data, with its changes, denials and cost."""

from collections.abc import Iterable

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import AssistantMessage, Record, ToolResult, UserMessage
from agent_cli.protocol.operations import AttachedText
from agent_cli.protocol.records import AnyRecord
from agent_cli.session.undo_state import taken_back
from agent_cli.tools.kit.base import ToolOutcome
from agent_cli.tools.kit.output import counted, first_of

from ..context.mentions import Attachments, attach_text
from .child import Child, ChildResult

_MOST_FILES = 40
_MOST_DENIED = 5
_ATTACHED = "agent "


_ID = lazy_regex(r'<agent_result name="[^"\n]*" id="([0-9a-f]+)"')


def read_at(records: Iterable[Record]) -> dict[str, float]:
    """Return session id → time when the model last received the sub-agent's result."""
    found: dict[str, float] = {}
    for record in records:
        texts: list[str] = []
        if isinstance(record, UserMessage):
            texts = [each.text for each in record.attachments if each.name.startswith(_ATTACHED)]
        elif isinstance(record, ToolResult) and record.tool in ("agent", "agents"):
            texts = [record.text]
        found |= {match[1]: record.time for text in texts if (match := _ID.match(text))}
    return found


def undone_calls(records: Iterable[AnyRecord]) -> frozenset[str]:
    """Return the ids of the calls whose turns are undone."""
    given = list(records)
    undone = taken_back(given).messages
    said = (record for record in given if isinstance(record, AssistantMessage) and record.turn_id in undone)
    return frozenset(call.id for record in said for call in record.calls)


def outcome(child: Child, result: ChildResult) -> ToolOutcome:
    """Return a sub-agent's result as a tool outcome: its answer as data, with its changes and cost."""
    plan = child.plan
    facts = [counted(result.steps, "step")]
    if result.cost_usd is not None:
        facts.append(f"{result.cost_usd:.4f} USD")
    if child.worktree is not None:
        facts.append(f"in a worktree of its own, which the user merges by /agents merge {plan.name}")
    if result.changed:
        facts.append(f"changed: {first_of(result.changed, _MOST_FILES)}")
    if result.denied:
        facts.append(f"denied: {first_of(result.denied, _MOST_DENIED)}")
    state = "" if result.state == "done" else f' state="{result.state}"'
    answer = result.text.replace("</agent_result", "<\\/agent_result")
    head = f'<agent_result name="{plan.name}" id="{plan.id}"{state}>'
    return ToolOutcome(
        text=f"{head}\n{answer}\n</agent_result>\n[{'; '.join(facts)}]",
        display=f"{plan.name} {result.state}, {'; '.join(facts)}\n{result.text}",
        ok=result.state == "done",
        untrusted=result.untrusted,
    )


def report(child: Child) -> Attachments:
    """Return the result of a background sub-agent as attachments to a message."""
    assert child.result is not None
    told = outcome(child, child.result)
    return attach_text(AttachedText(child.plan.name, told.text, kind="agent"), told.text, told.untrusted)
