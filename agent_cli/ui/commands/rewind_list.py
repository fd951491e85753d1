"""The prompts to which `/rewind` can go back, as a list and as choices."""

from agent_cli.protocol.client import RewindPoint

from ..text import lines
from .api import Choice

_MAX_ROWS = 40


def find_point(points: tuple[RewindPoint, ...], number: str) -> RewindPoint | None:
    """Return the rewind point with this number."""
    return next((each for each in points if str(each.number) == number.strip()), None)


def render_points(points: tuple[RewindPoint, ...]) -> list[str]:
    """Return a row for each rewind point, oldest first, so that the newest is next to the input line."""
    rows = [f"  … and {len(points) - _MAX_ROWS} earlier ones"] if len(points) > _MAX_ROWS else []
    for each in points[-_MAX_ROWS:]:
        prompt = lines.one_line(each.prompt, 70)
        rows.append(f"  {each.number:>3}  {lines.ago(each.time):>10}  {prompt}  ({_files(each)})")
    return rows


def choices(points: tuple[RewindPoint, ...]) -> list[Choice]:
    """Return the rewind points as choices, newest first; the value is the number."""
    return [
        Choice(
            str(each.number),
            lines.one_line(each.prompt, 100),
            f"{each.number} · {lines.ago(each.time)} · {_files(each)}",
        )
        for each in reversed(points)
    ]


def _files(each: RewindPoint) -> str:
    files = f"{len(each.changed)} files" if len(each.changed) > 1 else "".join(each.changed)
    return lines.one_line(files, 60) or ("files changed" if each.has_checkpoint else "no file changed")
