"""The verdict on a shell line: every simple command in it, everything those run, every file they name.

All commands of a line share one sandbox, so the line gets the widest reach any of them needs; a command trusted
with less than that makes the line ask. A line that cannot be parsed with certainty is never allowed by a rule.

A simple command is judged in this order: deny rules, what it may destroy, ask rules; only then may a rule or the
tables of read-only programs allow it. An allowed command carries the reach it is trusted with: one allowed only
because the sandbox confines it must not run outside, or with the network, because another command of the same
line needs that.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import msgspec

from agent_cli.protocol.actions import Allow, Ask, Deny, Reach, Verdict, exceeds, narrowest, widest
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_inside

from ..rules.path_verdict import Policy, strictest, together, watched, weightiest
from ..rules.rule import BUILT_IN_PLACE, Effect, Rule, Rules
from . import destructive
from .carried_commands import alias_lines, carried_commands
from .git_needs import folder_of, git_need, unaliased
from .named_files import FilesVerdict, files_named, real_path
from .parser import SimpleCommand, Unsure, parse
from .places import CommandInPlace, steps
from .readonly_commands import Reading, reading
from .rule_matching import (
    all_texts_of,
    allowing_rule,
    grant_for,
    grants_for,
    is_doubtful,
    lines_of,
    on_leaving,
    rule_on_fed,
)
from .sandbox_needs import SandboxNeed, leaving_need, need_with_started, unread_need
from .secret_commands import prints_secret, secret_is_granted
from .unread_lines import input_destroys, may_destroy, may_print_secret
from .wrappers import MAX_SHELLS, TRANSPARENT, all_started_by, program, unwrap

_HOST = lazy_regex(r"(?<![a-z])[a-z][a-z+.-]*://(?:[^/@\s]*@)?(\[[0-9a-f:.]+\]|[^/:?#\s]+)", re.IGNORECASE)
_HOME = lazy_regex(r"\$(?:HOME\b|\{HOME\})")
_MOST_FOLDERS = 64
"""Maximum number of directories that are looked at for a deletion in yolo."""
_MOST_WORDS = 20_000


class CommandVerdict(msgspec.Struct, frozen=True):
    """A verdict; `trusted` is the reach an allowed command may get without a question."""

    verdict: Verdict
    shown: str
    trusted: Reach = "outside"


def run_verdict(line: str, cwd: str, policy: Policy) -> Verdict:
    """Return the verdict on a shell line."""
    return _judge(line, cwd, policy, 0).verdict


def parts_of(line: str, cwd: str, policy: Policy) -> list[tuple[str, Verdict]]:
    """Return each simple command of a line with the verdict on it alone; the whole line if it cannot be parsed."""
    try:
        judged = _each(steps(line, cwd, policy), policy, 0)
    except Unsure:
        return [(line, run_verdict(line, cwd, policy))]
    return [(each.shown, each.verdict) for each in judged]


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
        if depth > MAX_SHELLS:
            raise Unsure("shells inside shells")
        found = steps(line, cwd, policy)
        last = [msgspec.structs.replace(step.inside.commands[-1], operator=step.part.operator) for step in found]
        if destructive.runs_what_was_written(last):
            raise Unsure("it runs a file that it writes")
        judged = _each(found, policy, depth)
    except Unsure as doubt:
        unread = _kept_inside(_unread(line, str(doubt), cwd, policy), line, policy)
        return CommandVerdict(unread, line, "inside" if policy.sandboxed else "outside")
    if not found:
        return CommandVerdict(Allow("an empty command"), line)
    whole = strictest(each.verdict for each in judged)
    if not isinstance(whole, Deny) and (why := destructive.runs_a_pipe(last, _reader_in(cwd, policy))):
        return CommandVerdict(Ask("destruction", why, "", whole.reach), line)
    return _folded(whole, judged, line, policy)


def _each(line: list[CommandInPlace], policy: Policy, depth: int) -> list[CommandVerdict]:
    found = []
    before: list[SimpleCommand] = []
    for step in line:
        verdicts = []
        for place in step.places:
            scripts = [_judge(script, place, policy, depth + 1) for script in step.inside.scripts]
            scripts += _started(step.inside.commands, place, policy, depth + 1)
            verdicts.append(judge_step(msgspec.structs.replace(step, cwd=place), policy, scripts, before))
        found.append(_in_any(verdicts))
        before = [*before, step.part] if step.part.operator == "|" else []
    return found


def _started(commands: Sequence[SimpleCommand], cwd: str, policy: Policy, depth: int) -> list[CommandVerdict]:
    """Return the verdicts on what commands start through git's aliases or programs with unknown options, where
    they refuse or ask in every mode. Rules on the text of an alias are applied where it is searched."""
    free = msgspec.structs.replace(policy, mode="yolo")
    bare = msgspec.structs.replace(free, rules=Rules(()))
    started = all_started_by(commands)
    found = [judge_one(command, cwd, free) for command in started.commands]
    found += [_judge(script, cwd, free, depth) for script in started.scripts]
    for command in (*commands, *started.commands):
        if program(command) == "git":
            folder = folder_of(command, cwd)
            found += [_judge(line, folder, bare, depth) for line in alias_lines(command, cwd, policy)]
    return _in_every_mode(found)


def _in_every_mode(verdicts: list[CommandVerdict]) -> list[CommandVerdict]:
    """Return the refusals, and the questions that do not come from the mode."""
    return [
        each
        for each in verdicts
        if isinstance(each.verdict, Deny) or (isinstance(each.verdict, Ask) and not each.verdict.by_mode)
    ]


def _in_any(verdicts: list[CommandVerdict]) -> CommandVerdict:
    """Return the verdict on a command from those for each directory in which it may run."""
    worst = strictest(each.verdict for each in verdicts)
    return CommandVerdict(worst, verdicts[0].shown, narrowest(each.trusted for each in verdicts))


def _folded(whole: Verdict, judged: list[CommandVerdict], line: str, policy: Policy) -> CommandVerdict:
    """Combine the verdicts on commands that share a sandbox."""
    if isinstance(whole, Deny):
        return CommandVerdict(whole, line)
    over = next((each for each in judged if exceeds(whole.reach, each.trusted)), None)
    asks = [each.verdict for each in judged if isinstance(each.verdict, Ask)]
    if asks:
        grant = "" if over else grants_for(asks, whole.reach)
        return CommandVerdict(msgspec.structs.replace(weightiest(asks), grant=grant, reach=whole.reach), line)
    if over:
        why = f"`{over.shown}` {_with(whole.reach)}"
        return CommandVerdict(Ask(f"mode {policy.mode}", why, "", whole.reach, by_mode=True), line)
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
    if input_destroys(command, text, _reader_in(policy.root, policy)):
        return Ask("possible destruction", f"{reason} and may destroy what undo cannot restore")
    if rule := policy.rules.first("ask", "shell", lines):
        return Ask(str(rule), reason)
    if policy.is_unbounded or (policy.mode in ("auto-edit", "yolo") and policy.sandboxed):
        return Allow(
            f"mode {policy.mode}, in the sandbox" if policy.sandboxed else f"mode {policy.mode}", by_mode=True
        )
    return Ask(f"mode {policy.mode}", reason, by_mode=True)


def _unread(line: str, doubt: str, cwd: str, policy: Policy) -> Verdict:
    """Return the verdict on a line that cannot be parsed: no rule can allow it; in yolo it runs unless a rule
    might forbid it."""
    reason = f"the command cannot be checked ({doubt})"
    if rule := policy.rules.first("deny", "shell", (line.strip(),)):
        return Deny(str(rule), "the command is denied")
    if policy.unwritable:
        return Deny("unwritable workspace", f"{reason}, and {policy.unwritable}")
    if policy.mode == "plan":
        return Deny("mode plan", f"{reason}; plan mode runs only commands known to be read-only", by_mode=True)
    need = unread_need(line)
    if may_destroy(line, _reader_in(cwd, policy)) or _destroys_in_a_folder(line, cwd, policy):
        return Ask("possible destruction", f"{reason} and may destroy what undo cannot restore", "", need.reach)
    if may_print_secret(line):
        return Ask("secret", f"{reason} and may show a secret to the model", "", need.reach)
    if asked := _may_meet_a_rule(line, reason, policy):
        return msgspec.structs.replace(asked, reach=widest((asked.reach, need.reach)))
    if policy.is_unbounded:
        return Allow("mode yolo", need.reach, by_mode=True)
    if policy.mode in ("auto-edit", "yolo") and policy.sandboxed and need.reach == "inside":
        return Allow(f"mode {policy.mode}, in the sandbox", by_mode=True)
    return Ask(
        f"mode {policy.mode}", f"{reason}; it {need.why}" if need.why else reason, "", need.reach, by_mode=True
    )


def _destroys_in_a_folder(line: str, cwd: str, policy: Policy) -> bool:
    """Return True if a line may destroy something in one of the folders that its changes of directory lead to,
    if each may happen or not."""
    folders = outside = [cwd]
    subshell = 0
    try:
        parts = _roughly_parsed(line, policy.home)
        for part, command in ((each, command) for each in parts for command in unwrap(each).commands):
            if part.subshell != subshell:
                subshell, folders = part.subshell, outside
            for place in (_destroying_in(folder, policy) for folder in folders):
                if destructive.destroys(command, place) or destructive.destroys_by_redirection(command, place):
                    return True
            if program(command) in ("cd", "pushd"):
                named = [word.text for word in command.words[1:] if word.text[:1] not in ("-", "+")]
                entered = [policy.resolve((named or [policy.home])[0], folder) for folder in folders]
                folders = list(dict.fromkeys((*folders, *entered)))[:_MOST_FOLDERS]
                outside = outside if part.subshell else folders
    except Unsure:
        pass
    return False


def _roughly_parsed(line: str, home: str) -> tuple[SimpleCommand, ...]:
    """Return the commands of a line with the home directory for `$HOME`, and without its subshells if it cannot be
    parsed with them.

    Raises:
        Unsure: it cannot be parsed even so.
    """
    line = _HOME.sub(lambda _: home, line)
    try:
        return parse(line)
    except Unsure:
        return parse(re.sub(r"[()]", "", line))


def _destroying_in(cwd: str, policy: Policy) -> destructive.Cwd:
    scratch = policy.scratch if policy.sandboxed else ()
    return destructive.Cwd(
        lambda word: real_path(word, cwd, policy),
        policy.roots,
        policy.home,
        scratch,
        _reader_in(cwd, policy),
        policy.temporary,
    )


def _reader_in(cwd: str, policy: Policy) -> Callable[[str], str]:
    return lambda path: policy.script(os.path.join(cwd, path))


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


def written_outside(line: str, cwd: str, policy: Policy) -> tuple[str, ...]:
    """Return the real paths of files outside the workspace that a line is known to write or remove. The private
    temporary files of the sandbox do not count. A line that cannot be parsed names none."""
    own = policy.scratch if policy.sandboxed else ()
    paths = dict.fromkeys(_written_by(line, cwd, policy, 0))
    return tuple(path for path in paths if not is_inside(path, policy.roots) and not is_inside(path, own))


def _written_by(line: str, cwd: str, policy: Policy, depth: int) -> Iterator[str]:
    try:
        found = steps(line, cwd, policy) if depth <= MAX_SHELLS else []
    except Unsure:
        return
    for step in found:
        for place in step.places:
            for command in step.inside.commands:
                yield from (real_path(target, place, policy) for target in _targets(command))
            for script in step.inside.scripts:
                yield from _written_by(script, place, policy, depth + 1)


def _targets(command: SimpleCommand) -> Iterator[str]:
    """Yield the paths that a command writes, as written."""
    yield from (target for target in command.writes if target not in destructive.HARMLESS)
    yield from destructive.written_targets(command)


def judge_step(
    step: CommandInPlace, policy: Policy, scripts: list[CommandVerdict], before: Sequence[SimpleCommand]
) -> CommandVerdict:
    """Return the verdict on a simple command, its files and all commands it runs; `scripts` are the verdicts on
    the lines it passes to a shell, `before` are the commands whose output it reads."""
    outer = step.inside.commands[0]
    known = _known_readings(step.inside.commands, before, policy)
    own, *inner = (
        judge_one(command, step.cwd, policy, read) for command, read in zip_longest(step.inside.commands, known)
    )
    nested = [*inner, *scripts]
    reach = widest(each.verdict.reach for each in (own, *nested) if not isinstance(each.verdict, Deny))
    allowed = allowing_rule(outer, policy)
    if allowed and "*" not in allowed.pattern:
        nested = _in_every_mode(nested)
    judged = [own, *nested]
    worst = together(each.verdict for each in judged)
    if isinstance(worst, Deny) and worst.by_mode and _lack_only_type(step.inside.commands, before, policy):
        worst = msgspec.structs.replace(worst, reason=f"{worst.reason}; with `find … -type f` it is")
    if not isinstance(worst, Deny):
        worst = msgspec.structs.replace(worst, reach=reach)
    trusted = narrowest(each.trusted for each in judged) if isinstance(worst, Allow) else "outside"
    return CommandVerdict(worst, own.shown, trusted)


def _known_readings(
    commands: Sequence[SimpleCommand], before: Sequence[SimpleCommand], policy: Policy
) -> tuple[Reading, ...]:
    """Return what a command and those it runs read, where only all of them together tell: just the first if it
    is a transparent wrapper, none if each is judged by itself."""
    outer, *inner = commands
    if not inner or is_doubtful(outer, policy):
        return ()
    if _adds_nothing(outer):
        return (Reading(),)
    if not policy.sandboxed or any(is_doubtful(command, policy) for command in inner):
        return ()
    from .found_files import readings

    return readings(commands, before, policy)


def _lack_only_type(commands: Sequence[SimpleCommand], before: Sequence[SimpleCommand], policy: Policy) -> bool:
    from .found_files import lack_only_type

    return policy.sandboxed and lack_only_type(commands, before, policy)


def _adds_nothing(wrapper: SimpleCommand) -> bool:
    """Return True if a wrapper is as harmless as the command it runs."""
    is_changed = wrapper.assigns or wrapper.background or wrapper.has_unseen_words
    return wrapper.argv[0] == program(wrapper) in TRANSPARENT and not is_changed


def judge_one(part: SimpleCommand, cwd: str, policy: Policy, known: Reading | None = None) -> CommandVerdict:
    """Return the verdict on one command, without the commands it runs; `known` is what it reads, if those tell."""
    shown = " ".join(part.argv or (f"{name}=…" for name in part.assigns))
    if denied := _forbidding(part, cwd, policy, "deny"):
        return CommandVerdict(Deny(str(denied), f"`{shown}` is denied"), shown)
    read = known or (None if is_doubtful(part, policy) else reading(part))
    led = read is not None and read.by_git and not policy.plain_git(cwd)
    if led and not policy.sandboxed:
        read = None
    named = files_named(part, read, cwd, policy)
    if isinstance(named.verdict, Deny):
        return CommandVerdict(named.verdict, shown)
    if refused := _refused(part, shown, read, policy):
        return CommandVerdict(refused, shown)
    place = _destroying_in(cwd, policy)
    plain = part if read is not None else unaliased(part, cwd, policy)
    need = SandboxNeed() if read is not None else _need(part, plain, cwd, place, policy)
    if led and read is None and not need.why:
        need = msgspec.structs.replace(need, why="may run programs that the settings of this repository name")
    return _weighed(part, plain, shown, read, named, need, cwd, place, policy)


def _need(
    part: SimpleCommand, plain: SimpleCommand, cwd: str, place: destructive.Cwd, policy: Policy
) -> SandboxNeed:
    """Return what a command needs on this machine, under these rules; `plain` is the command without an alias."""
    need = need_with_started(plain, cwd, place)
    if not policy.sandboxed:
        return msgspec.structs.replace(need, keys=False)
    if need.reach == "outside":
        return need
    may_leave = not on_leaving(part, policy).denied
    of_git = git_need(plain, cwd, policy, may_leave=may_leave)
    return of_git if of_git.why else msgspec.structs.replace(need, keys=need.keys and may_leave)


def _forbidding(part: SimpleCommand, cwd: str, policy: Policy, effect: Effect) -> Rule | None:
    """Return the rule of an effect that covers a command in any form, or a command it carries."""
    if not policy.rules.of(effect, "shell"):
        return None
    return policy.rules.first(effect, "shell", (*all_texts_of(part), *carried_commands(part, cwd, policy)))


def _on_hosts(part: SimpleCommand, policy: Policy, effect: Effect) -> Rule | None:
    """Return a rule about a host that a command names in a URL."""
    hosts = [host.lower() for word in part.argv[1:] for host in _HOST.findall(word)]
    return policy.rules.first(effect, "fetch", hosts) if hosts else None


def _refused(part: SimpleCommand, shown: str, read: Reading | None, policy: Policy) -> Deny | None:
    """Return the denial of a command that names a denied host or, where nothing may change, is not known to be
    read-only."""
    if denied := _on_hosts(part, policy, "deny"):
        return Deny(str(denied), f"`{shown}` names a host that is denied")
    if read is not None and set(part.writes) <= destructive.HARMLESS:
        return None
    if policy.unwritable:
        return Deny("unwritable workspace", f"`{shown}` is not known to be read-only, and {policy.unwritable}")
    if policy.mode == "plan":
        return Deny("mode plan", f"`{shown}` is not known to be read-only", by_mode=True)
    return None


def _weighed(
    part: SimpleCommand,
    plain: SimpleCommand,
    shown: str,
    read: Reading | None,
    named: FilesVerdict,
    need: SandboxNeed,
    cwd: str,
    place: destructive.Cwd,
    policy: Policy,
) -> CommandVerdict:
    filed = "inside" if isinstance(named.verdict, Deny) else named.verdict.reach
    asking = leaving_need(need)
    if why := destructive.destroys(plain, place) or destructive.destroys_by_redirection(part, place):
        reach = widest((destructive.reach_of(plain, asking.reach), filed))
        return _leaving(Ask("destruction", f"{why}; undo cannot restore that", "", reach), part, shown, policy)
    if asked := (
        _forbidding(part, cwd, policy, "ask") or rule_on_fed(part, policy) or _on_hosts(part, policy, "ask")
    ):
        reach = widest((asking.reach, filed))
        return _leaving(Ask(str(asked), f"`{shown}` needs approval", "", reach), part, shown, policy)
    if prints_secret(plain) and not secret_is_granted(part, policy):
        why, grant = f"`{shown}` shows a secret to the model", grant_for(part, leaves=policy.sandboxed)
        return _leaving(Ask("secret", why, grant, "outside"), part, shown, policy)
    own = _own(part, shown, read, need, cwd, policy)
    worst = together((named.verdict, own.verdict))
    if isinstance(worst, Ask):
        return _leaving(worst, part, shown, policy)
    if isinstance(worst, Allow) and isinstance(own.verdict, Allow):
        worst = msgspec.structs.replace(own.verdict, reach=worst.reach)
    trusted: Reach = narrowest((own.trusted, "network")) if named.relies else own.trusted
    return _leaving(worst, part, shown, policy, trusted)


def _leaving(
    verdict: Verdict, part: SimpleCommand, shown: str, policy: Policy, trusted: Reach = "outside"
) -> CommandVerdict:
    """Apply the rules on leaving the sandbox to a verdict: a command that must never leave is denied if it
    would."""
    leaves = policy.sandboxed and not isinstance(verdict, Deny) and verdict.reach == "outside"
    if leaves and (denied := on_leaving(part, policy).denied):
        return CommandVerdict(Deny(str(denied), f"`{shown}` may not run outside the sandbox"), shown)
    return CommandVerdict(verdict, shown, trusted)


def _own(
    part: SimpleCommand, shown: str, read: Reading | None, need: SandboxNeed, cwd: str, policy: Policy
) -> CommandVerdict:
    """Return the verdict of rules, tables and the mode on the command itself."""
    leaving = on_leaving(part, policy)
    if leaving.asked and (leaving.asked.pattern or need.reach == "outside"):
        return CommandVerdict(
            Ask(str(leaving.asked), f"`{shown}` must run outside the sandbox", "", "outside"), shown
        )
    if leaving.allowed:
        return CommandVerdict(Allow(str(leaving.allowed), "outside"), shown)
    is_free = not policy.sandboxed
    if (allowed := allowing_rule(part, policy)) and (is_free or need.reach != "outside"):
        return CommandVerdict(Allow(str(allowed), need.reach), shown, "outside" if is_free else "network")
    closed = policy.searched(cwd) if read is not None and read.opens else None
    if read is not None and (closed is None or policy.sandboxed):
        trusted: Reach = "network" if closed or read.in_sandbox else "outside"
        if read.by_git and not policy.plain_git(cwd):
            trusted = "inside"
        return CommandVerdict(Allow("known to be read-only"), shown, trusted)
    return _by_mode(part, shown, closed, leaving_need(need), policy)


def _by_mode(
    part: SimpleCommand, shown: str, closed: str | None, need: SandboxNeed, policy: Policy
) -> CommandVerdict:
    name = f"mode {policy.mode}"
    if policy.is_unbounded:
        return CommandVerdict(Allow(name, need.reach, by_mode=True), shown)
    is_enough = need.reach == "inside" or (need.by_http and policy.has_hosts)
    if policy.mode in ("auto-edit", "yolo") and policy.sandboxed and is_enough:
        return CommandVerdict(Allow(f"{name}, in the sandbox", by_mode=True), shown, "inside")
    if closed is not None and policy.mode == "plan":
        return CommandVerdict(Deny(name, f"`{shown}` may open files that {closed} closes", by_mode=True), shown)
    why = f"`{shown}` may change things"
    if need.why:
        why = f"`{shown}` {need.why}"
    elif closed is not None:
        why = f"`{shown}` may open files that {closed} closes"
    elif policy.mode in ("auto-edit", "yolo"):
        why = policy.missing_sandbox or "no sandbox is available here"
    grant = grant_for(part, leaves=policy.sandboxed and need.reach == "outside")
    return CommandVerdict(Ask(name, why, grant, need.reach, by_mode=True), shown)
