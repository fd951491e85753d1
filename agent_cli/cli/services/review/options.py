"""The options of `agent review` and `/review`. Separate from their implementation: help imports only this
module."""

import shlex
from typing import Any

from agent_cli.bootstrap.options import SHARED, Option, UsageError, store_value

FORMATS = ("text", "json", "sarif", "github", "rdjsonl", "gitlab", "pr-review")
PRIORITIES = ("P0", "P1", "P2", "P3")
TARGETS: tuple[Option, ...] = (
    Option(("--base",), "text", "Review the commits on HEAD that are not on REF.", value="REF"),
    Option(("--commit",), "text", "Review one commit.", value="SHA"),
    Option(("--uncommitted",), "flag", "Review staged, unstaged and new files."),
    Option(("--patch",), "text", "Review a patch, applied or not; - is standard input.", value="FILE"),
)
LIMITS: tuple[Option, ...] = (
    Option(("--max-findings",), "whole", "Stop after this many confirmed findings.", value="N"),
    Option(("--max-cost",), "number", "Limit on the cost of the whole review, in US dollars.", value="USD"),
    Option(("--timeout",), "number", "Limit on the whole review, in seconds.", value="SECONDS"),
)
PREVIOUS = Option(
    ("--previous",), "text", "JSON of the last review, to tell new findings from known ones.", value="FILE"
)
OUTPUT = (
    Option(("--format",), "text", "Format of the result; default: text.", FORMATS),
    Option(
        ("--fail-on",),
        "text",
        "Exit with 8 if a finding has this priority or a higher one; default: P3.",
        PRIORITIES,
    ),
    PREVIOUS,
    Option(("--output-file", "-o"), "text", "Write the result to this file instead.", value="FILE"),
    Option(("--also",), "list", "Also write the review to FILE in this format (repeatable).", value="FORMAT=FILE"),
    Option(("--quiet", "-q"), "flag", "Print no progress on standard error."),
)
_SESSION = ("model", "effort", "max_turns", "cd", "config", "set", "no_hooks", "no_session", "debug")
SESSION_OPTIONS = tuple(option for option in SHARED if option.key in _SESSION)
"""The session options that also apply to a review; its mode and tools are fixed."""
OPTIONS = (*TARGETS, *OUTPUT, *LIMITS, *SESSION_OPTIONS)


def typed_options(text: str) -> dict[str, Any]:
    """Return the options typed after `/review`; other words are instructions.

    Raises:
        UsageError: an option is unknown, or lacks its value.
    """
    known = {option.names[0]: option for option in (*TARGETS, *LIMITS, PREVIOUS)}
    try:
        words = shlex.split(text)
    except ValueError:  # an apostrophe is not a quotation mark
        words = text.split()
    values: dict[str, Any] = {}
    rest: list[str] = []
    while words:
        word = words.pop(0)
        name, equals, attached = word.partition("=")
        if not word.startswith("--"):
            rest.append(word)
        elif (option := known.get(name)) is None:
            raise UsageError(f"unknown option {name}; the options are {', '.join(known)}")
        elif option.kind == "flag":
            values[option.key] = True
        elif not equals and not words:
            raise UsageError(f"{name} needs a value")
        else:
            store_value(values, option, attached if equals else words.pop(0))
    return {**values, "positional": " ".join(rest)}
