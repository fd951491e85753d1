"""The status line below the input: mode, model, place, and usage of the context window.

Default values are omitted. What does not fit is dropped whole, the least important first; then the model's name is
cut.
"""

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.events import SessionStarted

from ..text import lines
from ..text.theme import Piece, Role, Theme

_BAR = 10
"""Width of the context bar in columns."""
_SHORTEST_MODEL = 12
_NEARLY_FULL = 0.8
_DROPPED = ("leave", "branch", "cost", "jobs", "agents", "hook", "bar")
"""The parts dropped if there is no room, in order."""
_SEPARATOR: Piece = (("muted",), " · ")


def render_status(now: Snapshot, branch: str, theme: Theme, width: int) -> str:
    """Return the status line in at most `width` columns: mode, model, sandbox, a slow hook, background commands,
    running sub-agents, branch and cost on the left, the context on the right."""
    model = f"{now.standing_in} for {now.model}" if now.standing_in else now.model
    jobs = sum(job.state in ("running", "kept") for job in now.jobs)
    agents = sum(agent.state not in ENDED for agent in now.agents)
    left: dict[str, Piece] = {
        **_place(now.mode, model, now.sandbox),
        "hook": (("accent",), f"hook {lines.one_line(now.hook, 40)}" if now.hook else ""),
        "jobs": (("accent",), lines.number(jobs, "job") if jobs else ""),
        "agents": (("accent",), lines.number(agents, "sub-agent") if agents else ""),
        "branch": (("muted",), lines.one_line(branch, 40)),
        "cost": (("muted",), lines.money(now.totals) if now.totals.cost_usd else ""),
        "leave": _way_out(now.mode),
    }
    return _fitted(left, _context(now, with_bar=True), _context(now, with_bar=False), theme, width)


def render_first_status(began: SessionStarted, branch: str, theme: Theme, width: int) -> str:
    """Return the status line of a session that is about to open; the size of its context is unknown."""
    left: dict[str, Piece] = {
        **_place(began.mode, began.model, began.sandbox),
        "branch": (("muted",), lines.one_line(branch, 40)),
        "leave": _way_out(began.mode),
    }
    return _fitted(left, [], [], theme, width)


def _place(mode: Mode, model: str, sandbox: str) -> dict[str, Piece]:
    return {
        "mode": ((mode,), f" {mode} " if mode == "yolo" else mode),
        "model": (("muted",), lines.one_line(model, 60)),
        "sandbox": (("warning",), _sandbox(mode, sandbox)),
    }


def _way_out(mode: Mode) -> Piece:
    return ("muted",), "Shift-Tab leaves plan mode" if mode == "plan" else ""


def _fitted(left: dict[str, Piece], right: list[Piece], shorter: list[Piece], theme: Theme, width: int) -> str:
    """Return both sides in at most `width` columns; `shorter` is the right side without its bar."""
    left = {name: piece for name, piece in left.items() if piece[1] or name == "model"}
    for name in _DROPPED:
        if _cells([*left.values()]) + _columns(right) + 2 <= width:
            break
        left.pop(name, None)
        if name == "bar":
            right = shorter
    room = width - 2 - _columns(right) - (_cells([*left.values()]) - lines.cells(left["model"][1]))
    left["model"] = (left["model"][0], lines.truncate(left["model"][1], max(_SHORTEST_MODEL, room)))
    pieces = _joined([*left.values()])
    gap = width - _columns(pieces) - _columns(right)
    if gap < 1:
        right, gap = [], 0
    return theme.painted(_cut([*pieces, ((), " " * gap), *right], width))


def _context(now: Snapshot, with_bar: bool) -> list[Piece]:
    """Return the usage of the context window, as a bar and a number."""
    if now.compacting:
        return [(("accent",), "compacting")]
    if not now.context_window:
        return [(("muted",), lines.count(now.context_tokens))]
    share = min(1.0, now.context_tokens / now.context_window)
    role: Role = "warning" if share >= _NEARLY_FULL else "accent"
    full = min(_BAR, round(share * _BAR)) if with_bar else 0
    bar: list[Piece] = [((role,), "━" * full), (("muted",), "─" * (_BAR - full) + " ")] if with_bar else []
    return [*bar, (("muted",), f"{share:.0%}")]


def _sandbox(mode: Mode, sandbox: str) -> str:
    """Return the sandbox level unless it is the default of the mode."""
    name = lines.one_line(sandbox.partition(" (")[0], 40)
    usual = "read-only" if mode == "plan" else "workspace-write"
    return "" if name == usual else f"sandbox {name}"


def _joined(pieces: list[Piece]) -> list[Piece]:
    found = pieces[:1]
    for piece in pieces[1:]:
        found += [_SEPARATOR, piece]
    return found


def _cells(pieces: list[Piece]) -> int:
    return _columns(_joined(pieces))


def _columns(pieces: list[Piece]) -> int:
    return sum(lines.cells(text) for _, text in pieces)


def _cut(pieces: list[Piece], width: int) -> list[Piece]:
    """Return the pieces in at most `width` columns."""
    found: list[Piece] = []
    for roles, text in pieces:
        shown = lines.truncate(text, width) if width > 0 else ""
        found.append((roles, shown))
        width -= lines.cells(shown)
    return found
