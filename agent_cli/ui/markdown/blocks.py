"""Markdown blocks as rows of the screen. Imported on first use, because the parser is slow to load.

No content is dropped: addresses, cells and references are all shown. Code starts at the left edge, without frame,
background or padding, so that it can be copied out of the terminal. Without colours headings keep their `#` and
code its backticks and fences.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block import table as read_table
from markdown_it.rules_block.table import escapedSplit as split_cells
from markdown_it.rules_block.table import getLine as line_at
from markdown_it.token import Token as Mark

from ..text import lines
from ..text.styled_text import StyledText, look, row, wrap_text
from ..text.theme import Role, Theme
from .inline import PARSER, inline, read, safe
from .paragraph import Paragraph
from .splitter import language
from .tables import table

if TYPE_CHECKING:
    from .highlight import CodeLines

_MAX_CHARS = 300_000
_MAX_OPEN = 40
"""Maximum number of open brackets; the parser searches for the end of each."""
_TOO_DEEP = re.compile(r"(?m)^(?:[ \t]*(?:>|[-+*]|\d+[.)])(?=[ \t>]|$)){40}")
"""Blocks nested too deeply to be drawn."""
_LINE = r"(?:\*\*|`)?[^\W\d_][^\n\r\0\x1c-\x1f\x85\ufeff]*"
"""Excludes characters at the end of a line that are whitespace to Python or to the parser, but not to both."""
_PARAGRAPH = re.compile(rf"{_LINE}(?:\n{_LINE})*+")
_ITEMS = re.compile(rf"([-*+]) {_LINE}(?:\n\1 {_LINE})*+|\d{{1,9}}([.)]) {_LINE}(?:\n\d{{1,9}}\2 {_LINE})*+")
"""A paragraph, and items of one line each: no line begins as another block does. Most text has this form."""
_TASK = re.compile(r"\[([ xX])\] +")
_MAY_BE_BOX = ("[", "\\", "&")
"""First characters of a text that begins with a bracket, escaped or not."""
_BULLETS = "•◦▪"
_RULE = 40
_NARROWEST = 8


def _table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Parse a table, and keep the cells of a row beyond those of the header. The parser drops them, but models
    write `|` in code without a backslash."""
    begin = len(state.tokens)
    if not read_table(state, first, end, silent):
        return False
    cells: list[Mark] = []
    for mark in state.tokens[begin:]:
        if mark.type == "tr_open":
            cells = []
        elif mark.type == "inline":
            cells.append(mark)
        elif mark.type == "tr_close" and cells[0].map and cells[0].map[0] > first:
            for cell, content in zip(cells, _merged(line_at(state, cells[0].map[0]), len(cells)), strict=False):
                cell.content = content
    return True


def _merged(line: str, count: int) -> list[str]:
    """Return the cells of a table row, at most `count`: of more, those are joined that are parts of code, then the
    last ones."""
    parts = split_cells(line.strip().removeprefix("|"))
    while len(parts) > count and not parts[-1].strip():
        parts.pop()
    beyond, is_code = len(parts) - count, False
    cells: list[list[str]] = []
    for part in parts:
        if beyond > 0 and cells and (is_code or len(cells) == count):
            cells[-1].append(part)
            beyond -= 1
        else:
            cells.append([part])
            is_code = False
        is_code ^= part.count("`") % 2 == 1
    return ["|".join(cell).strip() for cell in cells]


PARSER.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})


class _Node(msgspec.Struct):
    """A block with its children."""

    mark: Mark
    children: list["_Node"] = []


class _Row(msgspec.Struct, frozen=True):
    """A finished row."""

    text: str
    at_edge: bool = False
    """True if the row starts at the left edge, regardless of the indent of its list."""


class StyledBlocks:
    """`Blocks` in the colours of a theme."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self._growing = Paragraph(theme, 0)

    def block(self, source: str, width: int, number: int | None) -> list[str]:
        """Return Markdown as rows of about `width` columns; `number` is the number of an ordered list's item."""
        plain = source.rstrip().split("\n")
        if len(source) > _MAX_CHARS or _TOO_DEEP.search(source) or _open_brackets(source) > _MAX_OPEN:
            return plain
        nodes, last = _parsed(source.expandtabs(4))
        if number is not None and nodes:
            nodes[0].mark.attrs["start"] = number
        rows = [row.text for row in _Page(self.theme, last, self._paragraph).rows(nodes, width, 0)]
        return rows if any(rows) else plain  # such as `8081.`, which is an empty list item

    def _paragraph(self, source: str, width: int) -> list[str]:
        """Return the rows of the final paragraph, reusing those of the last call if the paragraph has grown."""
        if not self._growing.goes_on(source, width, self.theme):
            self._growing = Paragraph(self.theme, width)
        return self._growing.rows(source)

    def fence(self, line: str) -> list[str]:
        """Return the text of a fence other than a language; without colours, the fence itself."""
        info = line.strip("`~").strip()
        if not self.theme.colour:
            return [line]
        return [self.theme.paint("muted", info)] if info.lower() != language(info) else []

    def code(self, language: str) -> "StyledCode":
        """Return the renderer of a fenced code block."""
        return StyledCode(self, language)


def _code_lines(language: str) -> "CodeLines":
    """Return a highlighter; its import takes 15 ms, and many conversations show no code."""
    from .highlight import CodeLines

    return CodeLines(language, ("code",))


class StyledCode:
    """`Code` in the theme that its blocks have at the time."""

    def __init__(self, blocks: StyledBlocks, language: str) -> None:
        self._blocks, self._lines = blocks, _code_lines(language)

    def line(self, text: str) -> str:
        """Return the next line."""
        return self._lines.line(text.expandtabs(4), self._blocks.theme)

    def partial_line(self, text: str) -> str:
        """Return the unfinished next line."""
        return self._lines.partial_line(text.expandtabs(4), self._blocks.theme)


def _parsed(source: str) -> tuple[list[_Node], Mark | None]:
    """Parse a text without tabs into blocks, and return them with the last inline text. Simple texts bypass the
    parser, which is slow for them too."""
    if _PARAGRAPH.fullmatch(source):
        text, paragraph = _paragraph(source)
        return [paragraph], text
    if found := _ITEMS.fullmatch(source):
        items = []
        for line in source.split("\n"):
            sign, _, content = line.partition(" ")
            text, paragraph = _paragraph(content, hidden=True)
            items.append(_Node(Mark("list_item_open", "li", 1, info=sign[:-1], markup=sign[-1]), [paragraph]))
        if found[1]:
            return [_Node(Mark("bullet_list_open", "ul", 1), items)], text
        start = int(source[: found.start(2)])
        return [_Node(Mark("ordered_list_open", "ol", 1, attrs={"start": start}), items)], text
    marks = PARSER.parse(source)
    return _tree(iter(marks)), next((mark for mark in reversed(marks) if mark.type == "inline"), None)


def _paragraph(content: str, *, hidden: bool = False) -> tuple[Mark, _Node]:
    """Return a paragraph's inline text and its node; paragraphs are hidden in lists without blank lines."""
    text = Mark("inline", "", 0, content=content.strip(), children=[])
    return text, _Node(Mark("paragraph_open", "p", 1, hidden=hidden), [_Node(text)])


def _tree(marks: Iterator[Mark]) -> list[_Node]:
    """Return the nodes up to the end of the enclosing block."""
    nodes: list[_Node] = []
    for mark in marks:
        if mark.nesting < 0:
            break
        nodes.append(_Node(mark, _tree(marks) if mark.nesting > 0 else []))
    return nodes


class _Page(msgspec.Struct, frozen=True):
    """Drawing of blocks."""

    theme: Theme
    last: Mark | None
    """The last inline text."""
    draw_last: Callable[[str, int], list[str]]

    def rows(self, nodes: Sequence[_Node], width: int, depth: int, tight: bool = False) -> list[_Row]:
        """Return blocks one below another, separated by a blank row unless they are `tight`."""
        found: list[_Row] = []
        for node in nodes:
            own = self._block(node, max(_NARROWEST, width), depth)
            found += [_Row("")] if found and own and not tight else []
            found += own
        return found

    def _block(self, node: _Node, width: int, depth: int) -> list[_Row]:
        match node.mark.type:
            case "paragraph_open":
                return self._paragraph(node, width)
            case "heading_open":
                return self._heading(node, width)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(node, width, depth)
            case "blockquote_open":
                return [self._quoted(row) for row in self.rows(node.children, width - 2, depth)]
            case "fence" | "code_block":
                return self._code(node.mark)
            case "table_open":
                return self._table(node, width)
            case "hr":
                return [_Row(self.theme.paint("muted", "─" * min(width, _RULE)))]
            case _:
                return [_Row(row) for row in node.mark.content.rstrip("\n").split("\n")]

    def _quoted(self, row: _Row) -> _Row:
        mark = "│ " if self.theme.colour else "> "
        return _Row(self.theme.paint("muted", mark if row.text else mark[:1]) + row.text)

    def _paragraph(self, node: _Node, width: int) -> list[_Row]:
        mark = node.children[0].mark
        if mark is not self.last or mark.children:
            return self._text(node.children, width)
        return [_Row(row) for row in self.draw_last(mark.content, width)]

    def _text(
        self, nodes: Sequence[_Node], width: int, base: tuple[Role, ...] = (), before: str = ""
    ) -> list[_Row]:
        marks = [mark for node in nodes for mark in read(node.mark)]
        text = StyledText.of(before, look(self.theme, *base)) + inline(marks, self.theme, *base)
        return [_Row(row(line)) for line in wrap_text(text, width)]

    def _heading(self, node: _Node, width: int) -> list[_Row]:
        mark = "" if self.theme.colour else "#" * int(node.mark.tag[1:]) + " "
        return self._text(node.children, width, ("title" if node.mark.tag == "h1" else "strong",), mark)

    def _list(self, node: _Node, width: int, depth: int) -> list[_Row]:
        is_tight = not any(
            each.mark.type == "paragraph_open" and not each.mark.hidden
            for item in node.children
            for each in item.children
        )
        number = int(node.mark.attrs.get("start", 1)) - 1
        found: list[_Row] = []
        for item in node.children:
            mark = _BULLETS[min(depth, len(_BULLETS) - 1)]
            if node.mark.type == "ordered_list_open":
                number = numbered(int(item.mark.info or 0), number) if found else number + 1
                mark = f"{number}{item.mark.markup}"
            found += [_Row("")] if found and not is_tight else []
            found += self._item(item, mark, width, depth, is_tight)
        return found

    def _item(self, item: _Node, mark: str, width: int, depth: int, is_tight: bool) -> list[_Row]:
        if task := _task(item):
            mark = "☐" if task == " " else "☑"
        indent = " " * (lines.cells(mark) + 1)
        rows = self.rows(item.children, width - len(indent), depth + 1, is_tight)
        first = rows[0].text if rows and not rows[0].at_edge else ""
        head = _Row(f"{self.theme.paint('accent', mark)} {first}".rstrip())
        rest = rows if rows and rows[0].at_edge else rows[1:]
        return [head, *(row if row.at_edge or not row.text else _Row(indent + row.text) for row in rest)]

    def _code(self, mark: Mark) -> list[_Row]:
        """Return code between its original fences; indented code gets fences."""
        fence = mark.markup or "```"
        code = _code_lines(language(mark.info))
        body = mark.content.rstrip("\n").split("\n") if mark.content else []
        shown = [code.line(line, self.theme) for line in body]
        ends = StyledBlocks(self.theme)
        rows = [*ends.fence(f"{fence}{safe(mark.info.strip())}"), *shown, *ends.fence(fence)]
        return [_Row(line, True) for line in rows]

    def _table(self, node: _Node, width: int) -> list[_Row]:
        rows = [row for part in node.children for row in part.children]
        aligned = [str(cell.mark.attrs.get("style", "")).rpartition(":")[2] for cell in rows[0].children]
        cells = [
            [
                inline(
                    [mark for each in cell.children for mark in read(each.mark)],
                    self.theme,
                    *(("strong",) if cell.mark.tag == "th" else ()),
                )
                for cell in row.children
            ]
            for row in rows
        ]
        return [_Row(row) for row in table(cells, aligned, self.theme, width)]


def numbered(written: int, last: int) -> int:
    """Return an item's number: as written, unless it does not exceed the last one."""
    return max(written, last + 1)


def _open_brackets(source: str) -> int:
    most = now = 0
    for bracket in re.findall(r"[\[\]]", source) if source.count("[") > _MAX_OPEN else ():
        now = now + 1 if bracket == "[" else max(0, now - 1)
        most = max(most, now)
    return most


def _task(item: _Node) -> str:
    """Return the mark in the box of a task and remove the box; empty if there is none."""
    for block in item.children[:1]:
        for line in block.children[:1]:
            for text in read(line.mark)[:1] if line.mark.content[:1] in _MAY_BE_BOX else ():
                if text.type == "text" and (box := _TASK.match(text.content)):
                    text.content = text.content[box.end() :]
                    return box[1]
    return ""
