"""Convert HTML to Markdown in a child process, because the page is untrusted and may be made to be slow."""

import re
import sys
from typing import Any

_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "form", "button", "dialog")
_AROUND = ("nav", "header", "footer", "aside")
_LEAST_SHARE = 0.25
"""Minimum share of the page's text for an element to count as its main part."""
_DEPTH = 10_000


def work(request: bytes) -> bytes:
    """Return the Markdown of a UTF-8 page."""
    return markdown(request.decode("utf-8", "replace")).encode("utf-8", "replace")


def markdown(html: str) -> str:
    """Return title and main text, without scripts, styles and page frame.

    Raises:
        RecursionError: the page is nested too deeply for the converter.
    """
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    sys.setrecursionlimit(_DEPTH)
    soup: Any = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup(_DROPPED):
        tag.decompose()
    body = _main(soup)
    text = MarkdownConverter(heading_style="ATX", bullets="-", strip=["img"]).convert_soup(body)
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return f"# {title}\n\n{text}" if title and not text.startswith(f"# {title}") else text


def _main(soup: Any) -> Any:
    """Return the element with the main text: <main> or <article> if large enough, otherwise everything except the
    page frame."""
    whole = soup.body or soup
    total = len(whole.get_text(strip=True))
    for name in ("main", "article"):
        found = soup.find_all(name)
        if len(found) == 1 and len(found[0].get_text(strip=True)) >= _LEAST_SHARE * total:
            return found[0]
    for tag in whole(_AROUND):
        if len(tag.get_text(strip=True)) < (1 - _LEAST_SHARE) * total:
            tag.decompose()
    return whole
