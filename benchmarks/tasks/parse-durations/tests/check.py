import os
import sys

sys.path.insert(0, os.getcwd())
from durations import parse

right = {
    "90s": 90, "1h30m": 5400, "2d 4h": 187200, " 1W ": 604800, "1w1d1h1m1s": 694861, "-1h30m": -5400, "-0s": 0,
    "0": 0, "007s": 7, "1.5m": 90, "1h 0.5m": 3630, "1H30M": 5400, "10000000000000000001s": 10000000000000000001,
    "0.1m": 6, " -2s": -2, "0.7h": 2520,
}  # fmt: skip
for text, seconds in right.items():
    found = parse(text)
    assert found == seconds and isinstance(found, int), (text, found)
wrong = ["", " ", "5", "30m1h", "1h1h", "1.5h30m", "0.0001s", "1 h", "- 1h", "--1h", "1h-30m", "+1h", "h", ".5h", "1.h",
         "1h,30m", "1y", "١s", "1h30", "-", "1_0s"]  # fmt: skip
for text in wrong:
    try:
        found = parse(text)
    except ValueError:
        continue
    raise AssertionError(f"{text!r} gave {found!r}")
print("every check passed")
