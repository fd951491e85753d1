"""The inside of Markdown blocks as text with styles. Addresses are shown once each, code keeps its blanks."""

from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token as Mark
from rich.text import Text

from agent_cli.protocol.sanitize import clean

from ..text.rich_text import style
from ..text.theme import Role, Theme

PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": 200}).enable(["strikethrough", "table"])
PARSER.disable("reference")  # its text would vanish, and most of what refers to it stands in another block
_OPENS: dict[str, Role] = {"strong_open": "strong", "em_open": "emphasis", "s_open": "struck", "link_open": "link"}


def inline(marks: Sequence[Mark], theme: Theme, *base: Role) -> Text:
    """Inline marks as text, with a line break where one is asked for."""
    text = Text()
    looks: list[tuple[Role, ...]] = [base]
    links: list[tuple[str, int]] = []
    for mark in marks:
        if mark.type in _OPENS:
            looks.append((*looks[-1], _OPENS[mark.type]))
            if mark.type == "link_open":
                links.append((str(mark.attrs.get("href", "")), len(text)))
        elif mark.nesting < 0:
            looks.pop()
            if mark.type == "link_close":
                address, first = links.pop()
                text.append(_address(address, text.plain[first:]), style(theme, *looks[-1]))
        elif mark.type == "code_inline" and theme.colour:
            text.append(safe(mark.content), style(theme, *looks[-1], "code"))
        else:
            text.append(_leaf(mark), style(theme, *looks[-1]))
    return text


def _leaf(mark: Mark) -> str:
    match mark.type:
        case "code_inline":
            return f"`{safe(mark.content)}`"
        case "softbreak":
            return " "
        case "hardbreak":
            return "\n"
        case "image":
            alt = safe(mark.content)
            return f"[image{': ' * bool(alt)}{alt}] ({safe(str(mark.attrs.get('src', '')))})"
        case _:
            return safe(mark.content)


def safe(text: str) -> str:
    """Return what the parser has read, made safe once more: Markdown can spell any character as an entity."""
    return text if text.isascii() and text.isprintable() else clean(text)


def _address(address: str, text: str) -> str:
    """Return where a link leads, unless its text says so."""
    said = {address, address.removeprefix("mailto:")}
    return "" if not address or text in said or PARSER.normalizeLink(text) in said else f" ({safe(address)})"
