"""Inline Markdown as styled text. Each address is shown once; code keeps its blanks.

Two rules differ from CommonMark: nothing in a formula is parsed as Markdown, and `2*3*4` and `x**2` keep their
asterisks.
"""

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore, text_join
from markdown_it.rules_core import inline as read_inline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token as Mark

from agent_cli.protocol.sanitize import clean

from ..text.links import may_link
from ..text.styled_text import Look, StyledText, look
from ..text.theme import Role, Theme
from .latex import readable

PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": 200}).enable(["strikethrough", "table"])
PARSER.disable("reference")  # its text would vanish; most uses of it are in other blocks
PARSER.disable(["inline", "text_join"])  # left to `read`
_MATH = re.compile(
    r"""
      \$\$ (?: \\[\s\S] | [^$\\] )++ \$\$
    | \$ (?![\s$]) (?: \\. | [^$\\\n] )++ (?<!\s) \$ (?!\d)
    | \\\( (?: \\[^()\n] | [^\\\n] )++ \\\)
    | \\\[ (?!\s*\\\]) (?: \\[^][] | [^\\] )++ \\\]
    """,
    re.VERBOSE,
)
"""A formula. Each kind ends where the next of its kind would begin, so that matching is linear in total."""
_SIMPLE = re.compile(
    r"""
      (?P<text> [^\n\\$*`~_\[<&]++ )
    | ` (?P<code_inline> (?!\ ) [^`\n]++ ) ` (?!`)
    | (?<! [0-9A-Za-z)\]] ) \*\* (?P<strong>
        [0-9A-Za-z] (?: [^\n\\$*`~_\[<&]* [0-9A-Za-z] )?+ (?: [:.!?] (?= \*\* (?! [^\ ] ) ) )?
      ) \*\* (?! [*0-9] )
    """,
    re.VERBOSE,
)
"""Words without any character that can begin markup, code, and bold words: no text around them changes them."""
_STAR = re.compile(r"(?<=[0-9A-Za-z])\*(?=[0-9A-Za-z])")
_POWER = re.compile(r"(?<=[0-9A-Za-z)\]])\*\*(?=[0-9])")
_LOOK_BACK = 64
"""Maximum number of delimiters checked for open bold text."""
_OPENS: dict[str, Role] = {"strong_open": "strong", "em_open": "emphasis", "s_open": "struck", "link_open": "link"}


def _math(state: StateInline, silent: bool) -> bool:
    """Parse a formula."""
    found = _MATH.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("math", "", 0).content = readable(found.group())
    state.pos = found.end()
    return True


def _star(state: StateInline, silent: bool) -> bool:
    """Parse an asterisk between ASCII letters or digits literally, and `**` before a digit if it closes
    nothing."""
    found = _STAR.match(state.src, state.pos, state.posMax) or _POWER.match(state.src, state.pos, state.posMax)
    if not found or (len(found.group()) == 2 and _is_bold(state)):
        return False
    if not silent:
        state.pending += found.group()
    state.pos = found.end()
    return True


def _is_bold(state: StateInline) -> bool:
    """Return True if an opening asterisk is still unclosed."""
    opened = 0
    for each in state.delimiters[-_LOOK_BACK:]:
        if each.marker == ord("*"):
            opened += -1 if each.close and opened else each.open
    return opened > 0


PARSER.inline.ruler.before("escape", "math", _math)
PARSER.inline.ruler.before("emphasis", "star", _star)


def read(mark: Mark) -> list[Mark]:
    """Return the inline marks of a block's text, parsed on first use."""
    if not mark.children:
        mark.children = _read_simple(mark.content)
    if not mark.children:
        state = StateCore("", PARSER, {}, [mark])
        read_inline(state)
        text_join(state)
    return mark.children


def _read_simple(source: str) -> list[Mark]:
    """Return the marks of a text that consists of simple pieces; none of any other, which the parser reads. Most
    texts of an answer are simple, and the parser is slow for them too."""
    marks: list[Mark] = []
    at = 0
    while at < len(source):
        if not (found := _SIMPLE.match(source, at)):
            return []
        kind = str(found.lastgroup)
        if kind == "strong":
            opens, closes = Mark("strong_open", "strong", 1), Mark("strong_close", "strong", -1)
            marks += (opens, Mark("text", "", 0, content=found[kind]), closes)
        else:
            marks.append(Mark(kind, "", 0, content=found[kind]))
        at = found.end()
    return marks


def inline(marks: Sequence[Mark], theme: Theme, *base: Role) -> StyledText:
    """Return inline marks as text, with the hard line breaks."""
    text = StyledText()
    roles: list[tuple[Role, ...]] = [base]
    looks = [look(theme, *base)]
    links: list[tuple[str, int]] = []
    for mark in marks:
        if mark.type in _OPENS:
            roles.append((*roles[-1], _OPENS[mark.type]))
            looks.append(look(theme, *roles[-1]))
            if mark.type == "link_open":
                links.append((str(mark.attrs.get("href", "")), len(text.runs)))
        elif mark.nesting < 0:
            roles.pop()
            looks.pop()
            if mark.type == "link_close":
                _end_link(text, *links.pop(), theme, looks[-1])
        elif mark.type in ("code_inline", "math") and theme.colour:
            text.append(safe(mark.content), look(theme, *roles[-1], "code"))
        else:
            text.append(_leaf(mark), looks[-1])
    return text


def _end_link(text: StyledText, address: str, first: int, theme: Theme, around: Look) -> None:
    """Append the address of a link unless its text shows it; both are clickable if the terminal supports links."""
    shown = _address(address, StyledText(text.runs[first:]).plain)
    opens = theme.links and may_link(address)
    if opens:
        text.link(first, address)
    if shown:
        text.append(" (", around)
        text.append(shown, around._replace(link=address) if opens else around)
        text.append(")", around)


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
    """Sanitize parsed text once more: Markdown can spell any character as an entity."""
    return text if text.isascii() and text.isprintable() else clean(text)


def _address(address: str, text: str) -> str:
    """Return the address of a link unless its text shows it; letters of other scripts in a host may look alike."""
    said = {address, address.removeprefix("mailto:")}
    is_said = text in said or (PARSER.normalizeLink(text) in said and "//xn--" not in address)
    return "" if is_said else safe(address)
