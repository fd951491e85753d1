"""Read and write records."""

import json
import pathlib


def load(path):
    """Return the record in a file."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(path, record):
    """Write a record, and return what load reads back."""
    pathlib.Path(path).write_text(json.dumps(record), encoding="utf-8")
    return load(path)
