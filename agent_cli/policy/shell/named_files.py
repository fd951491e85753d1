"""The verdict on the files that a simple command names in its words, redirections and globs, and on those a search
may open without naming them."""

import os
import re

import msgspec

from agent_cli.protocol.actions import Allow, Ask, Verdict
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_inside

from ..rules.path_verdict import (
    Policy,
    guarded_write,
    is_protected,
    is_scratch,
    may_open,
    protecting,
    read_verdict,
    strictest,
    watched,
    write_verdict,
)
from ..rules.rule import BUILT_IN_PLACE, Rule, matches_path
from . import destructive
from .destructive import INTERPRETERS
from .parser import SimpleCommand, Word
from .readonly_commands import Reading
from .wrappers import program

_TAIL = 16
"""Maximum number of letters in an option cluster after which a file name is looked for."""
_OWN_PROCESS = lazy_regex(r"/+proc/+(?:self|thread-self)/+(?:task/+\d+/+)?(cwd|root)(?=/|$)")


class FilesVerdict(msgspec.Struct, frozen=True):
    """The verdict on all files together; `relies` is True if it is that mild only because the sandbox hides
    files."""

    verdict: Verdict
    relies: bool = False


def files_named(part: SimpleCommand, read: Reading | None, cwd: str, policy: Policy) -> FilesVerdict:
    """Return the verdict on every file a simple command names. Words of unknown programs are checked only against
    deny and ask rules and protected paths; files of known readers and redirections are judged in full."""
    found: list[Verdict] = []
    for target in part.writes:
        if target not in destructive.HARMLESS:
            found.append(_written_to(target, cwd, policy))
    for target in destructive.written_targets(part):
        path = real_path(target, cwd, policy)
        verdict = guarded_write(path, _written(target, cwd, policy), policy) or protecting(path, target, policy)
        if verdict:
            found.append(verdict)
    for source in part.reads:
        found.append(_read_from(Word(source), cwd, policy))
    for word in read.files if read else ():
        found.append(_read_from(word, cwd, policy))
    for word in read.judged if read else _possible_files(part):
        found += _watched_word(word, cwd, policy, protected=read is None)
    if read is None and not policy.sandboxed:
        found += _named_in_code(part, cwd, policy)
    if read and read.opens and (rule := _opened_by(read, cwd, policy)):
        found.append(may_open(rule, f"`{part.argv[0]}`"))
    kept = [verdict for verdict in found if not _is_seen_to(verdict, policy)]
    return FilesVerdict(strictest(kept), len(kept) < len(found))


def _possible_files(part: SimpleCommand) -> tuple[Word, ...]:
    """Return the words that may be files: not what `find` leaves out, as with `-not -path './.git/*'`."""
    words = part.words[1:]
    if part.argv[:1] != ("find",):
        return words
    before = zip(part.argv, part.argv[1:], strict=False)
    left_out = [not_ in ("!", "-not") and test in ("-path", "-name") for not_, test in before]
    return tuple(word for word, is_out in zip(words, [False, *left_out], strict=False) if not is_out)


def real_path(word: str, cwd: str, policy: Policy) -> str:
    """Return the real path of a word for a command in `cwd`: `/proc/self/cwd` means that directory, not ours."""
    if match := _OWN_PROCESS.match(word):
        word = (cwd if match[1] == "cwd" else "").rstrip("/") + "/" + word[match.end() :].lstrip("/")
    return policy.resolve(word, cwd)


def _is_seen_to(verdict: Verdict, policy: Policy) -> bool:
    """Return True if a question about files that a word only may match is settled because the sandbox hides
    them."""
    return (
        policy.sandboxed and isinstance(verdict, Ask) and "may name files that this rule covers" in verdict.reason
    )


def _written_to(target: str, cwd: str, policy: Policy) -> Verdict:
    path = real_path(target, cwd, policy)
    verdict = write_verdict(path, target, policy)
    if is_scratch(path, policy) and verdict.by_mode and policy.mode != "plan":
        return Allow("the sandbox's own temporary files")
    return verdict


def _read_from(word: Word, cwd: str, policy: Policy) -> Verdict:
    path = real_path(word.text, cwd, policy)
    verdict = read_verdict(path, _written(word.text, cwd, policy), policy, word.glob)
    if path in destructive.HARMLESS or (is_scratch(path, policy) and verdict.by_mode):
        return Allow("the sandbox's own temporary files")
    return verdict


def _written(word: str, cwd: str, policy: Policy) -> str:
    return os.path.join(cwd, policy.home + word[1:] if word == "~" or word.startswith("~/") else word)


def _watched_word(word: Word, cwd: str, policy: Policy, protected: bool) -> list[Verdict]:
    """Return the verdicts of deny and ask rules on everything in one word that a program may take for a file."""
    found: list[Verdict] = []
    for text in _parts(word.text):
        path = real_path(text, cwd, policy)
        if verdict := watched(path, _written(text, cwd, policy), policy, word.glob):
            found.append(verdict)
        elif protected and is_protected(path, policy) and not path.endswith("/.git"):
            found.append(Ask("protected path", f"{text} belongs to git or to the agent itself", reach="outside"))
    return found


def _named_in_code(part: SimpleCommand, cwd: str, policy: Policy) -> list[Verdict]:
    """Return the verdicts of rules on the files named in an inline program. It may assemble names at run time, and
    input from a pipe is not seen at all; so if a user-written rule closes files, neither runs without asking."""
    texts = [word.text for word in part.words[1:] if re.search(r"[\s('\"]", word.text)]
    codes = texts if INTERPRETERS.fullmatch(program(part)) else []
    found: list[Verdict] = []
    for text in filter(None, re.split(r"[\s'\"`(),;\[\]{}=]+", " ".join(codes))):
        if verdict := watched(real_path(text, cwd, policy), _written(text, cwd, policy), policy):
            found.append(verdict)
    if codes or part.has_unseen_words:
        for rule in policy.rules:
            if rule.effect != "allow" and rule.kind in ("read", "write") and rule.place != BUILT_IN_PLACE:
                found.append(Ask(str(rule), f"what `{part.argv[0]}` opens cannot be checked against this rule"))
    return found


def _parts(word: str) -> list[str]:
    """Return the word itself, the text after `=`, `@` or `:` in it, and the text after option letters."""
    parts = [] if word.startswith("-") else [word]
    if any(mark in word for mark in "=@:"):
        parts += re.split("[=@:]", word)[1:]
    if cluster := re.match(rf"-\w{{1,{_TAIL}}}", word):
        parts += [word[at:] for at in range(2, cluster.end() + 1)]
    return [part for part in parts if part]


def _opened_by(read: Reading, cwd: str, policy: Policy) -> Rule | None:
    """Return the first rule about existing files that a search may open without naming them."""
    named = read.files if not read.by_git else _limits_of_git(read, cwd, policy)
    whole = max((root for root in policy.roots if is_inside(cwd, (root,))), key=len, default=cwd)
    folders = [_searched_from(word, cwd, policy) for word in named] or [whole if read.by_git else cwd]
    closed = [policy.closed_below(folder) for folder in folders]
    for rule in policy.rules:
        is_open = read.opens == "all" or rule.place != BUILT_IN_PLACE
        if is_open and rule.kind == "read" and rule.effect != "allow" and _covers_any(rule, closed, policy):
            return rule
    return None


def _limits_of_git(read: Reading, cwd: str, policy: Policy) -> tuple[Word, ...]:
    """Return the words that limit what git shows to files and folders; empty if it may show the whole repository,
    as with a commit or a pattern."""
    if any(re.search(r"^:|[*?[\\]", word.text) for word in read.files):
        return ()
    if Word("--") in read.judged:
        return read.judged[read.judged.index(Word("--")) + 1 :]
    return tuple(word for word in read.files if policy.names(real_path(word.text, cwd, policy)))


def _searched_from(word: Word, cwd: str, policy: Policy) -> str:
    """Return the file or folder that a search begins at, or the one that holds all those a glob may match."""
    path = real_path(word.text, cwd, policy)
    return os.path.dirname(re.split(r"[*?[]", path)[0]) if word.glob else path


def _covers_any(rule: Rule, closed: list[tuple[str, ...] | None], policy: Policy) -> bool:
    return any(paths is None or any(matches_path(rule, path, policy.root) for path in paths) for paths in closed)
