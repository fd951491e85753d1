"""What was handed in during a turn and has not begun: guidance for it, prompts and commands behind it.

The engine holds it; this is what is shown of it, and what becomes of it when it is handed back.
"""

from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.events import InputReturned

from ..text import lines

_HINT = "  (↑ takes it back)"
_SHOWN = {"steer": "steers: ", "prompt": "queued: ", "command": "queued: "}


def rows(now: Snapshot, columns: int, *, can_take_back: bool) -> list[str]:
    """Return where the plan stands, then what waits, the newest last."""
    waiting = [f"{_SHOWN[each.kind]}{each.text}" for each in now.waiting]
    if waiting and can_take_back:
        waiting[-1] = lines.one_line(waiting[-1], max(20, columns - len(_HINT) - 2)) + _HINT
    return [*_plan(now), *waiting]


def restore(event: InputReturned, draft: str) -> tuple[str, str]:
    """Return the text to put before the draft, and what to say. A command comes back to an empty line alone:
    behind other text it would be none."""
    if event.commands and not event.texts and not draft and len(event.commands) == 1:
        return event.commands[0], ""
    said = f"Not carried out: {', '.join(map(lines.one_line, event.commands))}." if event.commands else ""
    return "\n\n".join(event.texts), said


def _plan(now: Snapshot) -> list[str]:
    """Return the step of the plan that is being done, while something runs."""
    doing = next((item.text for item in now.plan if item.status == "in_progress"), "")
    done = sum(item.status == "done" for item in now.plan)
    return [f"plan {done}/{len(now.plan)}: {doing}"] if doing and now.busy else []
