"""Convert HTML to Markdown in a child process, because the page is untrusted and may be made to be slow."""

import re
import sys
from typing import Any

_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "button", "dialog")
_AROUND = ("nav", "header", "footer", "aside", "form")
_BLOCKS = (
    "address aside center details fieldset figure footer form header hgroup legend main nav search summary".split()
)
"""Elements on lines of their own that the converter takes for inline ones."""
_ENDS = {
    "li": ("li",),
    "tr": ("tr",),
    **dict.fromkeys(("dt", "dd"), ("dt", "dd")),
    **dict.fromkeys(("td", "th"), ("td", "th")),
    **dict.fromkeys(("thead", "tbody", "tfoot"), ("thead", "tbody", "tfoot")),
}
"""Elements, and those that end where they begin, unless one of `_LIMITS` is between."""
_LIMITS = ("table", "ul", "ol", "menu", "dl")
_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LEAST_SHARE = 0.25
"""Minimum share of the page's text for an element to count as its main part."""
_DEPTH = 10_000


def work(request: bytes) -> bytes:
    """Return the Markdown of a UTF-8 page."""
    sys.setrecursionlimit(_DEPTH)  # of a process of its own
    return markdown(request.decode("utf-8", "replace")).encode("utf-8", "replace")


def markdown(html: str) -> str:
    """Return title and main text, without scripts, styles and page frame.

    Raises:
        RecursionError: the page is nested too deeply for the converter.
    """
    from markdownify import MarkdownConverter

    soup = _parsed(html)
    for tag in soup(_DROPPED):
        tag.decompose()
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    _drop(soup, [*soup(hidden=True), *soup(style=_UNSEEN)])
    body = _main(soup)
    for tag in soup(_BLOCKS):
        tag.name = "div"
    text = MarkdownConverter(heading_style="ATX", bullets="-", strip=["img"]).convert_soup(body)
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return f"# {title}\n\n{text}" if title and not text.startswith(f"# {title}") else text


def _parsed(html: str) -> Any:
    """Return the tree of a page. The parser itself takes `<li>a<li>b` for an item within another."""
    from bs4 import BeautifulSoup

    class Page(BeautifulSoup):
        def handle_starttag(self, name: str, *rest: Any, **more: Any) -> Any:
            ends = _ENDS.get(name, ())
            if ends:
                around = (tag.name for tag in reversed(self.tagStack) if tag.name in (*ends, *_LIMITS))
                if (nearest := next(around, "")) in ends:
                    self.handle_endtag(nearest)
            return super().handle_starttag(name, *rest, **more)

    return Page(html, "html.parser")


def _main(soup: Any) -> Any:
    """Return the element with the main text: <main> or <article> if large enough, otherwise everything except the
    page frame."""
    whole = soup.body or soup
    total = _length(whole)
    for name in ("main", "article"):
        found = soup.find_all(name)
        if len(found) == 1 and _length(found[0]) >= _LEAST_SHARE * total:
            _drop(found[0], found[0]("form"))
            return found[0]
    _drop(whole, whole(_AROUND))
    return whole


def _drop(whole: Any, tags: list[Any]) -> None:
    """Remove elements, but not one that holds most of the text, as a form around the whole page does."""
    total = _length(whole)
    for tag in tags:
        if not tag.decomposed and _length(tag) < (1 - _LEAST_SHARE) * total:
            tag.decompose()


def _length(tag: Any) -> int:
    return len(tag.get_text(strip=True))
