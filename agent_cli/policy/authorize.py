"""The one place that says allow, ask or deny.

`authorize` is a pure function of an action and a `Policy`. Deny beats ask beats allow, whatever the order
or the source; modes and kept rules included. Every verdict names what decided. A shell line is judged by
its simple commands and by every file its words and redirections name; what cannot be read with certainty
is never allowed by a rule.
"""

import os
from collections.abc import Callable, Iterable

import msgspec

from ..protocol.actions import (
    Action,
    Allow,
    Ask,
    CallExternal,
    Deny,
    Fetch,
    Mode,
    ReadPath,
    RunCommand,
    Verdict,
    WritePath,
)
from . import commands
from .rules import Effect, Kind, Rule, matches_path, matches_words
from .shell_syntax import SimpleCommand, Unsure, parse

_HARMLESS = {"/dev/null", "/dev/stdout", "/dev/stderr"}


class Policy(msgspec.Struct, frozen=True):
    """All that a decision depends on."""

    mode: Mode
    rules: tuple[Rule, ...]
    roots: tuple[str, ...]
    """Real paths of the workspace root and the folders added to it."""
    protected: tuple[str, ...]
    """Real paths that ask in every mode: the agent's own configuration and state."""
    readable: tuple[str, ...]
    """Real paths outside the workspace that may be read, such as spilled tool output."""
    home: str
    sandboxed: bool
    """Whether commands really run in a sandbox."""
    resolve: Callable[[str, str], str]
    """Real path of a word, relative to a directory."""

    @property
    def root(self) -> str:
        return self.roots[0]


def authorize(action: Action, policy: Policy) -> Verdict:
    """What the policy says to an action."""
    match action:
        case ReadPath(path=path, shown=shown):
            return _read(path, shown, policy)
        case WritePath(path=path, shown=shown):
            return _write(path, shown, policy)
        case RunCommand():
            return _run(action, policy)
        case Fetch(host=host, url=url):
            return _outside(policy, "fetch", host, f"it contacts {host} ({url})", f"fetch({host})")
        case CallExternal(server=server, tool=tool):
            name = f"{server}/{tool}"
            return _outside(policy, "mcp", name, f"it calls the external tool {name}", f"mcp({name})")


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several actions together; nothing to judge is allowed."""
    worst: Verdict | None = None
    for verdict in verdicts:
        if worst is None or _rank(verdict) > _rank(worst):
            worst = verdict
    return worst or Allow("nothing to decide")


def _rank(verdict: Verdict) -> int:
    return 2 if isinstance(verdict, Deny) else 1 if isinstance(verdict, Ask) else 0


def _path_rule(policy: Policy, effect: Effect, kind: Kind, path: str, shown: str) -> Rule | None:
    written = os.path.normpath(os.path.join(policy.root, os.path.expanduser(shown)))
    for rule in policy.rules:
        if rule.effect == effect and rule.kind == kind:
            if matches_path(rule, path, policy.root):
                return rule
            if effect != "allow" and matches_path(rule, written, policy.root):
                return rule
    return None


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _is_protected(path: str, policy: Policy) -> bool:
    if _inside(path, policy.protected) and not _inside(path, policy.readable):
        return True
    parts = path.split("/")
    return ".git" in parts or any(part == ".agent" and _inside(path, policy.roots) for part in parts)


def _read(path: str, shown: str, policy: Policy) -> Verdict:
    if rule := _path_rule(policy, "deny", "read", path, shown):
        return Deny(str(rule), f"reading {shown} is denied")
    if rule := _path_rule(policy, "ask", "read", path, shown):
        return Ask(str(rule), f"reading {shown} needs approval")
    if rule := _path_rule(policy, "allow", "read", path, shown):
        return Allow(str(rule))
    if _inside(path, policy.readable):
        return Allow("output kept by the agent")
    if _inside(path, policy.protected):
        return Ask("protected path", f"{shown} belongs to the agent itself")
    if _inside(path, policy.roots):
        return Allow("reads in the workspace")
    reason = f"{shown} lies outside the workspace"
    if policy.mode == "plan":
        return Deny("mode plan", reason)
    if policy.mode == "yolo":
        return Allow("mode yolo")
    return Ask(f"mode {policy.mode}", reason, f"read({path})")


def _write(path: str, shown: str, policy: Policy) -> Verdict:
    if rule := _path_rule(policy, "deny", "write", path, shown):
        return Deny(str(rule), f"changing {shown} is denied")
    if rule := _path_rule(policy, "deny", "read", path, shown):
        return Deny(str(rule), f"{shown} may not be read, so it may not be changed")
    if policy.mode == "plan":
        return Deny("mode plan", "plan mode changes nothing")
    if _is_protected(path, policy):
        return Ask("protected path", f"{shown} belongs to git or to the agent itself")
    if rule := _path_rule(policy, "ask", "write", path, shown):
        return Ask(str(rule), f"changing {shown} needs approval")
    if rule := _path_rule(policy, "allow", "write", path, shown):
        return Allow(str(rule))
    if policy.mode == "yolo":
        return Allow("mode yolo")
    inside = _inside(path, policy.roots)
    if inside and policy.mode == "auto-edit":
        return Allow("mode auto-edit")
    reason = f"it changes {shown}" if inside else f"{shown} lies outside the workspace"
    return Ask(f"mode {policy.mode}", reason, _write_grant(path, policy))


def _write_grant(path: str, policy: Policy) -> str:
    prefix = policy.root.rstrip("/") + "/"
    if not path.startswith(prefix):
        return f"write({path})"
    folder = os.path.dirname(path[len(prefix) :])
    return f"write({folder}/**)" if folder else f"write({path[len(prefix) :]})"


def _outside(policy: Policy, kind: Kind, name: str, reason: str, grant: str) -> Verdict:
    for effect in ("deny", "ask", "allow"):
        for rule in policy.rules:
            if rule.effect == effect and rule.kind == kind and matches_words(rule, name):
                if effect == "deny":
                    return Deny(str(rule), f"{name} is denied")
                if policy.mode == "plan":
                    break
                return Ask(str(rule), reason) if effect == "ask" else Allow(str(rule))
    if policy.mode == "plan":
        return Deny("mode plan", reason)
    if policy.mode == "yolo":
        return Allow("mode yolo")
    return Ask(f"mode {policy.mode}", reason, grant)


def _run(action: RunCommand, policy: Policy) -> Verdict:
    try:
        parts = parse(action.command)
    except Unsure as doubt:
        return _run_unread(action.command, str(doubt), policy)
    if not parts:
        return Allow("an empty command")
    cwd = action.cwd
    verdicts: list[Verdict] = []
    for part in parts:
        verdicts.append(_simple(part, cwd, policy))
        if part.argv[:1] == ("cd",) and len(part.argv) == 2:
            cwd = policy.resolve(part.argv[1], cwd)
    worst = strictest(verdicts)
    grants = [verdict.grant for verdict in verdicts if isinstance(verdict, Ask)]
    if isinstance(worst, Ask) and len(grants) > 1:
        worst = msgspec.structs.replace(worst, grant="")
    return worst


def _run_unread(line: str, doubt: str, policy: Policy) -> Verdict:
    """A line the reader refused: no rule can allow it; in yolo it runs unless a rule might forbid it."""
    reason = f"the command cannot be checked ({doubt})"
    for rule in policy.rules:
        if rule.effect == "deny" and rule.kind == "shell" and matches_words(rule, line.strip()):
            return Deny(str(rule), "the command is denied")
    if policy.mode == "plan":
        return Deny("mode plan", f"{reason}; plan mode runs only commands known to read")
    if commands.catastrophic(line):
        return Ask("possible destruction", f"{reason} and may destroy what undo cannot bring back")
    watched = [r for r in policy.rules if r.effect != "allow" and r.kind in ("shell", "read", "write")]
    if watched and any(rule.effect == "deny" or rule.kind == "shell" for rule in watched):
        return Ask(str(watched[0]), f"{reason} against this rule")
    if policy.mode == "yolo":
        return Allow("mode yolo")
    if policy.mode == "auto-edit" and policy.sandboxed:
        return Allow("mode auto-edit, in the sandbox")
    return Ask(f"mode {policy.mode}", reason)


def _simple(part: SimpleCommand, cwd: str, policy: Policy) -> Verdict:
    def resolve(word: str) -> str:
        return policy.resolve(word, cwd)

    text = " ".join(part.argv)
    if denied := _shell_rule(policy, "deny", text):
        return Deny(str(denied), f"`{text}` is denied")
    nested = strictest(_nested(part, cwd, policy))
    if isinstance(nested, Deny):
        return nested
    reader = commands.is_reader(part)
    files = _files(part, reader, cwd, policy)
    if isinstance(files, Deny):
        return files
    if policy.mode == "plan" and not (reader and set(part.writes) <= _HARMLESS):
        return Deny("mode plan", f"`{text}` is not known to only read")
    if why := commands.destroys(part, resolve, policy.roots, policy.home):
        return Ask("destruction", f"{why}; undo cannot bring that back")
    if asked := _shell_rule(policy, "ask", text):
        return Ask(str(asked), f"`{text}` needs approval")
    allowed = None if part.assigns else _shell_rule(policy, "allow", text)
    own = _own_verdict(part, text, reader, allowed, policy)
    return strictest((own, files, nested))


def _nested(part: SimpleCommand, cwd: str, policy: Policy) -> list[Verdict]:
    """What a nested shell or a wrapper such as `env` or `xargs` would run, judged by itself."""
    if line := commands.script_of(part):
        return [_run(RunCommand(line, cwd), policy)]
    inner = commands.unwrapped(part)
    return [_simple(inner, cwd, policy)] if inner is not None else []


def _own_verdict(part: SimpleCommand, text: str, reader: bool, allowed: Rule | None, policy: Policy) -> Verdict:
    if allowed:
        return Allow(str(allowed))
    if reader:
        return Allow("known to only read")
    if policy.mode == "yolo":
        return Allow("mode yolo")
    if policy.mode == "auto-edit" and policy.sandboxed:
        return Allow("mode auto-edit, in the sandbox")
    why = "there is no sandbox here" if policy.mode == "auto-edit" else f"`{text}` may change things"
    return Ask(f"mode {policy.mode}", why, commands.grant_for(part))


def _shell_rule(policy: Policy, effect: Effect, text: str) -> Rule | None:
    for rule in policy.rules:
        if rule.effect == effect and rule.kind == "shell" and matches_words(rule, text):
            return rule
    return None


def _files(part: SimpleCommand, reader: bool, cwd: str, policy: Policy) -> Verdict:
    """The verdict on every file a simple command names. Words of unknown programs are held only against
    deny and ask rules; words of known readers and redirections are judged in full."""
    verdicts: list[Verdict] = []
    for target in part.writes:
        if target not in _HARMLESS:
            verdicts.append(_write(policy.resolve(target, cwd), target, policy))
    for source in part.reads:
        verdicts.append(_read(policy.resolve(source, cwd), source, policy))
    for word in (*commands.path_words(part), *commands.hidden_paths(part)):
        verdict = _read(policy.resolve(word, cwd), os.path.join(cwd, os.path.expanduser(word)), policy)
        by_rule = not verdict.rule.startswith("mode ")
        if (reader and word in part.argv) or (by_rule and not isinstance(verdict, Allow)):
            verdicts.append(verdict)
    guarded = [rule for rule in policy.rules if rule.effect == "deny" and rule.kind == "read"]
    if guarded and reader and (any(word.glob for word in part.words) or commands.reads_recursively(part)):
        verdicts.append(Ask(str(guarded[0]), f"`{part.argv[0]}` may open files that this rule denies"))
    return strictest(verdicts)
