"""What the documentation consists of: its pages, and in each the fenced blocks, the words in backticks and the
links, every one with its place."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


class Block(msgspec.Struct, frozen=True):
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Such as `docs/security.md:12`."""
        return f"{self.page}:{self.line}"

    @property
    def first(self) -> str:
        """Its first line."""
        return self.text.partition("\n")[0]


class Words(msgspec.Struct, frozen=True):
    """What stands in backticks, or the target of a link."""

    place: str
    text: str


def blocks(*languages: str) -> list[Block]:
    """The blocks of all pages in one of these languages; of every language when none is named."""
    return [block for page in PAGES for block in _blocks(page) if not languages or block.language in languages]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(name_of(page), line, found["language"], found["text"])


def name_of(page: Path) -> str:
    """Its path in the repository."""
    return str(page.relative_to(ROOT))


def spans() -> list[Words]:
    """What stands in backticks in the prose of all pages."""
    return [word for page in PAGES for word in _found(_SPAN, page)]


def links(page: Path) -> list[Words]:
    """The targets of links in a page's prose."""
    return list(_found(_LINK, page))


def anchors(page: Path) -> set[str]:
    """What a link may name behind `#`: headings in lower case, with dashes for blanks."""
    headings = _HEADING.findall(_prose(page))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _found(what: re.Pattern[str], page: Path) -> Iterator[Words]:
    for number, line in enumerate(_prose(page).splitlines(), start=1):
        for text in what.findall(line):
            yield Words(f"{name_of(page)}:{number}", text)


def _prose(page: Path) -> str:
    """The text of a page, with blank lines where its blocks are."""
    text = page.read_text(encoding="utf-8")
    return _FENCE.sub(lambda found: "\n" * found.group().count("\n"), text)
