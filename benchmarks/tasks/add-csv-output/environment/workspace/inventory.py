"""Print the items of a stock file."""

import json
import sys


def main(arguments):
    with open(arguments[0], encoding="utf-8") as file:
        items = json.load(file)
    for item in items:
        print(f"{item['name']}: {item['quantity']} at {item['price']:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
