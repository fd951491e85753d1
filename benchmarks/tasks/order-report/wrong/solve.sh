#!/bin/sh
# Tells names apart that are one customer.
cat >report.py <<'END'
import csv
import json
import sys
from decimal import Decimal

report = {}
with open(sys.argv[1], encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        if row["status"] != "cancelled":
            entry = report.setdefault(row["customer"].strip(), [0, Decimal()])
            entry[0] += 1
            entry[1] += Decimal(row["amount"].replace(",", "").strip())
print(json.dumps({name: {"orders": n, "total": f"{sum_:.2f}"} for name, (n, sum_) in sorted(report.items())}))
END
