"""The verdict on one simple command: deny rules first, then what it may destroy, then ask rules; only then may a
rule or the tables of read-only programs allow it.

An allowed command carries the reach it is trusted with. A command allowed only because the sandbox confines it
must not run outside, or with the network, because another command of the same line needs that.
"""

import re

import msgspec

from agent_cli.protocol.actions import Allow, Ask, Deny, Reach, Verdict, narrowest, widest

from ..rules.path_verdict import Policy, strictest, weightiest
from ..rules.rule import Effect, Rule
from . import destructive
from .carried_commands import carried_commands
from .grants import grant_for
from .named_files import FilesVerdict, files_named, real_path
from .parser import SimpleCommand
from .readonly_commands import Reading, reading
from .rule_matching import all_texts_of, allowing_rule, is_doubtful, on_leaving, rule_on_fed
from .sandbox_needs import SandboxNeed, need_of
from .wrappers import TRANSPARENT, UnwrappedCommand, program

_HOST = re.compile(r"(?<![a-z])[a-z][a-z+.-]*://(?:[^/@\s]*@)?(\[[0-9a-f:.]+\]|[^/:?#\s]+)", re.IGNORECASE)


class CommandVerdict(msgspec.Struct, frozen=True):
    """A verdict; `trusted` is the reach an allowed command may get without a question."""

    verdict: Verdict
    shown: str
    trusted: Reach = "outside"


class CommandInPlace(msgspec.Struct, frozen=True):
    """A simple command with all commands it runs and its working directory."""

    part: SimpleCommand
    inside: UnwrappedCommand
    cwd: str


def judge_step(step: CommandInPlace, policy: Policy, scripts: list[CommandVerdict]) -> CommandVerdict:
    """Return the verdict on a simple command, its files and all commands it runs; `scripts` are the verdicts on
    the lines it passes to a shell."""
    outer, *inner = step.inside.commands
    is_transparent = bool(inner) and _adds_nothing(outer) and not is_doubtful(outer, policy)
    own = judge_one(outer, step.cwd, policy, is_transparent)
    nested = [*(judge_one(command, step.cwd, policy) for command in inner), *scripts]
    reach = _needed([own, *nested])
    allowed = allowing_rule(outer, policy)
    if allowed and "*" not in allowed.pattern:
        nested = [
            each for each in nested if not isinstance(each.verdict, Allow) and not _is_of_the_mode(each.verdict)
        ]
    judged = [own, *nested]
    verdicts = [each.verdict for each in judged]
    worst = strictest(verdicts)
    if isinstance(worst, Ask):
        first = weightiest([verdict for verdict in verdicts if isinstance(verdict, Ask)])
        return CommandVerdict(msgspec.structs.replace(first, reach=reach), own.shown)
    if isinstance(worst, Allow):
        worst = msgspec.structs.replace(worst, reach=reach)
    return CommandVerdict(worst, own.shown, narrowest(each.trusted for each in judged))


def _adds_nothing(wrapper: SimpleCommand) -> bool:
    """Return True if a wrapper is as harmless as the command it runs."""
    name = program(wrapper)
    return wrapper.argv[0] == name in TRANSPARENT and not (
        wrapper.assigns or wrapper.background or wrapper.has_unseen_words
    )


def _needed(judged: list[CommandVerdict]) -> Reach:
    return widest(each.verdict.reach for each in judged if not isinstance(each.verdict, Deny))


def _is_of_the_mode(verdict: Verdict) -> bool:
    return isinstance(verdict, Ask) and verdict.by_mode


def judge_one(part: SimpleCommand, cwd: str, policy: Policy, is_transparent: bool = False) -> CommandVerdict:
    """Return the verdict on one command, without the commands it runs. A transparent wrapper is judged by
    those."""
    shown = " ".join(part.argv)
    if denied := _forbidding(part, cwd, policy, "deny"):
        return CommandVerdict(Deny(str(denied), f"`{shown}` is denied"), shown)
    read = Reading() if is_transparent else None if is_doubtful(part, policy) else reading(part)
    led = read is not None and read.by_git and not policy.plain_git(cwd)
    if led and not policy.sandboxed:
        read = None
    named = files_named(part, read, cwd, policy)
    if isinstance(named.verdict, Deny):
        return CommandVerdict(named.verdict, shown)
    if refused := _refused(part, shown, read, policy):
        return CommandVerdict(refused, shown)
    scratch = policy.scratch if policy.sandboxed else ()
    place = destructive.Cwd(lambda word: real_path(word, cwd, policy), policy.roots, policy.home, scratch)
    need = SandboxNeed() if read is not None else need_of(part, cwd, place)
    if led and read is None and not need.why:
        need = msgspec.structs.replace(need, why="may run programs that the settings of this repository name")
    return _weighed(part, shown, read, named, need, cwd, place, policy)


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
    return (
        Deny("mode plan", f"`{shown}` is not known to be read-only", by_mode=True)
        if policy.mode == "plan"
        else None
    )


def _weighed(
    part: SimpleCommand,
    shown: str,
    read: Reading | None,
    named: FilesVerdict,
    need: SandboxNeed,
    cwd: str,
    place: destructive.Cwd,
    policy: Policy,
) -> CommandVerdict:
    filed = "inside" if isinstance(named.verdict, Deny) else named.verdict.reach
    if why := destructive.destroys(part, place) or destructive.destroys_by_redirection(part, place):
        reach = widest((destructive.reach_of(part, need.reach), filed))
        return _leaving(Ask("destruction", f"{why}; undo cannot restore that", "", reach), part, shown, policy)
    if asked := (
        _forbidding(part, cwd, policy, "ask") or rule_on_fed(part, policy) or _on_hosts(part, policy, "ask")
    ):
        reach = widest((need.reach, filed))
        return _leaving(Ask(str(asked), f"`{shown}` needs approval", "", reach), part, shown, policy)
    own = _own(part, shown, read, need, cwd, policy)
    both = (named.verdict, own.verdict)
    worst = strictest(both)
    if isinstance(worst, Ask):
        first = weightiest([verdict for verdict in both if isinstance(verdict, Ask)])
        return _leaving(msgspec.structs.replace(first, reach=worst.reach), part, shown, policy)
    if isinstance(worst, Allow) and isinstance(own.verdict, Allow):
        worst = msgspec.structs.replace(own.verdict, reach=worst.reach)
    trusted: Reach = narrowest((own.trusted, "network")) if named.relies else own.trusted
    return _leaving(worst, part, shown, policy, trusted)


def _leaving(
    verdict: Verdict, part: SimpleCommand, shown: str, policy: Policy, trusted: Reach = "outside"
) -> CommandVerdict:
    """Apply the rules on leaving the sandbox to a verdict: a command that must never leave is denied if it
    would.
    """
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
        trusted: Reach = (
            "inside" if read.by_git and not policy.plain_git(cwd) else "network" if closed else "outside"
        )
        return CommandVerdict(Allow("known to be read-only"), shown, trusted)
    return _by_mode(part, shown, closed, need, policy)


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
    return CommandVerdict(Ask(name, why, _grant(part, need, policy), need.reach, by_mode=True), shown)


def _grant(part: SimpleCommand, need: SandboxNeed, policy: Policy) -> str:
    """Return the rule to offer: one on leaving the sandbox if nothing less would be enough."""
    rule = grant_for(part)
    if rule and policy.sandboxed and need.reach == "outside":
        return f"outside{rule.removeprefix('shell')}"
    return rule
