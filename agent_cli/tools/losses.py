"""Text that would be lost by accident: comments that stand for code left out, and rewrites that bring much less
than what they replace. Apart, since telling accident from intent is a matter of judgement with its own cases."""

import re
from collections import Counter

from .base import ToolError

_MARK = r"(?://+|#+|/\*+|<!--|--|;+|%|\*|\{/\*|\"\"\"|''')"
_DOTS = r"(?:\.\.\.|…)"
_WHAT = (
    r"(?:code|file|function|method|class|implementation|content|component|module|script|imports?|logic|section|body"
    r"|lines?|definitions?|tests?|styles?|rules|fields|props|handlers|routes|cases|text|document)s?"
)
_LEFT = (
    r"(?:rest|remaining|remainder|existing|unchanged|unmodified|omitted|same as|previous|other|keep|snip"
    r"|truncated)"
)
_STRONG = re.compile(
    rf"^[ \t]*{_MARK}[ \t]*[\[(<]?{_DOTS}[ \t]*[(\[]?(?:the |all |your )*{_LEFT}\b.*$"
    rf"|^[ \t]*{_MARK}[ \t]*[\[(<]?(?:the |all |your )*{_LEFT}(?: of)?\b.{{0,40}}{_DOTS}.*$"
    rf"|^[ \t]*[\[(<]?{_DOTS}[ \t]+[(\[]?(?:the |all |your )*{_LEFT}\b.*$"
    rf"|^[ \t]*[\[(<]{_DOTS}[ \t]*(?:the )?{_LEFT}\b.*[\])>]$"
    rf"|^[ \t]*{_DOTS}{_LEFT} of\b.*$"
    rf"|^[ \t]*{_MARK}[ \t]*[\[(<]?(?:the |all |your )*(?:rest|remainder) of (?:the |this |your )*(?:\w+ )?"
    rf"{_WHAT}\b.{{0,20}}\b(?:unchanged|here|stays?|remains?|same|as before|omitted|below|above)\b.*$"
    rf"|^[ \t]*{_MARK}[ \t]*[\[(<]?(?:the |all |your )*(?:remaining|existing|previous|other) (?:\w+ )?{_WHAT}"
    r" .{0,20}\b(?:unchanged|here|stays?|remains?|same|as before|omitted|goes)\b.*$"
    rf"|^[ \t]*{_MARK}?[ \t]*[\[(<](?:the )?(?:rest|remainder) of (?:the )?{_WHAT}\b[^\])>]*[\])>]$"
    rf"|^[ \t]*{_MARK}[ \t]*.{{0,40}}\b(?:omitted|left out|truncated|elided) for (?:brevity|clarity)\b.*$"
    rf"|^[ \t]*{_MARK}[ \t]*[\[(<]?(?:unchanged|no changes?(?: here)?|same as (?:before|above))[\])>]?[ \t]*"
    r"(?:\*+/|-->|\*/\})?$",
    re.IGNORECASE | re.MULTILINE,
)
_WEAK = re.compile(
    rf"^[ \t]*{_MARK}[ \t]*(?:{_DOTS}[ \t]*)+(?:\*+/|-->|\*/\}})?$"
    rf"|^[ \t]*{_MARK}[ \t]*[\[(<]?(?:the )?(?:rest of|remaining|existing|previous) (?:the |this |your )*(?:\w+ )?"
    rf"{_WHAT}[\])>.:]*[ \t]*(?:\*+/|-->|\*/\}})?$",
    re.IGNORECASE | re.MULTILINE,
)
"""Innocent as such; telling when the text becomes shorter too."""
_MAX_SHARE = 0.3
_MIN_LOST = 10
_DEFINITION = re.compile(
    r"^\s*(?:(?:export|default|public|private|protected|static|async|pub|abstract|final|unsafe|virtual|inline)\s+)*"
    r"(?:def|class|function|fn|func|interface|struct|impl|enum|trait|type|module|namespace|package|message|service"
    r"|CREATE|resource)\b|^#{1,6} |^\[[\w.\"-]+\]$|^[\w.-]+:\s*$",
)
_MAX_NAMED = 6


def refuse_elision(new: str, old: str, what: str) -> None:
    """Refuse text in which a line stands for text that was left out.

    Raises:
        ToolError: `new` has such a line and `old` has not.
    """
    shorter = _line_count(new) < _line_count(old)
    for pattern in (_STRONG, _WEAK) if shorter else (_STRONG,):
        for found in pattern.finditer(new):
            line = found.group().strip()
            if line not in old:
                raise ToolError(
                    f"{what} contains the line {line!r}, which stands for text that was left out and would be"
                    " lost. Nothing was written. Give the full text, or change only the part that differs."
                )


def refuse_shrinking(before: str, after: str, shown: str) -> None:
    """Refuse a rewrite that brings back much less than it replaces.

    Raises:
        ToolError: more than 30 % of the lines, and ten at least, would be gone; the text names the first.
    """
    old, new = _line_count(before), _line_count(after)
    if old - new < _MIN_LOST or old - new <= old * _MAX_SHARE or _weight(after) > 0.8 * _weight(before):
        return
    gone = _gone(before, after)
    named = [each for each in gone if _DEFINITION.match(each[1])] or gone
    listed = "\n".join(f"{number}\t{line.rstrip()[:120]}" for number, line in named[:_MAX_NAMED])
    more = f"\n… and {len(gone) - len(named[:_MAX_NAMED])} more lines" if len(gone) > _MAX_NAMED else ""
    raise ToolError(
        f"This would cut {shown} from {old} to {new} lines (blank ones not counted). Nothing was written. Among"
        f" what would be lost:\n{listed}{more}\nIf that is meant, send it again with may_shrink: true. If not,"
        " give the whole file, or change the part that differs with edit_file."
    )


def _gone(before: str, after: str) -> list[tuple[int, str]]:
    """Lines of `before`, with their numbers, that `after` does not have."""
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
    """Characters that are not blank."""
    return len(text) - text.count(" ") - text.count("\t") - text.count("\n") - text.count("\r")
