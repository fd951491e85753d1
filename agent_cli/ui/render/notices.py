"""Events that need only a few lines of text: stateless rendering."""

from typing import assert_never

from agent_cli.protocol import events as ev
from agent_cli.protocol.sanitize import clean
from agent_cli.protocol.usage import Totals

from ..text import lines
from ..text.theme import Theme
from .marks import note, warning

Plain = (
    ev.SessionStarted | ev.PlanUpdated | ev.Notice | ev.Restored | ev.SettingsChanged | ev.OperationCompleted
    | ev.OperationFailed | ev.SessionClosed | ev.FellBack | ev.Attached | ev.Renamed
    | ev.InputReturned
)  # fmt: skip


def render_notice(event: Plain, theme: Theme, width: int) -> list[str]:
    """Return the lines of an event; none if there is nothing to print."""
    match event:
        case ev.SessionStarted():
            return _banner(event, theme, width)
        case ev.PlanUpdated():
            return lines.plan(event.items, theme, width)
        case ev.Notice():
            return warning(event.text, theme, width) if event.level == "warning" else note(event.text, width)
        case ev.Restored():
            return _restored(event, theme, width)
        case ev.Attached():
            return note(lines.attachment_line(event), width)
        case ev.Renamed():
            return note(f"This session is now called “{lines.one_line(event.title)}”.", width)
        case ev.SettingsChanged():
            facts = [event.model, event.mode, event.effort]
            return note(" · ".join(lines.one_line(fact, 80) for fact in facts if fact), width)
        case ev.OperationCompleted():
            return lines.wrap(clean(event.detail).strip(), width) if event.detail.strip() else []
        case ev.InputReturned():
            return []  # the front end returns it to the user
        case ev.OperationFailed() | ev.SessionClosed():
            return lines.error(event.error, theme, width).split("\n") if event.error else []
        case ev.FellBack():
            restart = "; the answer starts over." if event.discarded_chars else "."
            takes_over = f"{event.model} takes over for the rest of this prompt{restart}"
            return [*warning(event.error.message, theme, width), *warning(takes_over, theme, width)]
        case _:
            assert_never(event)


def _banner(event: ev.SessionStarted, theme: Theme, width: int) -> list[str]:
    name = theme.paint("strong", f"agent {lines.one_line(event.version, 40)}")
    sandbox = lines.one_line(event.sandbox, 40)
    first = f"{name}  {lines.one_line(event.model, 80)} · {event.mode} · sandbox {sandbox}"
    if lines.cells(first) > width:
        first = first.removesuffix(sandbox) + sandbox.partition(" (")[0]  # /status names the mechanism too
    resumed = f" · resumed {lines.one_line(event.session_id, 40)}" if event.resumed else ""
    where, more = lines.one_line(event.cwd, 200), f"/help for commands{resumed}"
    gap = "  " if lines.cells(where) + lines.cells(more) + 2 <= width else "\n"
    return lines.wrap(f"{first}\n{where}{gap}{more}", width)


def _restored(event: ev.Restored, theme: Theme, width: int) -> list[str]:
    from .tool_results import render_report

    rows = render_report(event, theme, width)
    if any(conflict.decidable for conflict in event.report.conflicts):
        rows += note("/resolve mine, /resolve old or /resolve merge settles it.", width)
    return rows


def turn_end(
    event: ev.TurnCompleted | ev.TurnAborted | ev.TurnFailed,
    spent: Totals,
    worked_s: float | None,
    theme: Theme,
    width: int,
) -> list[str]:
    """Return the usage and changes of a turn; nothing for a turn that failed before using anything. `worked_s`
    excludes the time that the user needed for questions."""
    if isinstance(event, ev.TurnFailed) and spent.input is None and not spent.cost_usd and not event.changes:
        return []
    facts = [] if worked_s is None else [lines.seconds(worked_s)]
    if isinstance(event, ev.TurnCompleted):
        facts += [lines.number(event.steps, "step")] if event.steps > 1 else []
    facts += [lines.tokens(spent)] if spent.input is not None or spent.output is not None else []
    facts += [lines.money(spent)] if spent.cost_usd else []
    if event.changes:
        facts.append(lines.change_counts(event.changes))
    return [theme.paint("muted", row) for row in lines.wrap("— " + " · ".join(facts), width)]
