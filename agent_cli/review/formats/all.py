"""The table of formats."""

from collections.abc import Callable

from agent_cli import __version__

from ..finding import Review, as_json
from .diagnostics import gitlab, rdjsonl
from .github import commands
from .inert import dumped
from .pull_request import pull_request_review
from .sarif import sarif
from .text import text_lines


def rendered(review: Review, format: str) -> str:
    """Return a review in one of `FORMATS`; every line ends with a line break."""
    return _FORMATS[format](review)


_FORMATS: dict[str, Callable[[Review], str]] = {
    "text": lambda review: "".join(f"{line}\n" for line in text_lines(review)),
    "json": lambda review: dumped(as_json(review, __version__), indent=2),
    "sarif": lambda review: dumped(sarif(review), indent=2),
    "github": lambda review: "".join(f"{line}\n" for line in commands(review)),
    "rdjsonl": lambda review: "".join(map(dumped, rdjsonl(review))),
    "gitlab": lambda review: dumped(gitlab(review), indent=2),
    "pr-review": lambda review: dumped(pull_request_review(review), indent=2),
}
FORMATS = tuple(_FORMATS)
