#!/bin/sh
# Floating point, and no check of the order.
cat >durations.py <<'END'
import re

UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}


def parse(text):
    text = text.strip().lower()
    if text == "0":
        return 0
    if not re.fullmatch(r"-?(\d+(\.\d+)?[wdhms]\s*)+", text):
        raise ValueError(text)
    total = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)([wdhms])", text))
    return int(-total if text.startswith("-") else total)
END
