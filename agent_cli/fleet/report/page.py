"""A summary and a comparison as a single HTML file: no script, no network, light and dark, readable on a phone.
Texts of tasks and errors are escaped. Pure, except for reading its style sheets."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from agent_cli.protocol.sanitize import clean
from agent_cli.store.export.page import document

from . import plots, wording
from .compare import Comparison
from .summary import Share, Summary, some
from .wording import MEANINGS, Part, Table


def html(summary: Summary) -> str:
    """Return the report; all clock measurements are in its last sections."""
    content = {title: _content(part) for title, part in wording.parts(summary).items()}
    content["Score"] = _scores(summary)
    figures = {
        "Several attempts": _figures(
            {
                "Outcomes": plots.outcomes(summary.outcomes),
                "Solved against cost": plots.solved_by_cost(summary.cost.solved_usd),
            }
        )
    }
    if times := summary.times:
        pictures = {
            "Solved against time": plots.solved_by_time(times.solved),
            "Slots; the thin bars are waiting": plots.timeline(times.spans, times.wall),
        }
        figures["Time"] = _figures(pictures, "full")
    return _page("Report", content, figures)


def html_of_comparison(comparison: Comparison) -> str:
    """Return a comparison of two runs."""
    content = {title: _content(part) for title, part in wording.parts_of_comparison(comparison).items()}
    pictures = {
        "Solved tasks": plots.intervals(comparison),
        "Tasks that differ": plots.changes(comparison.changed),
    }
    return _page(" and ".join(comparison.names), content, {"Comparison": _figures(pictures)})


def _page(name: str, content: Mapping[str, str], figures: Mapping[str, str]) -> str:
    """Return a page; the first content is its head, and figures follow the content with their title."""
    sections: list[str] = []
    for title, inner in content.items():
        if not sections:
            sections.append(f"<header>\n<h1>{title}</h1>\n{inner}\n</header>")
        elif inner:
            sections.append(f"<section>\n<h2>{title}</h2>\n{inner}\n</section>")
        sections.append(figures.get(title, ""))
    style = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
    return document(name, "\n".join(filter(None, sections)), style)


def _scores(summary: Summary) -> str:
    lines = wording.score_lines(summary)
    boxes = [_score(name, share) for name, share in zip(lines, (summary.valid, summary.every), strict=False)]
    rest = dict(list(lines.items())[len(boxes) :])
    return f'<div class="scores">{"".join(boxes)}</div>\n{_content(rest)}'


def _score(name: str, share: Share) -> str:
    percent = wording.percent(share.share)
    said = wording.score(share).removeprefix(percent).strip()
    return f"<div><span>{_text(name)}</span><strong>{percent}</strong><span>{_text(said)}</span></div>"


def _figures(pictures: Mapping[str, str], last: str = "") -> str:
    shown = [
        f'<figure class="{last if place else ""}"><figcaption>{name}</figcaption>{drawn}</figure>'
        for place, (name, drawn) in enumerate(pictures.items())
        if drawn
    ]
    return f'<section class="figures">\n{"".join(shown)}\n</section>' if shown else ""


def _content(part: Part) -> str:
    if not part or (isinstance(part, Table) and not part.rows):
        return ""
    if isinstance(part, Table):
        head = _row("th", map(_text, part.head), part.numbers)
        body = "".join(_row("td", map(_cell, row), part.numbers) for row in part.rows)
        return f'<div class="wide"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'
    if isinstance(part, Mapping):
        rows = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(said)}</dd></div>" for name, said in part.items())
        return f'<dl class="facts">{rows}</dl>'
    return "".join(f"<p>{_text(note)}</p>" for note in part)


def _row(tag: str, cells: Iterable[str], numbers: tuple[int, ...]) -> str:
    kinds = ((' class="number"' if place in numbers else "", cell) for place, cell in enumerate(cells))
    return "<tr>" + "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in kinds) + "</tr>"


def _cell(cell: str | tuple[str, ...]) -> str:
    if isinstance(cell, tuple):
        return _text(some(cell, 5))
    return f'<span class="swatch {plots.kind(cell)}"></span>{cell}' if cell in MEANINGS else _text(cell)


def _text(text: str) -> str:
    return escape(clean(text))
