"""Expand command and skill texts into prompts: placeholders are replaced with arguments, and embedded shell
commands are found. Each product has its own syntax.

Inserted text is never scanned again, so an argument can neither name a file nor run a command by itself.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from agent_cli.protocol.operations import InsertedCommand

from .places import Product

_FENCE_LINE = re.compile(r"^[ \t]*(`{3,}|~{3,})(?:(?P<closes>[`~]*[ \t]*$)|(?P<runs>!)?[^\n]*$)", re.MULTILINE)
_INLINE = re.compile(r"(?:(?<=\s)|^)!`([^`\n]*[^`\s][^`\n]*)`", re.MULTILINE)
_AS_SLASHES = r"(?://\\\\//)?"
"""`${NAME//\\\\//}`: backslashes become slashes, which plug-ins do for Windows."""
_NAMES = rf"\{{(?P<variable>\w+){_AS_SLASHES}\}}|(?P<name>[A-Za-z_]\w*)"
_ALL = r"(?P<all>ARGUMENTS)(?:\[(?P<index>\d+)\])?(?!\w)"
_OURS = re.compile(rf"(?P<escape>\$\$)|\$(?:{_ALL}|(?P<digit>[1-9])|{_NAMES})")
_THEIRS = re.compile(rf"(?P<escape>\\\$|\$\$)|\$(?:{_ALL}|(?P<digit>\d)(?!\d)|{_NAMES})")
_COUNTS_FROM_0 = re.compile(r"(?<!\\)\$(?:0(?!\d)|ARGUMENTS\[)")
_COUNTS_FROM_1 = re.compile(r"(?<!\\)\$[1-9](?!\d)")
_VARIABLE = re.compile(rf"\$\{{(\w+){_AS_SLASHES}\}}")
_WILD = re.compile(r"[*?\[]")
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return a rule of Claude Code with the values of `${NAME}`. Unknown names stay as they are, and so does a
    name whose value, such as a folder called `*`, would be a pattern in the rule. At the beginning of a rule on
    files, a folder has two slashes, since one would stand for the project."""

    def value(found: "re.Match[str]") -> str:
        known = variables.get(found[1], found[0])
        begins = text[: found.start()].strip()
        is_folder = known.startswith("/") and begins.endswith("(") and not begins.startswith(("Bash", "shell"))
        return found[0] if _WILD.search(known) else f"/{known}" if is_folder else known

    return _VARIABLE.sub(value, text)


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with the values of `${NAME}`; unknown names stay as they are."""
    return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), text) if variables else text


class Expanded(msgspec.Struct, frozen=True):
    """A text after expansion."""

    text: str
    insertions: tuple[InsertedCommand, ...] = ()
    """The commands in it, in order."""


class _Part(msgspec.Struct, frozen=True):
    """A piece of a text: plain text, or a command with its delimiters."""

    before: str
    text: str
    after: str = ""
    is_command: bool = False


def expand(
    text: str,
    argument: str,
    product: Product,
    *,
    names: Sequence[str] = (),
    variables: Mapping[str, str] = _NO_VARIABLES,
) -> Expanded:
    """Return the prompt for a text. If the text has no placeholder, the arguments are appended after an empty
    line.

    Args:
        text: the file without its front matter.
        argument: the text typed after the name.
        product: the product whose placeholder syntax the text uses.
        names: names of its arguments, by position.
        variables: values of `${NAME}`.
    """
    places = (
        _Braces(argument) if product == "gemini" else _Dollars(text, argument, product, tuple(names), variables)
    )
    pieces: list[str] = []
    insertions = []
    length = 0
    for part in _braced(text) if product == "gemini" else _parts(text):
        piece = part.before + places.put(part.text, quoted=part.is_command) + part.after
        if part.is_command:
            command = places.put(part.text, quoted=True).strip()
            insertions.append(InsertedCommand(piece, command, length))
        pieces.append(piece)
        length += len(piece)
    said = "".join(pieces)
    if argument and not places.placed:
        said = f"{said.rstrip()}\n\n{argument}"
    return Expanded(said, tuple(insertions))


def _parts(text: str) -> Iterator[_Part]:
    """Yield the parts of a text; a fenced block is plain text unless it is marked as a command."""
    end = 0
    for opening, closing in _fences(text):
        yield from _inline(text[end : opening.start()])
        start, stop = opening.end() + 1, closing.start() if closing else len(text)
        end = closing.end() if closing else len(text)
        if closing and opening["runs"]:
            yield _Part(text[opening.start() : start], text[start:stop], closing.group(), is_command=True)
        else:
            yield _Part("", text[opening.start() : end])
    yield from _inline(text[end:])


def _fences(text: str) -> "Iterator[tuple[re.Match[str], re.Match[str] | None]]":
    """Yield the first and last line of each fenced block; an unclosed block extends to the end of the text."""
    lines = _FENCE_LINE.finditer(text)
    for opening in lines:
        fence = opening[1]
        closing = next((line for line in lines if line["closes"] is not None and line[1].startswith(fence)), None)
        yield opening, closing


def _inline(text: str) -> Iterator[_Part]:
    end = 0
    for found in _INLINE.finditer(text):
        yield _Part("", text[end : found.start()])
        yield _Part("!`", found.group(1), "`", is_command=True)
        end = found.end()
    yield _Part("", text[end:])


def _braced(text: str) -> Iterator[_Part]:
    """Yield the parts of a text in which `!{…}` is a command and `@{…}` a file, with balanced braces."""
    end = 0
    closings = _closings(text)
    for found in re.finditer(r"[!@]\{", text):
        if found.start() < end or (stop := closings.get(found.end() - 1, -1)) < 0:
            continue
        yield _Part("", text[end : found.start()])
        inner = text[found.end() : stop]
        if found.group() == "!{":
            yield _Part("!{", inner, "}", is_command=True)
        else:
            yield _Part('@"', inner.strip(), '"')
        end = stop + 1
    yield _Part("", text[end:])


def _closings(text: str) -> dict[int, int]:
    """Return the position of the closing brace by that of the opening one; unclosed braces are left out."""
    waiting: list[int] = []
    found = {}
    for brace in re.finditer(r"[{}]", text):
        if brace.group() == "{":
            waiting.append(brace.start())
        elif waiting:
            found[waiting.pop()] = brace.start()
    return found


class _Braces:
    """Replaces `{{args}}` with the arguments, quoted inside shell commands."""

    def __init__(self, argument: str) -> None:
        self._argument = argument
        self.placed = False

    def put(self, text: str, *, quoted: bool) -> str:
        self.placed = self.placed or "{{args}}" in text
        return text.replace("{{args}}", shlex.quote(self._argument) if quoted else self._argument)


class _Dollars:
    """Replaces `$ARGUMENTS`, `$1` and names with arguments."""

    def __init__(
        self, text: str, argument: str, product: Product, names: tuple[str, ...], variables: Mapping[str, str]
    ) -> None:
        self._argument = argument
        self._product = product
        self._words = shell_words(argument)
        self._names = names
        self._variables = variables
        self._given: dict[str, str] = {}
        if product == "codex":
            pairs = [word.partition("=") for word in self._words]
            self._given = {name: value for name, equals, value in pairs if equals and name.isidentifier()}
        counts_from_0 = product in ("claude", "agents") and (
            _COUNTS_FROM_0.search(text) is not None or not _COUNTS_FROM_1.search(text)
        )
        self._first = 0 if counts_from_0 else 1
        numbers = [int(found.group()[1:]) for found in _COUNTS_FROM_1.finditer(text)]
        self._takes_rest = max(numbers, default=0) if product == "opencode" else 0
        self.placed = False

    def put(self, text: str, *, quoted: bool) -> str:
        def value(found: "re.Match[str]") -> str:
            put = self._value(found)
            return _quoted(put, text[: found.start()]) if quoted and found.group("variable") else put

        return (_OURS if self._product == "agent" else _THEIRS).sub(value, text)

    def _value(self, found: "re.Match[str]") -> str:
        if escape := found.group("escape"):
            return "$" if escape != "$$" or self._product in ("agent", "codex") else escape
        if (variable := found.group("variable")) is not None:
            return self._variables.get(variable, found.group())
        if (name := found.group("name")) is not None:
            return self._named(name, found.group())
        self.placed = True
        if found.group("all"):
            index = found.group("index")
            return self._argument if index is None else self._word(int(index))
        digit = int(found.group("digit"))
        if digit and digit == self._takes_rest:
            return " ".join(self._words[digit - 1 :])
        return self._word(digit - self._first)

    def _named(self, name: str, written: str) -> str:
        if name in self._names:
            self.placed = True
            return self._word(self._names.index(name))
        if name in self._given:
            self.placed = True
            return self._given[name]
        return written

    def _word(self, at: int) -> str:
        return self._words[at] if 0 <= at < len(self._words) else ""


_SHELL_PART = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:(?<=\s)|^)#[^\n]*|['\"]|[^\\'\"#]+|#", re.DOTALL)


def _quoted(folder: str, before: str) -> str:
    """Return a folder as one word of a shell command, between the quotes that are open there."""
    if (plain := shlex.quote(folder)) == folder:
        return folder
    match _open_quote(before):
        case "'":
            return plain[1:-1]
        case '"':
            return re.sub(r'([\\"$`])', r"\\\1", folder)
        case _:
            return plain


def _open_quote(before: str) -> str:
    """Return the quote that is open at the end of the beginning of a shell command; empty if none."""
    return next((part for part in _SHELL_PART.findall(before) if part in ("'", '"')), "")


def with_quotes(line: str, variables: Mapping[str, str]) -> str:
    """Return a shell command line in which each variable whose value has a space or the like is between quotes."""
    names = [name for name, value in variables.items() if shlex.quote(value) != value]
    if not names:
        return line
    listed = "|".join(map(re.escape, names))
    return re.sub(
        rf"\$(?:\{{(?:{listed})\}}|(?:{listed})(?!\w))",
        lambda found: found[0] if _open_quote(line[: found.start()]) else f'"{found[0]}"',
        line,
    )


def shell_words(argument: str) -> list[str]:
    """Split arguments as a shell does; if a quote is unclosed, at white space."""
    try:
        return shlex.split(argument)
    except ValueError:
        return argument.split()
