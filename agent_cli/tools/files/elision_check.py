"""Detect accidental loss of text: comments that stand for omitted code, and rewrites much shorter than what they
replace. A separate module, because telling accident from intent is a matter of judgement with many special
cases."""

import re
from collections import Counter
from pathlib import PurePath

from ..kit.base import ToolError

PROSE_SUFFIXES = frozenset((".md", ".markdown", ".mdx", ".txt", ".rst", ".adoc", ".tex", ".org", ".po"))
_MARK = r"(?://+|#+|/\*+|<!--|--|;+|%|\*|\{/\*|\"\"\"|''')"
_DOTS = r"(?:\.\.\.|…)"
_OPEN = r"[\[(<]?(?:the |all |your )*"
_CLOSE = r"[\])>.]*[ \t]*(?:\*+/|-->|\*/\})?$"
_WHAT = (
    r"(?:code|file|function|method|class|implementation|content|component|module|script|imports?|logic|section|body"
    r"|lines?|definitions?|tests?|styles?|rules|fields|props|handlers|routes|cases|text|document)s?"
)
_LEFT = (
    r"(?:rest|remaining|remainder|existing|unchanged|unmodified|omitted|same as|previous|other|keep|snip"
    r"|truncated)"
)
_STAYS = r"\b(?:unchanged|here|stays?|remains?|same|as before|omitted|below|above|goes)\b"
_ALWAYS = (
    (rf"{_MARK}[ \t]*[\[(<]?{_DOTS}[ \t]*[(\[]?(?:the |all |your )*{_LEFT}\b.*$", "# ... rest of the file"),
    (rf"(?!\*|##){_MARK}[ \t]*{_OPEN}{_LEFT}(?: of)?\b.{{0,40}}{_DOTS}.*$", "# other methods ..."),
    (
        rf"{_DOTS}[ \t]*[(\[]?(?:the |all |your )*{_LEFT}(?: of)? (?:the )?(?:\w+ )?{_WHAT}\b"
        rf"(?:{_CLOSE}|.*{_STAYS})",
        "... rest of the code",
    ),
    (rf"{_MARK}[ \t]*{_OPEN}(?:unchanged|no changes?(?: here)?|same as (?:before|above)){_CLOSE}", "// unchanged"),
)
_EVEN_IN_PROSE = (
    (rf"[\[(<]{_DOTS}[ \t]*(?:the )?{_LEFT}\b.*[\])>]$", "[... rest of the document ...]"),
    (
        rf"{_MARK}?[ \t]*[\[(<](?:the )?(?:rest|remainder) of (?:the )?{_WHAT}\b[^\])>]*[\])>]$",
        "(rest of the function)",
    ),
    (
        rf"{_MARK}[ \t]*{_OPEN}(?:rest|remainder) of (?:the |this |your )*(?:\w+ )?{_WHAT}\b.{{0,20}}{_STAYS}.*$",
        "# rest of the code stays the same",
    ),
    (
        rf"{_MARK}[ \t]*{_OPEN}(?:remaining|existing|previous|other) (?:\w+ )?{_WHAT} .{{0,20}}{_STAYS}.*$",
        "// existing implementation goes here",
    ),
    (
        rf"{_MARK}[ \t]*.{{0,40}}\b(?:omitted|left out|truncated|elided) for (?:brevity|clarity)\b.*$",
        "# code omitted for brevity",
    ),
    (rf"<!--[ \t]*{_DOTS}[ \t]*{_LEFT}\b.*-->$", "<!-- ... remaining items -->"),
)
_WHERE_SHORTER = (
    (rf"{_MARK}[ \t]*(?:{_DOTS}[ \t]*)+(?:\*+/|-->|\*/\}})?$", "# ..."),
    (
        rf"{_MARK}[ \t]*[\[(<]?(?:the )?(?:rest of|remaining|existing|previous) (?:the |this |your )*(?:\w+ )?"
        rf"{_WHAT}[:]?{_CLOSE}",
        "# rest of the code",
    ),
)
"""Each entry: a pattern for a line that stands for omitted text (after leading blanks), and an example. The last
entries count only when the text becomes shorter too."""
_MAX_SHARE = 0.3
_MIN_LOST = 10
_MAX_SHARE_OF_CHARS = 0.5
_MIN_LOST_CHARS = 1000
_DEFINITION = re.compile(
    r"^\s*(?:(?:export|default|public|private|protected|static|async|pub|abstract|final|unsafe|virtual|inline)\s+)*"
    r"(?:def|class|function|fn|func|interface|struct|impl|enum|trait|type|module|namespace|package|message|service"
    r"|CREATE|resource)\b|^#{1,6} |^\[[\w.\"-]+\]$|^[\w.-]+:\s*$",
)
_MAX_NAMED = 6


def refuse_elision(new: str, old: str, what: str, name: str) -> None:
    """Refuse text in which a line stands for omitted text. In prose, recognized by the suffix of `name`, only
    patterns that nobody would write otherwise count.

    Raises:
        ToolError: `new` contains such a line and `old` does not.
    """
    prose = PurePath(name).suffix.lower() in PROSE_SUFFIXES
    table = _EVEN_IN_PROSE if prose else (*_ALWAYS, *_EVEN_IN_PROSE)
    if _line_count(new) < _line_count(old) and not prose:
        table = (*table, *_WHERE_SHORTER)
    for pattern, _ in table:
        for found in re.finditer(rf"^[ \t]*(?:{pattern})", new, re.IGNORECASE | re.MULTILINE):
            line = found.group().strip()
            if line not in old:
                raise ToolError(
                    f"{what} contains the line {line!r}, which stands for text that was left out and would be"
                    " lost. Nothing was written. Give the full text, or change only the part that differs."
                )


def refuse_shrinking(before: str, after: str, shown: str) -> None:
    """Refuse a rewrite that is much shorter than the old text.

    Raises:
        ToolError: more than 30 % of the lines (at least 10) or half of the characters (at least 1000) would be
            lost, not counting blanks; the message lists the first lines.
    """
    old, new = _line_count(before), _line_count(after)
    had, has = _weight(before), _weight(after)
    fewer = old - new >= _MIN_LOST and old - new > old * _MAX_SHARE and has <= 0.8 * had
    less = had - has >= _MIN_LOST_CHARS and had - has > had * _MAX_SHARE_OF_CHARS
    if not fewer and not less:
        return
    gone = _gone(before, after)
    named = [each for each in gone if _DEFINITION.match(each[1])] or gone
    listed = "\n".join(f"{number}\t{line.rstrip()[:120]}" for number, line in named[:_MAX_NAMED])
    more = f"\n… and {len(gone) - len(named[:_MAX_NAMED])} more lines" if len(gone) > _MAX_NAMED else ""
    size = f"{old} to {new} lines" if fewer else f"{had} to {has} characters"
    raise ToolError(
        f"This would cut {shown} from {size} (blank ones not counted). Nothing was written. Among"
        f" what would be lost:\n{listed}{more}\nIf that is meant, send it again with may_shrink: true. If not,"
        " give the whole file, or change the part that differs with edit_file."
    )


def _gone(before: str, after: str) -> list[tuple[int, str]]:
    """Return the lines of `before`, with line numbers, that are missing in `after`."""
    left = Counter(line.strip() for line in after.splitlines())
    gone = []
    for number, line in enumerate(before.splitlines(), 1):
        key = line.strip()
        if left[key] > 0:
            left[key] -= 1
        elif key:
            gone.append((number, line))
    return gone


def _line_count(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def _weight(text: str) -> int:
    """Return the number of non-blank characters."""
    return len(text) - text.count(" ") - text.count("\t") - text.count("\n") - text.count("\r")
