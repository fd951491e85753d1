"""Markdown blocks drawn by Rich and code lines coloured by Pygments. Imported only when first needed.

Raw HTML is text, links show their address, headings stay at the left, and code has neither frame nor
background, so that it can be copied out of the terminal.
"""

import io
import re
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token as Mark
from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Comment, Generic, Keyword, Name, Number, String, Token  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.text import Text
from rich.theme import Theme as RichTheme

from .theme import Role, Theme

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
_TRAILING = re.compile(r" +((?:\x1b\[0m)*)$")
_MAX_CODE_LINE = 1000

_CODE_ROLES: tuple[tuple[Any, Role], ...] = (
    (Comment, "reasoning"),
    (Keyword, "accent"),
    (String, "ok"),
    (Number, "warning"),
    (Name.Function, "strong"),
    (Name.Class, "strong"),
    (Name.Decorator, "warning"),
    (Name.Tag, "accent"),
    (Generic.Inserted, "added"),
    (Generic.Deleted, "removed"),
    (Generic.Subheading, "hunk"),
    (Generic.Heading, "strong"),
)


class RichBlocks:
    """`Blocks` in the colours of a theme."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._styles = RichTheme(_styles(theme), inherit=True)

    def block(self, source: str, width: int, number: int | None) -> list[str]:
        """A Markdown block, wrapped at `width`."""
        out = io.StringIO()
        console = Console(
            file=out,
            width=width,
            force_terminal=self._theme.colour,
            color_system="standard" if self._theme.colour else None,
            no_color=not self._theme.colour,
            theme=self._styles,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )
        marks = _PARSER.parse(source.expandtabs(4))
        if number is not None and marks:
            marks[0].attrs["start"] = number
        console.print(_Document(marks))
        if not out.getvalue().strip():  # such as `8081.`, which Markdown takes for an empty list item
            return source.rstrip().split("\n")
        return [_TRAILING.sub(r"\1", line) for line in out.getvalue().strip("\n").split("\n")]

    def code(self, line: str, language: str) -> str:
        """One line of code, coloured on its own."""
        line = line.expandtabs(4)
        lexer = _lexer(language)
        if lexer is None or len(line) > _MAX_CODE_LINE or not self._theme.colour:
            return line
        return "".join(self._painted(kind, value) for kind, value in lexer.get_tokens(line))

    def _painted(self, kind: Any, value: str) -> str:
        while kind is not Token:
            for wanted, role in _CODE_ROLES:
                if kind is wanted:
                    return self._theme.paint(role, value)
            kind = kind.parent
        return value


class _Document(Markdown):
    """Rich's Markdown on a parse of ours."""

    def __init__(self, marks: list[Mark]) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = marks


class _LeftHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _BareCode(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in str(self.text).rstrip().split("\n"):
            yield Text("  " + line, overflow="fold")


_Document.elements = {
    **Markdown.elements,
    "heading_open": _LeftHeading,
    "fence": _BareCode,
    "code_block": _BareCode,
}


def _styles(theme: Theme) -> dict[str, str]:
    if not theme.colour:
        return dict.fromkeys(("markdown.code", "markdown.h1", "markdown.h2"), "none")
    names = {"31": "red", "32": "green", "33": "yellow", "34": "blue", "35": "magenta", "36": "cyan"}
    accent = names.get(theme.codes.get("accent", ""), "bold")
    plain = {f"markdown.h{level}": "bold" for level in range(1, 7)}
    return {
        **plain,
        "markdown.h1": "bold underline",
        "markdown.code": accent,
        "markdown.code_block": "none",
        "markdown.block_quote": "italic",
        "markdown.list": "none",
        "markdown.item.bullet": accent,
        "markdown.item.number": accent,
        "markdown.link": "bold",
        "markdown.link_url": "underline",
        "markdown.table.border": "none",
        "markdown.table.header": "bold",
    }


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None
