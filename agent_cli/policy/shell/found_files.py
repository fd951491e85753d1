"""Recognize read-only commands whose files `find -exec` or `xargs` names, such as `git ls-files | xargs wc -l`.

They count as read-only only in the sandbox, which hides closed files: no word names what they open.
"""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from ..rules.path_verdict import Policy
from .parser import SimpleCommand, Word
from .readonly_commands import READERS, Reading, reading

_PLACE = Word("./{}")
"""Stands for a file that `find` has found. Its name begins with the folder searched, so it is never an option."""
_SEARCHED = (Word("."),)
_NAMES_ONLY: dict[str, str] = {
    "find": r"(?!-(printf|ls|o|or|not)$)[^(),!]*",
    "ls": r"-[1aAdrtR]+|(?!-)[\s\S]*",
    "git": r"ls-files|diff|--name-only|-[cdmoz]+|--(cached|staged|others|modified|exclude-standard)"
    r"|--diff-filter=\w+|(?!-)[\s\S]*",
    "rg": r"-[ilwFSs0]+|-[gt].*|--(files|files-with-matches|files-without-match|hidden|ignore-case|null)"
    r"|(?!-)[\s\S]*",
    **dict.fromkeys(
        ["grep", "egrep", "fgrep"], r"-[rilLwEFPsZ]+|--(include|exclude|exclude-dir)=.*|-e|(?!-)[\s\S]*"
    ),
}
"""Programs that print names of files in the folders they are given → the words they may have for that."""
_ACTIONS = ("-exec", "-print", "-print0")
_TESTS_OF_NAMES = lazy_regex(r"-i?(?:name|path) x(?: -or? -i?(?:name|path) x)*")
_UNSPLIT = frozenset(("-0", "--null", "-0r", "-r0"))
"""Options of xargs with which it takes each name as it is."""
_NAME_LINKS = ("git", "ls")
"""Those that name links too."""
_LISTS: dict[str, str] = {
    "rg": r"-[iwFSs0]*l[ilwFSs0]*|--files(-.*)?",
    **dict.fromkeys(["grep", "egrep", "fgrep"], r"-[riwEFPsZ]*[lL][rilLwEFPsZ]*"),
}
"""The option with which searches print only names."""
_KEEPS_LINES: dict[str, str] = {
    "sort": r"-[rufVz]+",
    "uniq": "",
    "cat": "",
    "tac": "",
    "head": r"-\d+|-n\d*|\d+",
    "tail": r"-\d+|-n\+?\d*|\+?\d+",
    **dict.fromkeys(["grep", "egrep", "fgrep"], r"-[vEFPiwz]+|-e|(?!-)[\s\S]*"),
}
"""Programs that pass on some of the lines they read, and print nothing else → the words they may have for that."""


def readings(
    commands: Sequence[SimpleCommand], before: Sequence[SimpleCommand], policy: Policy
) -> tuple[Reading, ...]:
    """Return what each of some commands reads: `find` or `xargs`, and those it runs. Empty if one of them is not
    known to only read. `before` are the commands whose output the first one reads."""
    outer, *inner = commands
    if not inner or outer.assigns or outer.background or outer.has_unseen_words:
        return ()
    if outer.argv[0] == "find":
        return _of_find(outer, inner)
    if outer.argv[0] == "xargs" and len(inner) == 1:
        return _of_xargs(outer, inner[0], before, policy)
    return ()


def lack_only_type(commands: Sequence[SimpleCommand], before: Sequence[SimpleCommand], policy: Policy) -> bool:
    """Return True if the commands would be known to only read if `find` had `-type f`."""
    if commands[0].argv[:1] == ("find",):
        return bool(readings((_of_files(commands[0]), *commands[1:]), before, policy))
    if before and before[0].argv[:1] == ("find",):
        return bool(readings(commands, (_of_files(before[0]), *before[1:]), policy))
    return False


def _of_files(find: SimpleCommand) -> SimpleCommand:
    """Return `find` with `-type f` before its other tests."""
    words = find.words
    at = next((at for at, word in enumerate(words) if at and word.text[:1] in ("-", "(", "!")), len(words))
    return msgspec.structs.replace(find, words=(*words[:at], Word("-type"), Word("f"), *words[at:]))


def _of_find(find: SimpleCommand, inner: list[SimpleCommand]) -> tuple[Reading, ...]:
    rest, spans = _split(find.words)
    if sorted(spans) != sorted(list(command.argv) for command in inner):
        return ()  # what `find` runs may end elsewhere than it seems
    own = reading(msgspec.structs.replace(find, words=tuple(rest)))
    if own is None or not _finds_files([word.text for word in rest], find.argv):
        return ()
    found = [own]
    for command in inner:
        spec = READERS.get(command.argv[0])
        words = tuple(_PLACE if word.text == "{}" else word for word in command.words)
        read = reading(SimpleCommand(words)) if not any(word.glob for word in words) else None
        if read is None or spec is None or spec.globs == "none":
            return ()
        found.append(_on_found(read, own.files or _SEARCHED))
    return tuple(found)


def _finds_files(words: Sequence[str], written: Sequence[str]) -> bool:
    """Return True if `find` acts only on regular files: a link that lies deep in a folder may lead anywhere.
    `written` are also the words of the commands it runs."""
    is_plain = all(re.fullmatch(_NAMES_ONLY["find"], word) for word in _without_groups(words))
    return is_plain and ("-type", "f") in pairwise(takewhile(lambda word: word not in _ACTIONS, written))


def _without_groups(words: Sequence[str]) -> Iterator[str]:
    """Yield the words without groups of tests of names, such as `( -name A -o -name B )`, and without their
    negations, such as `-not -path A`."""
    at = 0
    while at < len(words):
        end = words.index(")", at) if words[at] == "(" and ")" in words[at:] else at
        group = " ".join(word if word[:1] == "-" else "x" for word in words[at + 1 : end])
        if _TESTS_OF_NAMES.fullmatch(group):
            at = end + 1
        elif words[at] in ("!", "-not") and _TESTS_OF_NAMES.fullmatch(" ".join([*words[at + 1 : at + 2], "x"])):
            at += 3
        else:
            yield words[at]
            at += 1


def _split(words: tuple[Word, ...]) -> tuple[list[Word], list[list[str]]]:
    """Return the words of `find` without those of the commands it runs, and the words of each command."""
    rest: list[Word] = []
    spans: list[list[str]] = []
    is_inside = False
    for at, word in enumerate(words):
        if not is_inside:
            is_inside = word.text == "-exec"
            if is_inside:
                spans.append([])
            else:
                rest.append(word)
        elif word.text == ";" or (word.text == "+" and words[at - 1].text == "{}"):
            is_inside = False
        else:
            spans[-1].append(word.text)
    return rest, spans


def _of_xargs(
    xargs: SimpleCommand, command: SimpleCommand, before: Sequence[SimpleCommand], policy: Policy
) -> tuple[Reading, ...]:
    spec = READERS.get(command.argv[0])
    if spec is None or spec.globs != "any" or not spec.takes_any:  # a name may look like an option
        return ()
    read = reading(msgspec.structs.replace(command, has_unseen_words=False))
    if read is None or (spec.paths and not _are_names(before)):
        return ()
    if spec.paths and before[0].argv[0] in _NAME_LINKS and policy.links_out():
        return ()
    options = xargs.argv[1 : len(xargs.argv) - len(command.argv)]
    is_split = _UNSPLIT.isdisjoint(options) or any(re.match(r"-\w*d|--d", each) for each in options)
    if spec.paths and is_split and policy.splits_out():
        return ()
    return (Reading(in_sandbox=True), _on_found(read, _SEARCHED) if spec.paths else read)


def splits_out(path: str) -> bool:
    """Return True if the last part of a path may make it name something outside when xargs splits it at blanks and
    removes quotes: in a folder called `a `, the file `a /etc/passwd`."""
    plain = re.sub(r"[\"'\\]", "", os.path.basename(path))
    return not plain or plain[-1].isspace() or ".." in plain.split()


def _on_found(read: Reading, folders: tuple[Word, ...]) -> Reading:
    """Return a reading in which the files found in some folders are opened."""
    files, judged = (tuple(word for word in words if word is not _PLACE) for words in (read.files, read.judged))
    return Reading((*files, *folders), (*judged, *folders), "all", in_sandbox=True)


def _are_names(commands: Sequence[SimpleCommand]) -> bool:
    """Return True if a pipeline prints only names of files in folders that its words name."""
    if not commands or any(command.reads or reading(command) is None for command in commands):
        return False
    first, *filters = commands
    return _prints_names(first) and all(map(_is_filter, filters))


def _prints_names(command: SimpleCommand) -> bool:
    name, *words = command.argv
    match name:
        case "find":
            return _finds_files(words, words)
        case "git":
            does = words[0] == "ls-files" or words[:2] == ["diff", "--name-only"]
        case "rg" | "grep" | "egrep" | "fgrep":
            does = any(re.fullmatch(_LISTS[name], word) for word in words)
        case _:
            does = name == "ls"
    return does and _has_only(command, _NAMES_ONLY)


def _is_filter(command: SimpleCommand) -> bool:
    read = reading(command)
    return read is not None and not read.files and _has_only(command, _KEEPS_LINES)


def _has_only(command: SimpleCommand, allowed: dict[str, str]) -> bool:
    known = allowed.get(command.argv[0])
    return known is not None and all(re.fullmatch(known, word) for word in command.argv[1:])
