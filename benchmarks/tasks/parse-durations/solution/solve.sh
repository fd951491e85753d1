#!/bin/sh
cat >durations.py <<'END'
"""Read durations, as SPEC.md describes them."""

import re
from fractions import Fraction

_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([wdhmsWDHMS])(?: *)")


def parse(text):
    """Return a duration in whole seconds, or raise ValueError."""
    rest = text.strip(" ")
    if rest == "0":
        return 0
    sign = -1 if rest.startswith("-") else 1
    rest = rest.removeprefix("-")
    total, smallest, fraction = Fraction(), None, False
    while rest:
        part = _PART.match(rest)
        if part is None or fraction:
            raise ValueError(f"not a duration: {text!r}")
        number, size = part[1], _UNITS[part[2].lower()]
        if smallest is not None and size >= smallest:
            raise ValueError(f"units out of order: {text!r}")
        total += Fraction(number) * size
        smallest, fraction, rest = size, "." in number, rest[part.end() :]
    if smallest is None or total.denominator != 1:
        raise ValueError(f"not a duration: {text!r}")
    return sign * int(total)
END
