"""Find commands that destroy something, or print a secret, in a line that cannot be parsed with certainty, because
of a variable, a substitution or a loop: `psql "$URL" -c 'DROP TABLE x'`. The line is split roughly: what is found
can make it ask, and finding nothing proves nothing."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from agent_cli.protocol.lazy_regex import lazy_regex

from ..rules.dangers import OF_COMMITS
from .databases import CLIENTS, DROPS, QUOTE
from .destructive import loses
from .parser import SimpleCommand, Unsure, Word
from .secret_commands import prints_secret
from .wrappers import SHELLS, all_started_by, program, unwrap

_TOKEN = lazy_regex(
    r"""(?P<word>(?:[^\s;|&()<>`'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+)|(?P<file>[<>])|(?P<end>[;|&()`\n])""",
    re.DOTALL,
)
_QUOTED = lazy_regex(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_INNER = lazy_regex(r"\$\(|`")
_BEFORE = frozenset("! { do then else elif if while until time".split())
"""Words before a command."""
_RUN = ("run", "foreach")
"""Words of git's before a command: `git bisect run`."""
_MOST_RUN = 4
"""Number of such words in a command after which a command is looked for."""
_HERE_DOCUMENT = lazy_regex(r"<<-?\s{0,9}[\"'\\]?(\w+)")
_FOLDER = r"(?:/|~/|\$\{?HOME\}?/)[\w./@+-]{1,200}"
"""A folder on the PATH that is the same everywhere. Later verdicts know what it has added to the PATH."""
_DO_NOTHING = r"(?:\w{0,20}EDITOR|VISUAL|\w{0,20}PAGER)=(?:true|:|cat)(?![^\s;&|])"
"""Editors and pagers in a line that cannot be parsed, as they are written."""
_CATASTROPHE = (
    r"(?<!--)\brm\b(?:[\s,]|\$\{?IFS\}?){1,9}-|\s-\w{0,30}(?:r\w{0,30}f|f\w{0,30}r)\w{0,30}[\s,]|\b(?:sudo|doas|mkfs"
    r"|shred|chown|crontab|systemctl|rmtree|terraform)\b"
    r"|\bdd\s{1,9}\S{0,99}of=|>\s{0,9}[\"']?(?:/(?:etc|usr|bin|boot|dev/(?!null|stdout|stderr|tty))|~/\."
    r"|\$HOME/\.)"
    r"|(?:\||<\(|\beval\b|\s-\w{0,30}c\s).{0,400}(?:\bcurl\b|\bwget\b)"
    r"|\|[\s({]{0,9}(?:\S{0,99}/)?(?:\w{1,30}\s{1,9}){0,5}(?:ba|z|da|k|fi)?sh\b"
    r"|\b(?:curl|wget|base64)\b.{0,400}\|\s{0,9}\S{0,99}(?:python|perl|ruby|node|php)"
    r"|\bpush\b.{0,400}(?:--f|\s-f\b|--del|\s:|\s\+)|\breset\b.{0,400}--h|\bclean\s{1,9}-\S{0,99}f|-delete\b"
    r"|\bmigrate\s{1,9}reset\b|--force-reset\b|\bdb:(?:drop|reset|wipe)\b|\bmigrate:fresh\b"
    r"|:\(\)\s{0,9}\{|\bpublish\b|\bfilter-branch\b|\bstash\s{1,9}(?:drop|clear)\b"
    rf"|\b(?!{OF_COMMITS}=|{_DO_NOTHING})(?:LD_\w{{1,30}}|DYLD_\w{{1,30}}|PATH|GIT_\w{{1,30}}|BASH_ENV|NODE_OPTIONS)="
    rf"(?!(?<=\bPATH=)[\"']?(?:{_FOLDER}:){{0,9}}\$\{{?PATH\}}?(?::{_FOLDER}){{0,9}}[\"']?(?:[\s;&|)]|$))"
    r"|\bagent(?:_cli)?[\"']?\s{1,9}(?:config\s{1,9}(?:set|edit|init)|mcp\s{1,9}(?:add|remove|trust|log(?:in|out))"
    r"|plugin\s{1,9}(?:add|enable|disable|update|remove))\b"
    r"|\bkill\b.{0,400}\s-1\b|\bchmod\b.{0,400}(?:-R|\+s)"
)

_FED = (
    rf"\b(?:{'|'.join(sorted(CLIENTS))})\b[^\n]{{0,400}}<<"
    rf"|\|\s{{0,9}}(?:[^\s|]{{1,99}}\s{{1,9}}){{0,9}}(?:\S{{0,99}}/)?(?:{'|'.join(sorted(CLIENTS))})\b"
)
"""A database in a line that cannot be parsed, and what it is told there."""
_DEEPEST = 3
_LONGEST = 20_000
"""Characters of a line that are looked at."""


def may_destroy(line: str, read: Callable[[str], str]) -> bool:
    """Return True if a line looks destructive; `read` returns the text of a small file."""
    return _is_catastrophe(line) or _runs(line, lambda command: loses(command, read), 0, {})


def may_print_secret(line: str) -> bool:
    """Return True if a line looks as if it prints a secret."""
    return _runs(line, prints_secret, 0, {})


def input_destroys(command: str, text: str, read: Callable[[str], str]) -> bool:
    """Return True if input for a running command looks destructive, as a shell or a database would take it."""
    if not CLIENTS.isdisjoint(command.split()) and re.search(DROPS, text):
        return True
    return may_destroy(text.strip(), read)


def _is_catastrophe(line: str) -> bool:
    """Return True if a line that cannot be parsed looks destructive. Repetitions in the pattern are bounded, so
    that the search takes time linear in the length of the line."""
    return bool(re.search(_CATASTROPHE, line + " ")) or bool(re.search(_FED, line) and re.search(DROPS, line))


def _runs(line: str, matches: Callable[[SimpleCommand], bool], depth: int, seen: dict[str, int]) -> bool:
    """Return True if a line runs a command that `matches`, in a shell that it starts too. `seen` has the depth of
    the lines looked at: the ends of a line are found in each other again and again."""
    if seen.get(line, depth + 1) <= depth:
        return False
    seen[line] = depth
    for command in _commands(_without_documents(line)[:_LONGEST]):
        found, texts = _with_started(command)
        texts += [_INNER.split(word, maxsplit=1)[-1] for word in command.argv if _INNER.search(word)]
        if any(map(matches, found)):
            return True
        if depth < _DEEPEST and any(_runs(text, matches, depth + 1, seen) for text in texts):
            return True
    return False


def _with_started(command: SimpleCommand) -> tuple[list[SimpleCommand], list[str]]:
    """Return a command with those that it runs, and the lines that these pass to a shell: if that is not certain,
    all that its words may hold."""
    with suppress(Unsure):
        first = unwrap(command)
        started = all_started_by(first.commands)
        return [*first.commands, *started.commands], [*first.scripts, *started.scripts]
    if program(command) in QUOTE and program(command) != "git":
        return [command], []
    after_run = (at for at, word in enumerate(command.argv, 1) if word in _RUN)
    scripts = [word for word in command.argv if re.search(r"\s", word)]
    return [command], scripts + [" ".join(command.argv[at:]) for at in islice(after_run, _MOST_RUN)]


def _commands(line: str) -> Iterator[SimpleCommand]:
    words: list[Word] = []
    reads: list[str] = []
    redirection = ""
    for token in _TOKEN.finditer(line + "\n"):
        if token["file"]:
            redirection = token["file"]
        elif token["end"]:
            if words:
                yield SimpleCommand(tuple(words), reads=tuple(reads))
            words, reads, redirection = [], [], ""
        else:
            text = _QUOTED.sub(lambda part: part[1] or part[2] or part[3] or "", token["word"])
            if redirection:
                reads += [text] * (redirection == "<")
                redirection = ""
            elif words or (text not in _BEFORE and not re.match(r"[A-Za-z_]\w*\+?=", text)):
                words.append(Word(text))


def _without_documents(line: str) -> str:
    """Return a line without the text of here-documents, except those that a shell runs."""
    kept: list[str] = []
    end = ""
    for each in line.split("\n"):
        if end:
            end = "" if each.strip() == end else end
            continue
        kept.append(each)
        found = _HERE_DOCUMENT.search(each)
        is_run = found is not None and not SHELLS.isdisjoint(each[: found.start()].replace("/", " ").split())
        end = found[1] if found and not is_run else ""
    return "\n".join(kept)
