"""Formatting of single facts as text: durations, counts, tool calls, plans, errors, reports.

Shared by the REPL, the plain REPL and the one-shot runner; needs no library. All text from a model, a tool or a
file is sanitized here, before any other code sees it.
"""

import math
import time
from collections.abc import Iterable, Iterator

from agent_cli.protocol.events import Attached, ErrorInfo, ToolCallFinished
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import FileChange, PlanItem, ToolStatus
from agent_cli.protocol.sanitize import clean
from agent_cli.protocol.usage import CostLine, Totals

from .theme import Role, Theme

ICONS: dict[ToolStatus, tuple[str, Role]] = {
    "ok": ("●", "ok"),
    "failed": ("✗", "error"),
    "denied": ("⊘", "warning"),
    "cancelled": ("■", "warning"),
    "unknown": ("?", "warning"),
}

SEQUENCE = r"(?:\x1b\[[0-9;:]*m|\x1b\]8;[^\x1b]*\x1b\\)"
"""A colour, or the beginning or end of a link, as a regular expression."""
_SEQUENCE = lazy_regex(SEQUENCE)
_NARROW = lazy_regex("[ -~\xa1-\xac\xae-\u02ff\u2010-\u2027\u2190-\u2193\u2500-\u257f●✓✗⊘■↷↻⋮−▌❯]*")
"""Text whose characters take one column each, known without the tables of `wcwidth`, which are slow to import."""
_EMOJI_SEQUENCE = lazy_regex(
    "[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|\u200d[^\\s\x1b]|[\U0001f1e6-\U0001f1ff]{2}"
)
_NOT_FIRST = frozenset("、。，．・：；？！）」』】〉》〕］｝’”…‥ー～々ぁぃぅぇぉっゃゅょァィゥェォッャュョ")
_NOT_LAST = frozenset("（「『【〈《〔［｛‘“")
"""Characters that cannot begin or end a row in scripts without blanks."""


def cells(text: str) -> int:
    """Return the number of columns that `text` takes on a terminal, ignoring colours and links."""
    if "\x1b" in text:
        text = plain(text)
    if "\t" in text:
        text = text.expandtabs(8)
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    return sum(width for _, width in graphemes(text))


def plain(text: str) -> str:
    """Return a text of the program's without its colours and links."""
    return _SEQUENCE.sub("", text)


def graphemes(text: str) -> Iterator[tuple[str, int]]:
    """Yield the graphemes of a text without colours, each with its width in columns."""
    from wcwidth import iter_graphemes, wcswidth

    for grapheme in iter_graphemes(text):
        width = wcswidth(grapheme)
        yield grapheme, len(grapheme) if width < 0 else width  # negative for a control character


def plain_graphemes(text: str) -> Iterator[tuple[str, str]]:
    """Yield each grapheme with its replacement for renderers that count code points: the two letters of a flag,
    the first character of an emoji sequence, else itself."""
    if not _EMOJI_SEQUENCE.search(text):
        yield text, text
        return
    for grapheme, _ in graphemes(text):
        if not _EMOJI_SEQUENCE.search(grapheme):
            yield grapheme, grapheme
        elif "\U0001f1e6" <= grapheme[0] <= "\U0001f1ff":
            letters = (char for char in grapheme if "\U0001f1e6" <= char <= "\U0001f1ff")  # a joiner may follow
            yield grapheme, "".join(chr(ord(char) - 0x1F1E6 + ord("A")) for char in letters)
        else:
            yield grapheme, grapheme[0]


def fit(text: str, width: int) -> int:
    """Return how many leading characters of `text` fit into `width` columns."""
    if text.isascii():
        return max(0, min(len(text), width))
    used = at = 0
    for sign, own in graphemes(text):
        used += own
        if used > width:
            return at
        at += len(sign)
    return at


def truncate(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, ending in `…` if it is cut. Accepts no colours."""
    return text if cells(text) <= width else text[: fit(text, width - 1)] + "…"


def atoms(word: str) -> list[str]:
    """Split a word into parts between which a row may break: itself, or its characters if its script has no
    blanks."""
    if word.isascii():
        return [word]
    found: list[str] = []
    before, wide = "", False
    for sign, own in graphemes(word):
        breakable = (wide or own == 2) and sign[0] not in _NOT_FIRST and before not in _NOT_LAST
        if found and not breakable:
            found[-1] += sign
        else:
            found.append(sign)
        before, wide = sign[0], own == 2
    return found or [word]


def wrap(text: str, width: int) -> list[str]:
    """Return the text in rows of at most `width` columns, broken between words if possible; at least one row. The
    indent of a line continues in its rows."""
    width = max(20, width)
    rows: list[str] = []
    for line in text.split("\n"):
        if cells(line) <= width:
            rows.append(line)
            continue
        body = line.lstrip(" ")
        indent = " " * min(len(line) - len(body), width // 2)
        rows += [indent + row for row in _wrap_line(body, width - len(indent))]
    return rows


def _wrap_line(body: str, width: int) -> list[str]:
    rows, row, used = [], "", 0
    for word in body.split(" "):
        for at, atom in enumerate(atoms(word)):
            gap, own = "" if at or not row else " ", cells(atom)
            if row and used + len(gap) + own > width:
                rows.append(row)
                row, used, gap = "", 0, ""
            row, used = row + gap + atom, used + len(gap) + own
    return [*rows, row]


def one_line(text: str, limit: int = 200) -> str:
    """Return `text`, sanitized, on one line of at most `limit` columns."""
    return truncate(" ".join(clean(text[: limit * 4]).split()), limit)


def sentence(text: str) -> str:
    """Return a message that begins with a plain word as a sentence: a capital letter and a full stop."""
    first = text.partition(" ")[0]
    text = text[:1].upper() + text[1:] if first.isalpha() else text
    return text if text.endswith((".", "?", "!")) else f"{text}."


def seconds(duration_s: float) -> str:
    """Return a duration: `0.3s`, `42s`, `3m05s`, `2h10m`."""
    if not math.isfinite(duration_s):
        return "?"
    if duration_s < 10:
        return f"{max(0.0, duration_s):.1f}s"
    whole = round(duration_s)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def ago(then: float) -> str:
    """Return the age of a time in seconds since the epoch: `just now`, `5 min ago`, `2 d ago`."""
    passed_s = max(0.0, time.time() - then)
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if passed_s >= size:
            return f"{int(passed_s // size)} {name} ago"
    return "just now"


def count(tokens: int | None) -> str:
    """Return a number of tokens: `812`, `12.3k`, `1.2M`, or `?` if unknown."""
    if tokens is None:
        return "?"
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"


def pad(text: str, width: int) -> str:
    """Return the text, filled with spaces to `width` columns."""
    return text + " " * (width - cells(text))


def number(count: int, noun: str, plural: str = "") -> str:
    """Return `1 line`, `3 lines`; `plural` for an irregular plural."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def tokens(totals: Totals) -> str:
    """Return tokens sent and received, including cached ones: `12.3k in, 800 out`."""
    return f"{count(totals.sent)} in, {count(totals.output)} out"


def money(totals: Totals) -> str:
    """Return the cost of these calls; `≥` if some have no known price, `n/a` if none has."""
    if totals.cost_usd is None or (totals.unpriced and not totals.cost_usd):
        return "n/a" if totals.requests else "$0"
    return f"{'≥' if totals.unpriced else ''}{dollars(totals.cost_usd)}"


def dollars(cost_usd: float) -> str:
    """Return an amount: `$0.0210`, `$1.25`."""
    return f"${cost_usd:.{4 if cost_usd < 0.1 else 2}f}"


def wrap_limited(text: str, width: int, rows: int) -> list[str]:
    """Return `text`, sanitized, in at most `rows` rows that are never wider than `width` columns; the last row
    ends in `…` if more would follow."""
    found = cut(wrap(one_line(text, 2000), width), width)
    return found if len(found) <= rows else [*found[: rows - 1], truncate(found[rows - 1] + "…", width)]


def cut(rows: Iterable[str], width: int) -> list[str]:
    """Return the rows, each broken anywhere into rows of at most `width` columns."""
    found = []
    for row in rows:
        while cells(row) > width and (at := fit(row, width)):
            found.append(row[:at])
            row = row[at:]
        found.append(row)
    return found


_COST_HEADS = {
    "input": "input",
    "cache_read": "cached",
    "cache_write": "to cache",
    "output": "output",
    "reasoning": "reasoning",
}


def costs(totals: Totals, parts: tuple[CostLine, ...], today_usd: float | None, width: int) -> list[str]:
    """Return a table of costs by cause and model, with model names cut to fit `width` columns. A count that no
    call reported has no column; a count that some calls did not report is shown as `?`."""
    fields = [field for field in _COST_HEADS if getattr(totals, field) is not None]
    rows: list[tuple[str, ...]] = [("", "", "calls", *(_COST_HEADS[field] for field in fields), "cost")]
    rows += [_cost_row(part.cause, one_line(part.model, 26), part.totals, fields) for part in parts]
    rows.append(_cost_row("total", "", totals, fields))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    beyond = sum(widths) + 2 * len(widths) - width
    widths[1] = max(min(widths[1], 4), widths[1] - max(0, beyond))
    rows = [(cause, one_line(model, widths[1]), *more) for cause, model, *more in rows]
    aligned = [
        "  ".join(cell.ljust(width) if at < 2 else cell.rjust(width) for at, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    some = f"{totals.unpriced} request{'s have' if totals.unpriced > 1 else ' has'} no known price."
    notes = [some] if totals.unpriced else []
    if today_usd:
        notes.append(f"{dollars(today_usd)} today, all sessions together.")
    return [f"  {line}".rstrip() for line in (*aligned, *notes)]


def _cost_row(cause: str, model: str, totals: Totals, fields: list[str]) -> tuple[str, ...]:
    return (
        cause,
        model,
        str(totals.requests),
        *(count(getattr(totals, field)) for field in fields),
        money(totals),
    )


def call_title(tool: str, title: str, limit: int) -> str:
    """Return the title of a call to show after its tool's name, in at most `limit` columns; empty if it repeats
    the name."""
    return "" if title == tool else one_line(title, max(10, limit))


def tool_line(event: ToolCallFinished, theme: Theme, width: int = 200, glance: str = "") -> str:
    """Return the line of a finished call: icon, action, title, result at a glance, status, duration."""
    icon, role = ICONS[event.status]
    if event.command and event.status == "ok" and event.exit_code is None:
        icon, role = "↷", "accent"  # the command continues in the background
    is_said = event.status in ("ok", "failed") or glance.lower().startswith(event.status)
    notes: list[str] = [] if is_said else [event.status]
    if event.adjusted:
        notes.append(one_line(event.adjusted, 40))
    if event.exit_code:
        notes.append(f"exit {event.exit_code}")
    changed = change_counts(event.changes) if len(event.changes) > 1 else ""
    if len(event.changes) == 1:  # the title names the file
        changed = line_counts(event.changes[0].added, event.changes[0].removed).strip()
    if not event.duration_s < _SHORTEST_SHOWN_S:
        notes.append(seconds(event.duration_s))
    roles: dict[str, Role] = {"+": "ok", "−": "error"}
    tail, label = " · ".join(notes), one_line(event.label or event.tool, 40)
    used = sum(cells(part) + 2 * bool(part) for part in (glance, changed, tail))
    title = call_title(event.tool, event.title, width - used - cells(label) - 3)
    parts = [
        f"{theme.paint(role, icon)} {theme.paint('strong', label)} {title}".rstrip(),
        theme.paint("output", glance),
        " ".join(theme.paint(roles.get(word[0], "muted"), word) for word in changed.split()),
        theme.paint("muted", tail),
    ]
    return "  ".join(part for part in parts if part)


_SHORTEST_SHOWN_S = 0.05
"""A shorter duration would be shown as `0.0s`."""


def change_counts(files: tuple[FileChange, ...]) -> str:
    """Return the totals of changed files: `3 files +10 −2`."""
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    return f"{number(len(files), 'file')}{line_counts(added, removed)}"


def line_counts(added: int, removed: int) -> str:
    """Return line counts to append to a name; empty if no changed line is known."""
    return f" +{added} −{removed}" if added or removed else ""


def plan(items: tuple[PlanItem, ...], theme: Theme, width: int) -> list[str]:
    """Return the plan as a check list, in rows of at most `width` columns."""
    marks = {"pending": "☐", "in_progress": "▸", "done": "☑"}
    roles: dict[str, Role] = {"pending": "muted", "in_progress": "strong", "done": "ok"}
    rows = []
    for item in items:
        first, *rest = wrap(one_line(item.text, 300), width - 4)
        mark = theme.paint(roles[item.status], marks[item.status])
        rows += [f"  {mark} {first}", *(f"    {row}" for row in rest)]
    return rows


def error(info: ErrorInfo, theme: Theme, width: int = 100, most: int = 0, more: str = "") -> str:
    """Return an error for the user: what happened, then what to do. With `most`, the first part is cut to fit that
    many rows in total, at least one; `more` tells there how to see all of it."""
    what = clean(info.message).strip() or one_line(info.kind, 80)
    what += f" [request {one_line(info.request_id, 80)}]" if info.request_id else ""
    then = wrap(clean(info.hint).strip(), width - 2) if info.hint.strip() else []
    happened = wrap(what, width - 2)
    if most and len(happened) + len(then) > most:
        happened = wrap_limited(what, width - 2, max(1, most - len(then)))
        happened[-1] = (
            truncate(happened[-1].removesuffix("…"), width - 3 - cells(more)).removesuffix("…") + "…" + more
        )
    first, *rest = happened
    rows = [f"{theme.paint('error', '✗')} {first.lstrip()}", *("  " + row.lstrip() for row in rest)]
    return "\n".join([*rows, *(f"  {row}" for row in then)])


def attachment_line(event: Attached) -> str:
    """Return the name and size of an attachment."""
    size = f"{count(event.tokens)} tokens" if event.tokens else "not attached"
    note = one_line(event.note, 200)
    facts = note if note.startswith(size) else f"{size}; {note}" if note else size
    return f"{event.kind} {one_line(event.name, 100)}: {facts}"
