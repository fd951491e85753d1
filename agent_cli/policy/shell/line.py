"""The verdict on a shell line: every simple command in it, everything those run, every file they name.

All commands of a line share one sandbox, so the line gets the widest reach any of them needs; a command trusted
with less than that makes the line ask. A line that cannot be parsed with certainty is never allowed by a rule.
"""

import os
import re

import msgspec

from agent_cli.protocol.actions import Allow, Ask, Deny, Reach, Verdict, exceeds, narrowest, widest

from ..rules.path_verdict import Policy, strictest, watched, weightiest
from ..rules.rule import BUILT_IN_PLACE
from . import destructive
from .command import CommandInPlace, CommandVerdict, judge_step
from .parser import SimpleCommand, Unsure, Word, parse
from .rule_matching import lines_of, on_leaving
from .sandbox_needs import unread_need
from .wrappers import program, unwrap

_MAX_DEPTH = 4
_MOST_WORDS = 20_000


def run_verdict(line: str, cwd: str, policy: Policy) -> Verdict:
    """Return the verdict on a shell line."""
    return _judge(line, cwd, policy, 0).verdict


def parts_of(line: str, cwd: str, policy: Policy) -> list[tuple[str, Verdict]]:
    """Return each simple command of a line with the verdict on it alone; the whole line if it cannot be parsed."""
    try:
        found = steps(line, cwd, policy)
    except Unsure:
        return [(line, run_verdict(line, cwd, policy))]
    return [(each.shown, each.verdict) for each in _each(found, policy, 0)]


def is_read(line: str, cwd: str, policy: Policy) -> bool:
    """Return True if a line can be parsed with certainty."""
    try:
        return bool(steps(line, cwd, policy)) or not line.strip()
    except Unsure:
        return False


def outside_verdict(line: str, cwd: str, policy: Policy) -> Verdict:
    """Return the verdict on running a line outside the sandbox: Deny if a rule forbids that for one of its
    commands, Allow if rules allow it for all of them, else Ask."""
    try:
        rulings = [
            on_leaving(command, policy) for step in steps(line, cwd, policy) for command in step.inside.commands
        ]
    except Unsure as doubt:
        denied = policy.rules.first("deny", "outside", lines_of(line))
        if denied:
            return Deny(str(denied), "the command may not run outside the sandbox")
        return Ask("sandbox", f"the command cannot be checked ({doubt})", reach="outside")
    for ruling in rulings:
        if ruling.denied:
            return Deny(str(ruling.denied), "the command may not run outside the sandbox")
    for ruling in rulings:
        if not ruling.allowed or policy.untrusted:
            rule = str(ruling.asked or ruling.allowed or "sandbox")
            return Ask(rule, "it must run outside the sandbox", reach="outside")
    return Allow(str(rulings[0].allowed) if rulings else "an empty command", "outside")


def _judge(line: str, cwd: str, policy: Policy, depth: int) -> CommandVerdict:
    try:
        if depth > _MAX_DEPTH:
            raise Unsure("shells inside shells")
        found = steps(line, cwd, policy)
        judged = _each(found, policy, depth)
    except Unsure as doubt:
        unread = _kept_inside(_unread(line, str(doubt), policy), line, policy)
        return CommandVerdict(unread, line, "inside" if policy.sandboxed else "outside")
    if not found:
        return CommandVerdict(Allow("an empty command"), line)
    whole = strictest(each.verdict for each in judged)
    last = [msgspec.structs.replace(step.inside.commands[-1], operator=step.part.operator) for step in found]
    if not isinstance(whole, Deny) and (why := destructive.runs_a_pipe(last)):
        return CommandVerdict(Ask("destruction", why, "", whole.reach), line)
    return _folded(whole, judged, line, policy)


def _each(line: list[CommandInPlace], policy: Policy, depth: int) -> list[CommandVerdict]:
    found = []
    for step in line:
        scripts = [_judge(script, step.cwd, policy, depth + 1) for script in step.inside.scripts]
        found.append(judge_step(step, policy, scripts))
    return found


def _folded(whole: Verdict, judged: list[CommandVerdict], line: str, policy: Policy) -> CommandVerdict:
    """Combine the verdicts on commands that share a sandbox."""
    if isinstance(whole, Deny):
        return CommandVerdict(whole, line)
    over = next((each for each in judged if exceeds(whole.reach, each.trusted)), None)
    asks = [each.verdict for each in judged if isinstance(each.verdict, Ask)]
    if asks:
        first = weightiest(asks)
        grant = first.grant if len(asks) == 1 and not over else ""
        return CommandVerdict(msgspec.structs.replace(first, grant=grant, reach=whole.reach), line)
    if over:
        return CommandVerdict(
            Ask(f"mode {policy.mode}", f"`{over.shown}` {_with(whole.reach)}", "", whole.reach, by_mode=True), line
        )
    return CommandVerdict(whole, line, narrowest(each.trusted for each in judged))


def _with(reach: Reach) -> str:
    what = "have the network" if reach == "network" else "run outside the sandbox"
    return f"would {what}, because another command of this line does"


def input_verdict(command: str, text: str, policy: Policy) -> Verdict:
    """Return the verdict on input for a running command. Its effect cannot be known, so no table and no rule
    allows it; deny and ask rules on commands apply to each line of the input."""
    lines = (text.strip(), *lines_of(text))
    if rule := policy.rules.first("deny", "shell", lines):
        return Deny(str(rule), "the command is denied")
    if policy.unwritable:
        return Deny("unwritable workspace", policy.unwritable)
    reason = f"it types into `{command}`"
    if policy.mode == "plan":
        return Deny("mode plan", reason, by_mode=True)
    if any(map(destructive.catastrophic, lines)):
        return Ask("possible destruction", f"{reason} and may destroy what undo cannot restore")
    if rule := policy.rules.first("ask", "shell", lines):
        return Ask(str(rule), reason)
    if policy.is_unbounded or (policy.mode in ("auto-edit", "yolo") and policy.sandboxed):
        return Allow(
            f"mode {policy.mode}, in the sandbox" if policy.sandboxed else f"mode {policy.mode}", by_mode=True
        )
    return Ask(f"mode {policy.mode}", reason, by_mode=True)


def steps(line: str, cwd: str, policy: Policy) -> list[CommandInPlace]:
    """Return each simple command with its directory. `cd` is followed only if it cannot fail unnoticed."""
    parts = parse(line)
    found = []
    for at, part in enumerate(parts):
        inside = unwrap(part)
        found.append(CommandInPlace(part, inside, cwd))
        if any(program(command) in ("cd", "pushd", "popd") for command in inside.commands):
            if part.argv[0] != "cd" or part.operator not in ("&&", "") or (at and parts[at - 1].operator == "|"):
                raise Unsure("a change of directory that may not happen")
            if any(other.operator not in ("&&", "|", "") for other in parts):
                raise Unsure("a change of directory that may fail")
            cwd = _entered(part, cwd, policy)
    return found


def _entered(part: SimpleCommand, cwd: str, policy: Policy) -> str:
    """Return the directory after `cd DIR`, as the shell tracks it: links are not resolved."""
    word = part.words[1] if len(part.words) == 2 else Word("-")
    if word.glob or word.text[:1] in ("-", "") or part.assigns:
        raise Unsure("a change of directory that cannot be followed")
    written = policy.home + word.text[1:] if word.text.startswith("~") else word.text
    logical = os.path.normpath(os.path.join(cwd, written))
    if policy.resolve(word.text, cwd) != policy.resolve(logical, cwd):
        raise Unsure("a change of directory through a link")
    return logical


def _unread(line: str, doubt: str, policy: Policy) -> Verdict:
    """Return the verdict on a line that cannot be parsed: no rule can allow it; in yolo it runs unless a rule
    might forbid it.
    """
    reason = f"the command cannot be checked ({doubt})"
    if rule := policy.rules.first("deny", "shell", (line.strip(),)):
        return Deny(str(rule), "the command is denied")
    if policy.unwritable:
        return Deny("unwritable workspace", f"{reason}, and {policy.unwritable}")
    if policy.mode == "plan":
        return Deny("mode plan", f"{reason}; plan mode runs only commands known to be read-only", by_mode=True)
    need = unread_need(line)
    if destructive.catastrophic(line):
        return Ask("possible destruction", f"{reason} and may destroy what undo cannot restore", "", need.reach)
    if asked := _may_meet_a_rule(line, reason, policy):
        return msgspec.structs.replace(asked, reach=widest((asked.reach, need.reach)))
    if policy.is_unbounded:
        return Allow("mode yolo", need.reach, by_mode=True)
    if policy.mode in ("auto-edit", "yolo") and policy.sandboxed and need.reach == "inside":
        return Allow(f"mode {policy.mode}, in the sandbox", by_mode=True)
    return Ask(
        f"mode {policy.mode}", f"{reason}; it {need.why}" if need.why else reason, "", need.reach, by_mode=True
    )


def _kept_inside(verdict: Verdict, line: str, policy: Policy) -> Verdict:
    """Apply the rules against leaving the sandbox to the verdict on an unparsed line."""
    leaves = policy.sandboxed and not isinstance(verdict, Deny) and verdict.reach == "outside"
    if leaves and (denied := policy.rules.first("deny", "outside", (line.strip(), *lines_of(line)))):
        return Deny(str(denied), "the command may not run outside the sandbox")
    return verdict


def _may_meet_a_rule(line: str, reason: str, policy: Policy) -> Ask | None:
    """Return the question about a line that a deny or ask rule may cover. Rules on reading are enforced by the
    sandbox if there is one, because it hides what they deny."""
    kinds = ("shell", "write") if policy.sandboxed else ("shell", "read", "write")
    for rule in policy.rules:
        if rule.effect != "allow" and rule.kind in kinds and rule.place != BUILT_IN_PLACE:
            return Ask(str(rule), f"{reason} against this rule")
    words = dict.fromkeys(re.split(r"[\s$`(){};|&<>=:@,]+", re.sub(r"[\"'\\]", "", line)))
    if len(words) > _MOST_WORDS:
        return Ask(
            f"mode {policy.mode}", f"{reason}: it has more than {_MOST_WORDS} different words", by_mode=True
        )
    for word in words:
        path = os.path.normpath(os.path.join(policy.root, word))
        glob = re.search(r"[*?]|\[.+\]", word) is not None
        if not word or (glob and policy.sandboxed):
            continue
        if isinstance(verdict := watched(path, word, policy, glob), Ask | Deny):
            return Ask(verdict.rule, f"{reason} against this rule", reach="outside", by_mode=verdict.by_mode)
    return None
