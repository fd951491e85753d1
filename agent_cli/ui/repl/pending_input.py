"""Input submitted during a turn that has not begun: guidance for the turn, and queued prompts and commands.

The engine holds it; this module shows it, and restores it when it is returned.
"""

from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.events import InputReturned

from ..text import lines

_HINT = "  (↑ takes it back)"
_SHOWN = {"steer": "steers: ", "prompt": "queued: ", "command": "queued: "}


def rows(now: Snapshot, columns: int, *, can_take_back: bool) -> list[str]:
    """Return the current step of the plan, then the pending inputs, newest last."""
    waiting = [f"{_SHOWN[each.kind]}{each.text}" for each in now.waiting]
    if waiting and can_take_back:
        waiting[-1] = lines.one_line(waiting[-1], max(20, columns - len(_HINT) - 2)) + _HINT
    return [*_plan(now), *waiting]


def restore(event: InputReturned, draft: str) -> tuple[str, str]:
    """Return the text to put before the draft, and a message. A command is restored only to an empty line: after
    other text it would not be a command."""
    if event.commands and not event.texts and not draft and len(event.commands) == 1:
        return event.commands[0], ""
    said = f"Not carried out: {', '.join(map(lines.one_line, event.commands))}." if event.commands else ""
    return "\n\n".join(event.texts), said


def _plan(now: Snapshot) -> list[str]:
    """Return the current step of the plan, while a turn is running."""
    doing = next((item.text for item in now.plan if item.status == "in_progress"), "")
    done = sum(item.status == "done" for item in now.plan)
    return [f"plan {done}/{len(now.plan)}: {doing}"] if doing and now.busy else []
