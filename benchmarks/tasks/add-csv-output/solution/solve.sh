#!/bin/sh
cat >inventory.py <<'END'
"""Print the items of a stock file."""

import argparse
import csv
import json
import sys


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--format", choices=("text", "csv"), default="text")
    options = parser.parse_args(arguments)
    with open(options.file, encoding="utf-8") as file:
        items = json.load(file)
    if options.format == "csv":
        table = csv.writer(sys.stdout, lineterminator="\n")
        table.writerow(("name", "quantity", "price"))
        table.writerows((item["name"], item["quantity"], item["price"]) for item in items)
        return 0
    for item in items:
        print(f"{item['name']}: {item['quantity']} at {item['price']:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
END
