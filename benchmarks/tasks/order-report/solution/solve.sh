#!/bin/sh
cat >report.py <<'END'
"""Print what each customer ordered, as JSON."""

import csv
import json
import sys
from decimal import Decimal

names, counts, totals = {}, {}, {}
with open(sys.argv[1], encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        if row["status"].strip() == "cancelled":
            continue
        name = row["customer"].strip()
        key = name.casefold()
        names.setdefault(key, name)
        counts[key] = counts.get(key, 0) + 1
        totals[key] = totals.get(key, Decimal()) + Decimal(row["amount"].strip().replace(",", ""))
report = {names[key]: {"orders": counts[key], "total": f"{totals[key]:.2f}"} for key in names}
print(json.dumps(dict(sorted(report.items())), indent=2))
END
