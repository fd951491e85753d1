"""Conservative parser for shell command lines.

It splits a line into its simple commands and refuses (`Unsure`) whatever it cannot parse with certainty:
substitutions, variables, here-documents, control flow, functions. A refusal costs a question; a wrong parse would
run a command nobody approved. Nothing is ever executed or looked up.
"""

import re
from functools import lru_cache

import msgspec

MAX_LENGTH = 10_000

_OPERATORS = ("&&", "||", "|&", "|", ";", "\n", "&")
_AFTER_PLAIN_DOLLAR = frozenset(' /.,:;=%^)]|+"')
"""Before these characters no shell expands a `$` within double quotes."""
_REDIRECTION = re.compile(r"&>>|&>|[0-9]*(?:>>|>\||>&|<&|<>|>|<)")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_RESERVED = frozenset(
    "if then elif else fi for while until do done case esac select function coproc { } ! [[ ]] in".split()
)
_TIMED = ("time", "-p", "--")
"""Words after which the shell still recognizes reserved words."""
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\xa0\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


class Unsure(ValueError):
    """The line cannot be parsed with certainty; the text says which part."""


class Word(msgspec.Struct, frozen=True):
    """A word after quote removal."""

    text: str
    glob: bool = False
    """True if it holds an unquoted `*`, `?` or `[`, so that the shell may replace it with file names."""


class SimpleCommand(msgspec.Struct, frozen=True):
    """A program and its words. `writes` and `reads` are the files its redirections name."""

    words: tuple[Word, ...]
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    assigns: tuple[str, ...] = ()
    """Names of variables set in front of it."""
    operator: str = ""
    """The operator after it; empty for the last command."""
    has_unseen_words: bool = False
    """True if it gets further words not visible here, as from `xargs` or `find -exec`."""

    @property
    def background(self) -> bool:
        """True if it runs on while the line continues."""
        return self.operator == "&"

    @property
    def argv(self) -> tuple[str, ...]:
        """The words as text."""
        return tuple(word.text for word in self.words)


@lru_cache(maxsize=32)  # a line is judged, shown, compared and run, but parsed once
def parse(line: str) -> tuple[SimpleCommand, ...]:
    """Parse a command line into its simple commands, in order.

    Raises:
        Unsure: some part of the line cannot be parsed with certainty.
    """
    if len(line) > MAX_LENGTH:
        raise Unsure(f"longer than {MAX_LENGTH} characters")
    if found := _UNSAFE.search(line):
        raise Unsure(f"it contains the invisible character U+{ord(found.group()):04X}")
    return _Reader(line).commands()


class _Reader:
    def __init__(self, line: str) -> None:
        self.line = line
        self.at = 0

    def commands(self) -> tuple[SimpleCommand, ...]:
        found: list[SimpleCommand] = []
        while True:
            self.blanks(newlines=True)
            if self.at >= len(self.line):
                return tuple(found)
            command = self.command()
            operator = self.operator()
            found.append(msgspec.structs.replace(command, operator=operator))
            if operator in ("&&", "||", "|", "|&") and not self.line[self.at :].strip():
                raise Unsure(f"nothing follows {operator}")

    def command(self) -> SimpleCommand:
        words: list[Word] = []
        writes: list[str] = []
        reads: list[str] = []
        assigns: list[str] = []
        while True:
            self.blanks()
            if self.at >= len(self.line) or self.operator(peek=True):
                break
            if self.redirection(writes, reads):
                continue
            start = self.at
            if not words and (match := _ASSIGNMENT.match(self.line, self.at)):
                assigns.append(match.group().rstrip("+="))
                self.word()
                continue
            word = self.word()
            written = self.line[start : self.at].replace("\\\n", "")
            if all(before.text in _TIMED for before in words) and written in _RESERVED:
                raise Unsure(f"`{word.text}` begins a compound command, so it always asks")
            words.append(word)
        if not words and not assigns:
            raise Unsure("a command is missing" if not writes and not reads else "a redirection without a command")
        if words and (words[0].glob or not words[0].text):
            raise Unsure("the program's name is not certain")
        return SimpleCommand(tuple(words), tuple(writes), tuple(reads), tuple(assigns))

    def blanks(self, newlines: bool = False) -> None:
        while self.at < len(self.line):
            char = self.line[self.at]
            if self.line.startswith("\\\n", self.at):
                self.at += 2
            elif char in " \t" or (newlines and char == "\n"):
                self.at += 1
            elif char == "#":
                end = self.line.find("\n", self.at)
                self.at = len(self.line) if end < 0 else end
            else:
                return

    def operator(self, peek: bool = False) -> str:
        self_at = self.at
        if self.line.startswith(("&>", ";;", ";&"), self_at):
            if self.line[self_at] == ";":
                raise Unsure("`;;` outside a case")
            return ""
        for operator in _OPERATORS:
            if self.line.startswith(operator, self_at):
                if not peek:
                    self.at += len(operator)
                return operator
        return ""

    def redirection(self, writes: list[str], reads: list[str]) -> bool:
        if self.line.startswith(("<<", "<(", ">("), self.at):
            raise Unsure("here-document or process substitution")
        match = _REDIRECTION.match(self.line, self.at)
        if not match:
            return False
        operator = match.group().lstrip("0123456789")
        self.at = match.end()
        if self.line.startswith(("(", "<"), self.at):
            raise Unsure("here-document or process substitution")
        self.blanks()
        start = self.at
        target = self.word()
        if target.glob:
            raise Unsure("a redirection to a pattern")
        if operator in (">&", "<&"):
            return self.duplication(self.line[start : self.at], writes)
        (reads if operator == "<" else writes).append(target.text)
        return True

    def duplication(self, target: str, writes: list[str]) -> bool:
        """Read the target behind `>&` or `<&`: a number, `-`, or a file. bash expands a file twice, quoted or
        not: `>& '$(x)'` runs x."""
        if re.fullmatch(r"[0-9]+-?|-", target):
            return True
        if not re.fullmatch(r"[A-Za-z_./][\w./,:@%+=-]*", target, re.ASCII):
            raise Unsure(f"a redirection to {target}")
        writes.append(target)
        return True

    def word(self) -> Word:
        text: list[str] = []
        glob = False
        start = self.at
        while self.at < len(self.line):
            char = self.line[self.at]
            if char in " \t\n|&;<>":
                break
            if char in "()`":
                raise Unsure(f"`{char}` (subshell, function or substitution)")
            if char == "'":
                text.append(self.single())
            elif char == '"':
                text.append(self.double())
            elif self.line.startswith("\\\n", self.at):
                self.broken()
            elif char == "\\":
                text.append(self.escape())
            elif char == "$":
                raise Unsure("a variable or substitution")
            else:
                self.plain(char, text)
                glob = glob or char in "*?["
                text.append(char)
                self.at += 1
        if self.at == start:
            raise Unsure(f"unexpected {self.line[self.at : self.at + 1]!r}")
        joined = "".join(text)
        if joined[:1] == "~" and self.line[start] != "~":
            raise Unsure("a quoted ~ in front of a word")
        return Word(joined, glob and joined != "[")

    def plain(self, char: str, before: list[str]) -> None:
        """Refuse text that the shell would expand: braces, and `~` for anything but the home directory."""
        if char == "{" and not re.match(r"\{\}(?=[\s|&;<>]|$)", self.line[self.at :]):
            raise Unsure("brace expansion")
        if char == "~" and (not before or before[-1][-1:] in ("=", ":")):
            following = self.line[self.at + 1 : self.at + 2]
            if following and following not in "/ \t\n|&;<>":
                raise Unsure("a ~ that names another directory than home")

    def escape(self) -> str:
        if self.at + 1 >= len(self.line):
            raise Unsure("a backslash at the end")
        char = self.line[self.at + 1]
        self.at += 2
        return "" if char == "\n" else char

    def broken(self) -> None:
        """Skip a line break behind a backslash at the end of a word. Within one it may hide an assignment, an
        operator or a reserved word."""
        self.at += 2
        if self.line[self.at : self.at + 1].strip(" \t\n\\"):
            raise Unsure("a line that is broken within a word")

    def single(self) -> str:
        end = self.line.find("'", self.at + 1)
        if end < 0:
            raise Unsure("an unclosed '")
        text = self.line[self.at + 1 : end]
        self.at = end + 1
        return text

    def is_plain_dollar(self) -> bool:
        """Return True if a `$` within double quotes is literal, as in the pattern `"s/5$/6/"`."""
        return self.line[self.at] == "$" and self.line[self.at + 1 : self.at + 2] in _AFTER_PLAIN_DOLLAR

    def double(self) -> str:
        self.at += 1
        text: list[str] = []
        while self.at < len(self.line):
            char = self.line[self.at]
            if char == '"':
                self.at += 1
                return "".join(text)
            if char in "$`" and not self.is_plain_dollar():
                raise Unsure("a variable or substitution")
            if char == "\\" and self.line[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                text.append(self.escape())
                continue
            text.append(char)
            self.at += 1
        raise Unsure('an unclosed "')
