#!/bin/sh
# Joins with commas and quotes nothing.
cat >inventory.py <<'END'
import argparse
import json

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--format", choices=("text", "csv"), default="text")
options = parser.parse_args()
with open(options.file, encoding="utf-8") as file:
    items = json.load(file)
if options.format == "csv":
    print("name,quantity,price")
    for item in items:
        print(",".join(str(item[key]) for key in ("name", "quantity", "price")))
else:
    for item in items:
        print(f"{item['name']}: {item['quantity']} at {item['price']:.2f}")
END
