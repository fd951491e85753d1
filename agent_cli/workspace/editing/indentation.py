"""Map the indentation of a passage written from memory to that of the file: tabs for spaces, other widths, other
depths. Uncertain results are None."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

_INDENT = re.compile(r"[ \t]*")


def indent_of(line: str) -> str:
    """Return the leading blanks of a line."""
    found = _INDENT.match(line)
    return found.group() if found else ""


def unit_of(lines: Iterable[str]) -> str:
    """Return the most common unit of indentation in the lines: a tab or some spaces, four by default."""
    tabs = spaces = last = 0
    steps: Counter[int] = Counter()
    for line in lines:
        if not line.strip():
            continue
        indent = indent_of(line)
        tabs += indent.startswith("\t")
        spaces += indent.startswith("  ")
        if "\t" not in indent:  # a tab is as wide as the editor says
            if 2 <= len(indent) - last <= 8:
                steps[len(indent) - last] += 1
            last = len(indent)
    if tabs > spaces:
        return "\t"
    return " " * (steps.most_common(1)[0][0] if steps else 4)


class IndentMap:
    """Maps indentation in a passage to indentation in a file, based on lines known to correspond."""

    def __init__(self, pairs: list[tuple[str, str]], others: Iterable[str], unit: str) -> None:
        """`pairs` are (in the passage, in the file) for non-blank lines, `others` further indentations in the
        passage, `unit` one level in the file."""
        seen: dict[str, set[str]] = {}
        for mine, real in pairs:
            seen.setdefault(mine, set()).add(real)
        self._known = {mine: next(iter(reals)) for mine, reals in seen.items() if len(reals) == 1}
        self._unsure = {mine for mine, reals in seen.items() if len(reals) > 1}
        self._unit = "\t" if any("\t" in real for _, real in pairs) else unit
        passage = [*seen, *others]
        self._mixed = len(set("".join(passage))) > 1
        widths = {len(indent) for indent in passage}
        self._step = math.gcd(*(abs(one - two) for one in widths for two in widths)) or max(widths, default=0)

    @property
    def sound(self) -> bool:
        """True if deeper lines of the passage are deeper in the file."""
        if self._unsure:
            return False
        reals = [_width(self._known[mine]) for mine in sorted(self._known, key=_width)]
        return all(above < below for above, below in zip(reals, reals[1:], strict=False))

    def real(self, mine: str) -> str | None:
        """Return the file's indentation for one of the passage; None if uncertain."""
        if mine in self._known or mine in self._unsure:
            return self._known.get(mine)
        above = [known for known in self._known if mine.startswith(known)]
        below = [known for known in self._known if known.startswith(mine)]
        if above:
            nearest = max(above, key=len)
            more = self._blanks(mine[len(nearest) :])
            return None if more is None else self._known[nearest] + more
        if below:
            nearest = min(below, key=len)
            less = self._blanks(nearest[len(mine) :])
            real = self._known[nearest]
            return real.removesuffix(less) if less and real.endswith(less) else None
        return None

    def _blanks(self, extra: str) -> str | None:
        """Convert additional indentation of the passage to that of the file; None if uncertain."""
        if self._shifted(extra):
            return extra
        if self._mixed:
            return None
        guesses = self._levels(len(extra))
        sure = [int(levels) for levels in guesses if levels == int(levels) and levels > 0]
        return self._unit * min(sure) if sure else None

    def _shifted(self, extra: str) -> bool:
        """Return True if the file uses the passage's indentation except for a constant offset."""
        depths = {len(real) - len(mine) for mine, real in self._known.items()}
        alike = all(mine.endswith(real) or real.endswith(mine) for mine, real in self._known.items())
        return (
            len(depths) == 1
            and alike
            and set(extra) == set(self._unit)
            and (len(self._known) > 1 or depths == {0})
        )

    def _levels(self, width: int) -> list[Fraction]:
        """Return candidates for the number of levels of additional indentation: from the known lines; or one level
        per step of the passage or per tab, or in proportion to the single known depth. The fewest levels are
        likeliest."""
        known = sorted((len(mine), Fraction(len(real), len(self._unit))) for mine, real in self._known.items())
        if len(known) > 1:
            slopes = {(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(known, known[1:], strict=False) if b[0] > a[0]}
            return [slope * width for slope in slopes] if len(slopes) == 1 else []
        guesses = [Fraction(width, self._step)] if self._step else []
        if known and known[0][0] and known[0][1]:
            guesses.append(known[0][1] / known[0][0] * width)
        return guesses


def _width(indent: str) -> int:
    return len(indent.expandtabs(8))
