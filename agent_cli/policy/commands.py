"""The policy's word on a shell line: every simple command of it, everything those run, every file they name.

Deny rules are held against all forms of a command first; then what it may destroy, then ask rules; only then
may a rule or the tables of readers allow it. What cannot be read with certainty is never allowed by a rule.
"""

import os
import re

import msgspec

from ..protocol.actions import Allow, Ask, Deny, Verdict
from . import danger
from .grants import grant_for
from .paths import Policy, is_protected, read_verdict, strictest, watched, write_verdict
from .readers import Reading, git_extras_are_known, reading
from .rules import Effect, Rule, matches_words
from .shell_syntax import SimpleCommand, Unsure, Word, parse
from .unwrap import Layers, layers, normalised, program

_MAX_DEPTH = 4
_TAIL = 16
"""Letters of a cluster of options behind which a file name is looked for."""


class _Step(msgspec.Struct, frozen=True):
    """A simple command with all that it runs and the directory it runs in."""

    part: SimpleCommand
    inside: Layers
    cwd: str


def run_verdict(line: str, cwd: str, policy: Policy, depth: int = 0) -> Verdict:
    """What the policy says to a shell line."""
    try:
        if depth > _MAX_DEPTH:
            raise Unsure("shells inside shells")
        steps = _steps(line, cwd, policy)
    except Unsure as doubt:
        return _unread(line, str(doubt), policy)
    if not steps:
        return Allow("an empty command")
    verdicts = [_simple(step, policy, depth) for step in steps]
    last = [msgspec.structs.replace(step.inside.commands[-1], then=step.part.then) for step in steps]
    worst = strictest(verdicts)
    if not isinstance(worst, Deny) and (why := danger.runs_a_pipe(last)):
        return Ask("destruction", why)
    asks = [verdict for verdict in verdicts if isinstance(verdict, Ask)]
    if isinstance(worst, Ask) and len(asks) > 1:
        worst = msgspec.structs.replace(_weightiest(asks), grant="")
    return worst


def input_verdict(command: str, text: str, policy: Policy) -> Verdict:
    """What the policy says to input for a running command. What it does with it cannot be known, so no table
    and no rule allows it; rules against commands hold for each line of it."""
    lines = tuple(line.strip() for line in text.splitlines())
    if rule := _rule_on(lines, policy, "deny"):
        return Deny(str(rule), "the command is denied")
    reason = f"it types into `{command}`"
    if policy.mode == "plan":
        return Deny("mode plan", reason)
    if any(map(danger.catastrophic, lines)):
        return Ask("possible destruction", f"{reason} and may destroy what undo cannot bring back")
    if rule := _rule_on(lines, policy, "ask"):
        return Ask(str(rule), reason)
    if policy.mode == "yolo":
        return Allow("mode yolo")
    if policy.mode == "auto-edit" and policy.sandboxed:
        return Allow("mode auto-edit, in the sandbox")
    return Ask(f"mode {policy.mode}", reason)


def _weightiest(asks: list[Ask]) -> Ask:
    """The question to show: what a rule or destruction asks before what only the mode does."""
    return next((ask for ask in asks if not ask.rule.startswith("mode ")), asks[0])


def _steps(line: str, cwd: str, policy: Policy) -> list[_Step]:
    """Each simple command with its directory. `cd` is followed only where it cannot fail unnoticed."""
    parts = parse(line)
    found = []
    for at, part in enumerate(parts):
        inside = layers(part)
        found.append(_Step(part, inside, cwd))
        if any(program(command) in ("cd", "pushd", "popd") for command in inside.commands):
            if part.argv[0] != "cd" or part.then not in ("&&", "") or (at and parts[at - 1].then == "|"):
                raise Unsure("a change of directory that may not happen")
            if any(other.then not in ("&&", "|", "") for other in parts):
                raise Unsure("a change of directory that may fail")
            cwd = _entered(part, cwd, policy)
    return found


def _entered(part: SimpleCommand, cwd: str, policy: Policy) -> str:
    """The directory after `cd DIR`, as the shell keeps it: links in it are not resolved."""
    word = part.words[1] if len(part.words) == 2 else Word("-")
    if word.glob or word.text[:1] in ("-", "") or part.assigns:
        raise Unsure("a change of directory that cannot be followed")
    written = policy.home + word.text[1:] if word.text.startswith("~") else word.text
    logical = os.path.normpath(os.path.join(cwd, written))
    if policy.resolve(word.text, cwd) != policy.resolve(logical, cwd):
        raise Unsure("a change of directory through a link")
    return logical


def _unread(line: str, doubt: str, policy: Policy) -> Verdict:
    """A line the reader refused: no rule can allow it; in yolo it runs unless a rule might forbid it."""
    reason = f"the command cannot be checked ({doubt})"
    if rule := _rule_on((line.strip(),), policy, "deny"):
        return Deny(str(rule), "the command is denied")
    if policy.mode == "plan":
        return Deny("mode plan", f"{reason}; plan mode runs only commands known to read")
    if danger.catastrophic(line):
        return Ask("possible destruction", f"{reason} and may destroy what undo cannot bring back")
    for rule in policy.rules:
        if rule.effect != "allow" and rule.kind in ("shell", "read", "write") and rule.place != "built in":
            return Ask(str(rule), f"{reason} against this rule")
    for word in re.split(r"[\s$`(){};|&<>=:@,]+", re.sub(r"[\"'\\]", "", line)):
        path = os.path.normpath(os.path.join(policy.root, word))
        glob = re.search(r"[*?]|\[.+\]", word) is not None
        if word and isinstance(verdict := watched(path, word, policy, glob), Ask):
            return Ask(verdict.rule, f"{reason} against this rule")
    if policy.mode == "yolo":
        return Allow("mode yolo")
    if policy.mode == "auto-edit" and policy.sandboxed:
        return Allow("mode auto-edit, in the sandbox")
    return Ask(f"mode {policy.mode}", reason)


def _simple(step: _Step, policy: Policy, depth: int) -> Verdict:
    """The verdict on a simple command: its own, that of its files, and those of all that it runs."""
    outer, *inner = step.inside.commands
    verdicts = [_one(outer, step.cwd, policy)]
    nested = [_one(command, step.cwd, policy) for command in inner]
    nested += [run_verdict(script, step.cwd, policy, depth + 1) for script in step.inside.scripts]
    allowed = _allowing_rule(outer, policy)
    if allowed and "*" not in allowed.pattern:
        nested = [
            verdict for verdict in nested if not (isinstance(verdict, Ask) and verdict.rule.startswith("mode "))
        ]
    worst = strictest(verdicts + nested)
    if isinstance(worst, Ask):
        return _weightiest([verdict for verdict in verdicts + nested if isinstance(verdict, Ask)])
    return worst


def _one(part: SimpleCommand, cwd: str, policy: Policy) -> Verdict:
    """The verdict on one command, whatever it runs in turn."""
    shown = " ".join(part.argv)
    texts = _texts(part)
    if denied := _rule_on(texts, policy, "deny"):
        return Deny(str(denied), f"`{shown}` is denied")
    read = None if _is_doubtful(part, policy) else reading(part)
    files = _files(part, read, cwd, policy)
    if isinstance(files, Deny):
        return files
    if policy.mode == "plan" and (read is None or not set(part.writes) <= danger.HARMLESS):
        return Deny("mode plan", f"`{shown}` is not known to only read")
    place = danger.Place(lambda word: policy.resolve(word, cwd), policy.roots, policy.home)
    why = danger.destroys(part, place) or _redirected(part, place)
    if why:
        return Ask("destruction", f"{why}; undo cannot bring that back")
    if asked := _rule_on(texts, policy, "ask"):
        return Ask(str(asked), f"`{shown}` needs approval")
    both = (files, _own(part, shown, read, cwd, policy))
    asks = [verdict for verdict in both if isinstance(verdict, Ask)]
    return _weightiest(asks) if asks else both[1]


def _is_doubtful(part: SimpleCommand, policy: Policy) -> bool:
    """Whether earlier commands of the session may have changed what this one runs, so that no table knows it."""
    if policy.shadowed and ("*" in policy.shadowed or program(part) in policy.shadowed):
        return True
    return _is_redefined(part, policy) or any(map(danger.may_change_what_runs, policy.altered))


def _is_redefined(part: SimpleCommand, policy: Policy) -> bool:
    """Whether a rule of the user's would not cover it any more: the name is a function by now, or programs are
    made to load something. A changed PATH alone, as in a virtual environment, leaves rules in force."""
    if policy.functions and ("*" in policy.functions or program(part) in policy.functions):
        return True
    return any(map(danger.changes_what_runs, policy.altered))


def _own(part: SimpleCommand, shown: str, read: Reading | None, cwd: str, policy: Policy) -> Verdict:
    if allowed := _allowing_rule(part, policy):
        return Allow(str(allowed))
    closed = policy.searched(cwd) if read is not None and read.opens else None
    if read is not None and closed is None:
        return Allow("known to only read")
    if policy.mode == "yolo":
        return Allow("mode yolo")
    if policy.mode == "auto-edit" and policy.sandboxed:
        return Allow("mode auto-edit, in the sandbox")
    if closed is not None and policy.mode == "plan":
        return Deny("mode plan", f"`{shown}` may open files that {closed} closes")
    why = "there is no sandbox here" if policy.mode == "auto-edit" else f"`{shown}` may change things"
    if closed is not None:
        why = f"`{part.argv[0]}` may open files that {closed} closes"
    return Ask(f"mode {policy.mode}", why, grant_for(part))


def _redirected(part: SimpleCommand, place: danger.Place) -> str:
    whys = (
        danger.protected_target(place.resolve(target), place)
        for target in part.writes
        if target not in danger.HARMLESS
    )
    return next(filter(None, whys), "")


def _texts(part: SimpleCommand) -> tuple[str, ...]:
    """The forms of a command that deny and ask rules are held against."""
    written = part.argv
    bare = (program(part), *written[1:])
    return tuple(dict.fromkeys(" ".join(words) for words in (written, bare, normalised(part))))


def _rule_on(texts: tuple[str, ...], policy: Policy, effect: Effect) -> Rule | None:
    for rule in policy.rules:
        if rule.effect == effect and rule.kind == "shell" and any(matches_words(rule, text) for text in texts):
            return rule
    return None


def _allowing_rule(part: SimpleCommand, policy: Policy) -> Rule | None:
    """The rule that allows a command. A prefix does not cover options of git that write files or run programs."""
    text = " ".join(part.argv)
    for rule in () if part.assigns or _is_redefined(part, policy) else policy.rules:
        if rule.effect != "allow" or rule.kind != "shell" or not matches_words(rule, text):
            continue
        if "*" not in rule.pattern or program(part) != "git" or git_extras_are_known(part.argv, rule.pattern):
            return rule
    return None


def _files(part: SimpleCommand, read: Reading | None, cwd: str, policy: Policy) -> Verdict:
    """The verdict on every file a simple command names. Words of unknown programs are held only against
    deny and ask rules and protected paths; files of known readers and redirections are judged in full."""
    verdicts: list[Verdict] = []
    for target in part.writes:
        if target not in danger.HARMLESS:
            verdicts.append(write_verdict(policy.resolve(target, cwd), target, policy))
    for source in part.reads:
        verdicts.append(read_verdict(policy.resolve(source, cwd), source, policy))
    for word in read.files if read else ():
        verdicts.append(read_verdict(policy.resolve(word.text, cwd), _written(word.text, cwd), policy, word.glob))
    for word in read.judged if read else part.words[1:]:
        verdicts += _watched_word(word, cwd, policy, protected=read is None)
    if read and read.opens and (rule := _opened_by(read, policy)):
        verdicts.append(Ask(str(rule), f"`{part.argv[0]}` may open files that this rule covers"))
    return strictest(verdicts)


def _written(word: str, cwd: str) -> str:
    return os.path.join(cwd, os.path.expanduser(word))


def _watched_word(word: Word, cwd: str, policy: Policy, protected: bool) -> list[Verdict]:
    """What deny and ask rules say to all that a program may take for a file in one word."""
    found: list[Verdict] = []
    for text in _parts(word.text):
        path = policy.resolve(text, cwd)
        if verdict := watched(path, _written(text, cwd), policy, word.glob):
            found.append(verdict)
        elif protected and is_protected(path, policy) and not path.endswith("/.git"):
            found.append(Ask("protected path", f"{text} belongs to git or to the agent itself"))
    return found


def _parts(word: str) -> list[str]:
    """The word itself, what follows `=`, `@` or `:` in it, and what follows the letters of an option."""
    parts = [] if word.startswith("-") else [word]
    if any(mark in word for mark in "=@:"):
        parts += re.split("[=@:]", word)[1:]
    if cluster := re.match(rf"-\w{{1,{_TAIL}}}", word):
        parts += [word[at:] for at in range(2, cluster.end() + 1)]
    return [part for part in parts if part]


def _opened_by(read: Reading, policy: Policy) -> Rule | None:
    """The first rule about files that a search may open without naming them."""
    for rule in policy.rules:
        if rule.kind == "read" and rule.effect != "allow" and (read.opens == "all" or rule.place != "built in"):
            return rule
    return None
