"""Plain text of an HTML page, used if the converter of `html_text` fails. Takes time linear in the length of the
page, whatever its contents."""

import re

_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9-]{0,20})")
_UNSEEN_ENDS = {
    name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style", "noscript", "template", "svg")
}
_INLINE = frozenset(
    "a abbr b bdi bdo cite code data dfn em font i kbd mark q s samp small span strong sub sup u var wbr".split()
)


def work(request: bytes) -> bytes:
    """Return the text of a UTF-8 page."""
    return bare_text(request.decode("utf-8", "replace")).encode("utf-8", "replace")


def bare_text(html: str) -> str:
    """Return the text between the tags, one line per block, without parts that are never displayed."""
    from html import unescape

    out: list[str] = []
    at = 0
    while (start := html.find("<", at)) >= 0:
        out.append(html[at:start])
        at, gap = _after_tag(html, start)
        out.append(gap)
    out.append(html[at:])
    lines = (" ".join(line.split()) for line in "".join(out).split("\n"))
    return unescape("\n".join(line for line in lines if line))


def _after_tag(html: str, start: int) -> tuple[int, str]:
    """Return the offset after the markup that begins with this `<`, and its replacement text. An unclosed comment
    or hidden element extends to the end of the page."""
    if html.startswith("<!--", start):
        return _end(html.find("-->", start), 3, html), ""
    tag = _TAG.match(html, start)
    if tag is None and html[start + 1 : start + 2] not in ("!", "?", "/"):
        return start + 1, "<"
    end = _end(html.find(">", start), 1, html)
    name = tag.group(1).lower() if tag else ""
    if name in _UNSEEN_ENDS and html[start + 1] != "/":
        closing = _UNSEEN_ENDS[name].search(html, end)
        return (closing.start() if closing else len(html)), ""
    return end, "" if name in _INLINE else "\n"


def _end(found: int, width: int, html: str) -> int:
    return found + width if found >= 0 else len(html)
