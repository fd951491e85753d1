"""Export a session as Markdown: prompts, answers, tool calls with their results and diffs. Pure."""

import re
import time

import msgspec

from agent_cli.protocol.sanitize import clean, code_span, fenced, one_line

from .charts import duration, money, tokens
from .transcript import CallEntry, MessageEntry, Note, Transcript, Turn, arguments, is_diff

_MOST_CHARS = 20_000
_STATES = {"done": "x", "in_progress": "/", "pending": " "}


def markdown_of(transcript: Transcript) -> str:
    """Return the whole text. Messages are complete; long results are shortened with a note."""
    facts = "\n".join(f"- {name}: {_line(value)}" for name, value in facts_of(transcript).items())
    parts = [f"# {_line(transcript.title)}", facts]
    if transcript.plan:
        items = "\n".join(f"- [{_STATES[item.status]}] {_line(item.text)}" for item in transcript.plan)
        parts.append(f"## Plan\n\n{items}")
    parts += [_turn(turn) for turn in transcript.turns]
    return "\n\n".join(part for part in parts if part).rstrip() + "\n"


def facts_of(transcript: Transcript) -> dict[str, str]:
    """Return the facts at the head of an export."""
    sums = transcript.totals
    read = sum(count or 0 for count in (sums.input, sums.cache_read, sums.cache_write))
    cost = money(sums.cost_usd) if sums.cost_usd is not None else "unknown"
    return {
        "Directory": transcript.header.cwd,
        "Model": ", ".join(transcript.models),
        "Began": local_time(transcript.header.time),
        "Last change": local_time(transcript.ended),
        "Prompts": str(sum(1 for turn in transcript.turns if turn.number)),
        "Model calls": str(sums.requests),
        "Tokens": f"{tokens(read)} in, {tokens(sums.output or 0)} out" if sums.input is not None else "unknown",
        "Working time": duration(sum(turn.duration_s for turn in transcript.turns)),
        "Cost": cost + (" at least" if sums.unpriced and sums.cost_usd is not None else ""),
        "Session": transcript.header.session_id,
    }


def _turn(turn: Turn) -> str:
    undone = " (undone)" if turn.undone else ""
    head = f"## {turn.number}. {local_time(turn.began)}{undone}" if turn.number else ""
    return "\n\n".join(part for part in (head, *map(_item, turn.items)) if part)


def _item(item: MessageEntry | Note | CallEntry) -> str:
    match item:
        case MessageEntry(who="you"):
            quoted = "\n".join(f"> {line}".rstrip() for line in clean(item.text).strip().splitlines())
            pictures = f"\n>\n> [{len(item.images)} image{'s' * (len(item.images) > 1)}]" if item.images else ""
            return f"{quoted}{pictures}"
        case MessageEntry():
            return clean(item.text).strip()
        case Note():
            body = f"\n\n{code_block(item.text)}" if item.text.strip() else ""
            return f"*{_line(item.title)}*{body}"
        case CallEntry():
            return _call_entry(item)


def _call_entry(entry: CallEntry) -> str:
    result = entry.result
    took = f", {result.duration_s:.1f} s" if result is not None and result.duration_s else ""
    about = f" {_code(entry.about)}" if entry.about else ""
    head = f"**{_line(entry.call.name)}**{about}: {entry.status}{took}"
    values = arguments(entry.call)
    bodies = []
    diff = result is not None and is_diff(result.display)
    if not diff and (len(values) > 1 or not entry.about):
        bodies.append(code_block(arguments_text(entry), "json"))
    if result is not None:
        shown = result.display or result.text
        bodies.append(code_block(shown, "diff" if is_diff(shown) else ""))
    return "\n\n".join([head, *(body for body in bodies if body)])


def arguments_text(entry: CallEntry) -> str:
    """Return the arguments of a call as indented JSON, or as written if they are not an object."""
    values = arguments(entry.call)
    return msgspec.json.format(msgspec.json.encode(values), indent=2).decode() if values else entry.call.arguments


def shorten(text: str, most: int = _MOST_CHARS) -> str:
    """Return a text that is safe to show, with the middle of a long one left out."""
    if len(text) > most:
        gap = f"\n[… {len(text) - most:,} characters left out; the session file has them …]\n"
        text = text[: most // 2] + gap + text[-(most - most // 2) :]
    return clean(text).rstrip()


def local_time(seconds: float) -> str:
    """Format a local date and time; empty if there is none."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if 0 < seconds < 1 << 34 else ""


def code_block(text: str, language: str = "") -> str:
    """Return a code block with a fence that its content cannot close."""
    shown = shorten(text)
    return fenced(shown, language) if shown else ""


def _line(text: str) -> str:
    """Return a text as one line with Markdown characters escaped."""
    return re.sub(r"([\\`*<>\[\]#|]|(?<!\w)_|_(?!\w))", r"\\\1", one_line(text))


def _code(text: str) -> str:
    """Return a text as inline code."""
    return code_span(one_line(text)[:300])
