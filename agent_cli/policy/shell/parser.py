"""Conservative parser for shell command lines.

It splits a line into its simple commands and refuses (`Unsure`) whatever it cannot parse with certainty:
substitutions, variables, here-documents, most control flow, functions. A refusal costs a question; a wrong parse
would run a command nobody approved. Nothing is ever executed or looked up.

A loop over known words (`for f in a *.py; do head "$f"; done`) is read as its commands for each word, a condition
(`if …; then …; else …; fi`) as all its commands, a subshell as the commands in it.
"""

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import dropwhile
from typing import Literal

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

MAX_LENGTH = 10_000

_OPERATORS = ("&&", "||", "|&", "|", ";", "\n", "&")
_AFTER_PLAIN_DOLLAR = frozenset(' /.,:;=%^)]|+"')
"""Before these characters no shell expands a `$` within double quotes."""
_REDIRECTION = lazy_regex(r"&>>|&>|[0-9]*(?:>>|>\||>&|<&|<>|>|<)")
_ASSIGNMENT = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_RESERVED = frozenset(
    "if then elif else fi for while until do done case esac select function coproc { } ! [[ ]] in".split()
)
_TIMED = ("time", "-p", "--")
"""Words after which the shell still recognizes reserved words."""
_KEYWORD = lazy_regex(r"(?:for|in|do|done|if|then|elif|else|fi)(?=[ \t\n;&|<>()]|\Z)|\)|\((?!\()")
_NEGATION = lazy_regex(r"![ \t]+(?=[A-Za-z0-9_./])")
_LOOP_NAME = lazy_regex(
    r"(?!\w*(?:path|proxy|npm|config|argv|prompt|status|psvar|histchars))[a-z][a-z0-9_]*(?=[ \t])"
)
"""Names of loop variables: none that a shell or a program reads."""
_LOOP_VALUE = lazy_regex(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_EXIT_CODE = lazy_regex(r"\$(?:\?|\{\?\}|\{PIPESTATUS\[[0-9@*]\]\})")
"""Exit codes, which are numbers: certain enough where they are printed."""
_RANGE = lazy_regex(
    r"(?:\{(?P<first>0|[1-9]\d{0,3})\.\.(?P<last>0|[1-9]\d{0,3})\}"
    r"|\$\((?P<seq>seq (?:(?P<low>\d{1,4}) )?(?P<high>\d{1,4}))\))(?=[ \t\n;])",
    re.ASCII,
)
"""Numbers to loop over."""
_TEST = lazy_regex(r"\[\[[ \t]+(?:![ \t]+)?(-[defhLrswxnz])[ \t]+")
_TEST_END = lazy_regex(r"[ \t]+\]\](?=[ \t\n;&|)]|\Z)")
_ONE_WORD = lazy_regex(r"[A-Za-z0-9_./:@%+,=-]+")
"""Text that stays one word where a variable is not quoted."""
_SETS_VARIABLES = frozenset(
    "read readarray mapfile unset export declare typeset local readonly getopts let eval source set shift wait"
    " command builtin exec trap alias enable shopt return break continue exit".split()
)
"""Words that may change the value of a loop variable, how it is expanded, or which commands are repeated."""
_SETS_BY_FORMAT = lazy_regex(r"%[^%A-Za-z]*[hjlLtz]*n")
"""A format of printf that sets a variable; its option `-v` does so too."""
_FILTERS = frozenset("head tail sort uniq wc cut tr nl tac column grep cat".split())
"""Programs that take from their input neither commands nor names of files."""
_PRINTERS = ("echo", "printf")
_MOST_COMMANDS = 300
_MOST_EXPANDED = 40_000
"""Maximum number of characters of a line's words, counted for each word of a loop."""
_MOST_DEPTH = 4
_UNSAFE = lazy_regex(r"[\x00-\x08\x0b-\x1f\x7f\x85\xa0\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


class Unsure(ValueError):
    """The line cannot be parsed with certainty; the text says which part."""


class Word(msgspec.Struct, frozen=True):
    """A word after quote removal."""

    text: str
    glob: bool = False
    """True if it holds an unquoted `*`, `?` or `[`, so that the shell may replace it with file names."""


_DOES_NOTHING = lazy_regex(r"(?:\w*EDITOR|VISUAL|\w*PAGER)=(?:true|:|cat)")


class SimpleCommand(msgspec.Struct, frozen=True, dict=True):
    """A program and its words. `writes` and `reads` are the files its redirections name."""

    words: tuple[Word, ...]
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    assigns: tuple[str, ...] = ()
    """Names of variables set in front of it. An editor or pager that does nothing has its value too:
    `GIT_EDITOR=true`."""
    operator: str = ""
    """The operator after it; empty for the last command."""
    has_unseen_words: bool = False
    """True if it gets further words not visible here, as from `xargs` or `find -exec`."""
    negated: bool = False
    """True if `!` turns its success into a failure."""
    block: Literal["", "inside", "end"] = ""
    """Whether it is in a loop or a condition. The operator of the last command there is that after the `done` or
    `fi`."""
    subshell: int = 0
    """The number of the subshell that it is in, from 1: a `cd` there has no effect outside. The operator of the
    last command there is that after the `)`, unless it runs in the background."""

    @property
    def background(self) -> bool:
        """True if it runs on while the line continues."""
        return self.operator == "&"

    @cached_property  # each command is looked at from many sides
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


def is_chain(commands: Sequence[SimpleCommand]) -> bool:
    """Return True if each command outside of loops and conditions runs only if those before it have succeeded."""
    return all(each.operator in ("&&", "|", "") for each in commands if each.block != "inside")


class _Reader:
    def __init__(self, line: str) -> None:
        self.line = line
        self.at = 0
        self.values: dict[str, Word] = {}
        """Values of the loop variables around the current place."""
        self.has_loop = False
        """True if the line has a loop, wherever it is."""
        self.used: list[Word] = []
        """Values of variables in the last word."""
        self.printer = ""
        """The program that only prints the current word; empty if the word is not only printed."""
        self.is_enclosed = False
        """True in a subshell, whose end also ends a word."""
        self.subshells = 0
        self.depth = 0
        """Number of loops and conditions around the current place."""
        self.count = 0
        """Number of commands read, each once for each word of the loops around it."""
        self.size = 0
        """Number of characters of the words so far."""

    def commands(self) -> tuple[SimpleCommand, ...]:
        self.blanks(newlines=True)
        found = self.sequence()
        if self.has_loop:
            for command in found:
                _check_beside_loop(command)
        return tuple(found)

    def sequence(self, ends: tuple[str, ...] = ()) -> list[SimpleCommand]:
        """Read commands up to one of the keywords, or up to the end of the line if there are none."""
        found: list[SimpleCommand] = []
        is_fed = False
        while True:
            self.blanks(newlines=True)
            if self.at >= len(self.line):
                if ends:
                    raise Unsure("a loop or condition that does not end")
                return found
            if ends and self.keyword() in ends:
                last = found[-1].operator if found else "none"
                if last not in (";", "\n") and not (last in ("", "&") and ends == (")",)):
                    raise Unsure("a subshell, loop or condition that is not complete")
                return found
            is_piped = bool(found) and found[-1].operator in ("|", "|&")
            negation = None if is_piped else _NEGATION.match(self.line, self.at)
            if negation:
                self.at = negation.end()
            block = self.block(is_piped)
            group = block or [self.test() or self.command()]
            if is_fed and group[0].words and group[0].argv[0] not in _FILTERS:
                raise Unsure("a subshell, loop or condition whose output a program may act on")
            if negation:
                group = [msgspec.structs.replace(each, negated=True) for each in group]
            operator = self.operator()
            is_fed = operator == "|" and (is_fed or bool(block))
            if block and operator in ("&", "|&"):
                raise Unsure(f"{operator} after a subshell, loop or condition")
            if group[-1].background and operator in ("|", "|&"):
                raise Unsure("a background command before a pipe")
            if not group[-1].background:
                group[-1] = msgspec.structs.replace(group[-1], operator=operator)
            found += group
            if operator in ("&&", "||", "|", "|&") and not self.line[self.at :].strip():
                raise Unsure(f"nothing follows {operator}")

    def is_closing(self) -> bool:
        """Return True at the end of the subshell around."""
        return self.is_enclosed and self.line.startswith(")", self.at)

    def keyword(self) -> str:
        """Return the keyword of a loop, condition or subshell that is here; empty if none is."""
        match = _KEYWORD.match(self.line, self.at)
        return match.group() if match else ""

    def block(self, is_piped: bool) -> list[SimpleCommand]:
        """Read a loop, a condition or a subshell; return nothing if there is none here."""
        word = self.keyword()
        if word not in ("for", "if", "("):
            return []
        if is_piped or self.depth >= _MOST_DEPTH:
            raise Unsure("a subshell, loop or condition behind a pipe, or deep in others")
        self.depth += 1
        self.at += len(word)
        found = {"for": self.loop, "if": self.condition, "(": self.subshell}[word]()
        self.depth -= 1
        self.blanks()
        if self.at < len(self.line) and not self.is_closing() and not self.operator(peek=True):
            raise Unsure("a redirection of a subshell, loop or condition")
        if word == "(":
            return found
        if any(command.background for command in found):
            raise Unsure("a background command in a loop or condition")
        *inside, last = found
        return [
            *(msgspec.structs.replace(each, block="inside") for each in inside),
            msgspec.structs.replace(last, block="end"),
        ]

    def subshell(self) -> list[SimpleCommand]:
        if self.is_enclosed:
            raise Unsure("a nested subshell")
        self.is_enclosed = True
        found = self.sequence((")",))
        self.is_enclosed = False
        self.at += len(")")
        self.subshells += 1
        if any(each.block and each.argv[:1] == ("cd",) for each in found):
            raise Unsure("a change of directory that may not happen")
        return [msgspec.structs.replace(each, subshell=self.subshells) for each in found]

    def loop(self) -> list[SimpleCommand]:
        self.has_loop = True
        self.blanks()
        match = _LOOP_NAME.match(self.line, self.at)
        if not match or (name := match.group()) in self.values:
            raise Unsure("a loop with a variable that others may read")
        self.at = match.end()
        self.blanks()
        if self.keyword() != "in":
            raise Unsure("a loop over the arguments of the shell")
        self.at += len("in")
        words: list[Word] = []
        counted: list[SimpleCommand] = []
        while True:
            self.blanks()
            if self.at >= len(self.line) or self.is_closing() or self.operator(peek=True):
                break
            if match := _RANGE.match(self.line, self.at):
                self.at = match.end()
                words += _numbers(match)
                if match["seq"]:
                    counted.append(SimpleCommand(tuple(map(Word, match["seq"].split())), operator=";"))
            else:
                words.append(self.word())
            if len(words) > _MOST_COMMANDS:
                raise Unsure(f"a loop over more than {_MOST_COMMANDS} words")
        if self.operator() not in (";", "\n") or not words or any(word.text[:1] == "~" for word in words):
            raise Unsure("a loop over words that are not certain")
        self.blanks(newlines=True)
        if self.keyword() != "do":
            raise Unsure("a loop without `do`")
        self.at += len("do")
        begin = self.at
        found = counted
        for word in words:
            self.at, self.values[name] = begin, word
            found += self.sequence(("done",))
        del self.values[name]
        self.at += len("done")
        return found

    def condition(self) -> list[SimpleCommand]:
        found: list[SimpleCommand] = []
        word = "if"
        while word != "fi":
            if word in ("if", "elif"):
                found += self.sequence(("then",))
                self.at += len("then")
            found += self.sequence(("fi",) if word == "else" else ("elif", "else", "fi"))
            word = self.keyword()
            self.at += len(word)
        return found

    def test(self) -> SimpleCommand | None:
        """Read a test of a file or a text within `[[ ]]`, as the same test within `[ ]`; others there may evaluate
        their words."""
        match = _TEST.match(self.line, self.at)
        if match is None:
            return None
        self.count_one()
        self.at = match.end()
        word = self.word()
        end = _TEST_END.match(self.line, self.at)
        if end is None or self.used:
            raise Unsure("a test that is not of one file or text")
        self.at = end.end()
        self.blanks()
        return SimpleCommand((Word("["), Word(match[1]), word, Word("]")))

    def count_one(self) -> None:
        self.count += 1
        if self.count > _MOST_COMMANDS:
            raise Unsure(f"more than {_MOST_COMMANDS} commands, counted for each word of a loop")

    def command(self) -> SimpleCommand:
        self.count_one()
        words: list[Word] = []
        writes: list[str] = []
        reads: list[str] = []
        assigns: list[str] = []
        while True:
            self.blanks()
            if self.at >= len(self.line) or self.is_closing() or self.operator(peek=True):
                break
            if self.redirection(writes, reads):
                continue
            start = self.at
            if not words and (match := _ASSIGNMENT.match(self.line, self.at)):
                self.word()
                written = self.line[start : self.at]
                assigns.append(written if _DOES_NOTHING.fullmatch(written) else match.group().rstrip("+="))
                continue
            word = self.word(words[0].text if words and words[0].text in _PRINTERS else "")
            written = self.line[start : self.at].replace("\\\n", "")
            if all(before.text in _TIMED for before in words) and written in _RESERVED:
                raise Unsure(f"`{word.text}` begins a compound command, so it always asks")
            if not words and self.used:
                raise Unsure("the program's name is a variable")
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

    def word(self, printer: str = "") -> Word:
        text: list[str] = []
        glob = False
        self.printer = printer
        start = self.at
        self.used = []
        while self.at < len(self.line):
            char = self.line[self.at]
            if char in " \t\n|&;<>" or self.is_closing():
                break
            if char == "`":
                raise Unsure("a backtick, which runs a command")
            if char in "()":
                raise Unsure(f"`{char}`, as in a function or an array")
            if char == "'":
                text.append(self.single())
            elif char == '"':
                inner = self.double()
                text.append(inner.text)
                glob = glob or inner.glob
            elif self.line.startswith("\\\n", self.at):
                self.broken()
            elif char == "\\":
                text.append(self.escape())
            elif char == "$":
                value = self.value()
                if value.glob or not (printer == "echo" or _ONE_WORD.fullmatch(value.text)):
                    raise Unsure("a variable without quotes, which may be several words")
                text.append(value.text)
            else:
                self.plain(char, text)
                glob = glob or char in "*?["
                text.append(char)
                self.at += 1
        if self.at == start:
            raise Unsure(f"unexpected {self.line[self.at : self.at + 1]!r}")
        joined = "".join(text)
        self.grow(len(joined) + 1)
        if joined[:1] == "~" and self.line[start] != "~":
            raise Unsure("a quoted ~ in front of a word")
        if not printer and any(value.glob and value.text != joined for value in self.used):
            raise Unsure("names of files that are parts of words")
        return Word(joined, glob and joined != "[")

    def grow(self, size: int) -> None:
        self.size += size
        if self.size > _MOST_EXPANDED:
            raise Unsure(f"more than {_MOST_EXPANDED} characters, counted for each word of a loop")

    def plain(self, char: str, before: list[str]) -> None:
        """Refuse text that the shell would expand: braces, and `~` for anything but the home directory."""
        if char == "{" and not re.match(r"\{\}(?=[\s|&;<>]|$)", self.line[self.at :]):
            raise Unsure("brace expansion")
        if char == "~" and (not before or before[-1][-1:] in ("=", ":")):
            following = self.line[self.at + 1 : self.at + 2]
            if following and following not in "/ \t\n|&;<>" + ")" * self.is_enclosed:
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

    def value(self) -> Word:
        """Read a variable; return the value that the loop around it gives it."""
        if self.printer and (code := _EXIT_CODE.match(self.line, self.at)):
            self.at = code.end()
            return Word(code.group())
        match = _LOOP_VALUE.match(self.line, self.at)
        value = self.values.get(match[1] or match[2]) if match else None
        if match is None or value is None:
            raise Unsure("a variable or substitution")
        self.at = match.end()
        self.used.append(value)
        self.grow(len(value.text))
        return value

    def double(self) -> Word:
        self.at += 1
        text: list[str] = []
        glob = False
        while self.at < len(self.line):
            char = self.line[self.at]
            if char == '"':
                self.at += 1
                return Word("".join(text), glob)
            if char == "`":
                raise Unsure("a variable or substitution")
            if char == "$" and not self.is_plain_dollar():
                value = self.value()
                text.append(value.text)
                glob = glob or value.glob
                continue
            if char == "\\" and self.line[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                text.append(self.escape())
                continue
            text.append(char)
            self.at += 1
        raise Unsure('an unclosed "')


def _numbers(match: re.Match[str]) -> list[Word]:
    if match["high"]:
        numbers = range(int(match["low"] or 1), int(match["high"]) + 1)
    else:
        first, last = int(match["first"]), int(match["last"])
        numbers = range(first, last + 1) if first <= last else range(first, last - 1, -1)
    return [Word(str(number)) for number in numbers]


def may_set_by_printf(command: SimpleCommand) -> bool:
    """Return True if a command may set a variable with `printf`."""
    words = command.argv
    at = words.index("printf") + 1 if "printf" in words else len(words)
    return any(_SETS_BY_FORMAT.search(word) for word in words[at:]) or any(
        word.glob or word.text[:1] == "-" for word in command.words[at : at + 1]
    )


def _check_beside_loop(command: SimpleCommand) -> None:
    """Refuse a command on the line of a loop that may change variables, or how they are expanded."""
    begun = [*dropwhile(lambda word: word in _TIMED, command.argv)]
    reads_script = begun[:1] == ["."]  # elsewhere it is a folder
    if command.assigns or reads_script or may_set_by_printf(command) or not _SETS_VARIABLES.isdisjoint(begun):
        raise Unsure("a loop beside a command that may change variables")
