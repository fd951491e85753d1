"""Export a session as one HTML file: no network, readable on a phone, in light and dark mode. Pure except for
reading its style sheet and script.

Everything said is treated as data: control characters are removed, everything is escaped, Markdown is rendered
without raw HTML and images, and a content security policy allows only the page's own style and script.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.protocol.messages import Image, PlanItem
from agent_cli.protocol.records import AnyRecord
from agent_cli.protocol.sanitize import clean, clip

from .charts import duration, money
from .markdown import arguments_text, facts_of, local_time, shorten
from .page import document
from .session_picture import session_picture
from .transcript import CallEntry, Item, MessageEntry, Note, Transcript, Turn, is_diff, transcript_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MARKS = {"done": "✓", "in_progress": "▸", "pending": "○"}
_MOST_ABOUT = 160
_LINE_KINDS = (("+++", "file"), ("---", "file"), ("@@", "hunk"), ("+", "add"), ("-", "del"))


def page_of(records: Sequence[AnyRecord], agents: Mapping[str, str]) -> str:
    """Return the whole page of a session; `agents` maps session ids of sub-agents to their names."""
    transcript = transcript_of(records)
    parts = (
        _head(transcript),
        _plan(transcript.plan),
        session_picture(records, transcript, agents),
        '<section class="talk">\n' + "\n".join(map(_turn, transcript.turns)) + "\n</section>",
    )
    script = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
    return document(transcript.title, "\n".join(part for part in parts if part), script=script)


def _head(transcript: Transcript) -> str:
    facts = facts_of(transcript)
    rows = "".join(f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in facts.items())
    return f"<header>\n<h1>{_text(transcript.title)}</h1>\n<dl>{rows}</dl>\n</header>"


def _plan(plan: tuple[PlanItem, ...]) -> str:
    if not plan:
        return ""
    items = "".join(
        f'<li class="{item.status}"><span class="mark">{_MARKS[item.status]}</span><span>{_text(item.text)}'
        f'<span class="far"> ({item.status.replace("_", " ")})</span></span></li>'
        for item in plan
    )
    done = sum(item.status == "done" for item in plan)
    head = f"<h2>Plan <small>{done} of {len(plan)} done</small></h2>"
    return f'<section class="plan">\n{head}\n<ol>{items}</ol>\n</section>'


def _turn(turn: Turn) -> str:
    items = "\n".join(_item(item) for item in turn.items)
    if not turn.number:
        return items
    took = [duration(turn.duration_s)] if turn.duration_s else []
    took += [money(turn.cost_usd)] if turn.cost_usd is not None else []
    undone = '<span class="badge undone">undone</span>' if turn.undone else ""
    return (
        f'<article id="turn-{turn.number}" class="{"undone" if turn.undone else "counts"}">\n'
        f'<h3><a href="#turn-{turn.number}">{turn.number}</a> <span>{local_time(turn.began)}</span>'
        f"<span>{' · '.join(took)}</span>{undone}</h3>\n{items}\n</article>"
    )


def _item(item: Item) -> str:
    match item:
        case MessageEntry(who="you"):
            pictures = "".join(map(_picture, item.images))
            return f'<div class="you"><pre>{_text(item.text.strip())}</pre>{pictures}</div>'
        case MessageEntry():
            return f'<div class="agent">{_rendered(item.text)}</div>'
        case Note(text=text) if text.strip():
            summary = f"<summary>{_text(item.title)}</summary>"
            return f'<details class="note">{summary}<pre>{_bounded(text)}</pre></details>'
        case Note():
            return f'<p class="note">{_text(item.title)}</p>'
        case CallEntry():
            return _call_entry(item)


def _call_entry(entry: CallEntry) -> str:
    result = entry.result
    duration_s = result.duration_s if result is not None else 0.0
    took = f"<small>{duration(duration_s)}</small>" if duration_s >= 0.05 else ""
    about = f"<code>{_text(clip(entry.about, _MOST_ABOUT))}</code>" if entry.about else ""
    parts = []
    diff = result is not None and is_diff(result.display)
    if not diff:
        parts.append(f"<pre>{_bounded(arguments_text(entry))}</pre>")
    if result is not None:
        parts.append(_diff(result.display) if diff else _result(result.display, result.text))
        parts += [_picture(image) for image in result.images]
    opened = " open" if diff else ""
    return (
        f'<details class="deed {entry.status}"{opened}><summary><b>{_text(entry.call.name)}</b> {about}'
        f'<span class="badge {entry.status}">{entry.status}</span>{took}</summary>{"".join(parts)}</details>'
    )


def _result(display: str, text: str) -> str:
    """Return the text the model read, which is more complete than the displayed text, unless only that exists."""
    shown = text if len(text) >= len(display) else display
    return f'<pre class="result">{_bounded(shown)}</pre>' if shown.strip() else ""


def _diff(text: str) -> str:
    lines = []
    for line in shorten(text).splitlines():
        kind = next((kind for lead, kind in _LINE_KINDS if line.startswith(lead)), "same")
        lines.append(f'<span class="{kind}">{escape(line)}</span>')
    return f'<pre class="diff">{"".join(lines)}</pre>'


def _picture(image: Image) -> str:
    """Return an image of the session if its data is valid and its type allowed."""
    try:
        base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        return ""
    if image.media_type not in _PICTURES:
        return f'<p class="note">An image of the type {_text(image.media_type)} is left out.</p>'
    return f'<img alt="An image" src="data:{image.media_type};base64,{image.data}">'


def _rendered(text: str) -> str:
    """Render Markdown as HTML: without raw HTML, without loading images, with links to the web only."""
    page = str(_reader().render(shorten(text, 200_000)))
    page = re.sub(r'<a href="(?!https?://)[^"]*"[^>]*>', "<a>", page)
    page = page.replace('<a href="', '<a rel="noreferrer noopener" href="')
    page = re.sub(r'(<t[hd]) style="text-align:(\w+)"', r'\1 class="\2"', page)
    return page.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")


@cache
def _reader() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False, "maxNesting": 30}).enable("table").disable("image")


def _text(text: str) -> str:
    return escape(clean(text))


def _bounded(text: str) -> str:
    return escape(shorten(text))
