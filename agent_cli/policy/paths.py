"""What the policy depends on, and its word on reading and changing files."""

import os
from collections.abc import Callable, Iterable

import msgspec

from ..protocol.actions import Allow, Ask, Deny, Mode, Verdict
from .rules import Effect, Kind, Rule, matches_path, may_match_path


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
    hidden: Callable[[str, bool], str | None] = lambda path, glob: None
    """The `FILE:LINE` of an access list that closes a real path, or one of the files a glob stands for."""
    searched: Callable[[str], str | None] = lambda folder: None
    """An access list that closes something a search of a folder may open."""
    altered: tuple[str, ...] = ()
    """Variables that earlier commands have changed."""
    shadowed: frozenset[str] = frozenset()
    """Programs whose names may mean others since the PATH was changed; `*` stands for all."""
    functions: frozenset[str] = frozenset()
    """Names that earlier commands have made functions of; `*` stands for all."""
    untrusted: str = ""
    """Where text of strangers in the conversation came from, such as a host; empty while there is none. From then
    on the network and changes outside the workspace ask, whatever rules allow."""
    unwritable: str = ""
    """Why nothing at all may be changed, as in a home directory; empty where it may."""

    @property
    def root(self) -> str:
        return self.roots[0]


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several actions together; nothing to judge is allowed."""
    worst: Verdict | None = None
    for verdict in verdicts:
        if worst is None or _rank(verdict) > _rank(worst):
            worst = verdict
    return worst or Allow("nothing to decide")


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on all actions of one call. Of several questions the weightiest is put, one of a rule before
    one of the mode; a rule to keep is offered only when it would answer all of them."""
    given = list(verdicts)
    worst = strictest(given)
    asks = [verdict for verdict in given if isinstance(verdict, Ask)]
    if not isinstance(worst, Ask) or len(asks) < 2:
        return worst
    first = next((ask for ask in asks if not ask.rule.startswith("mode ")), asks[0])
    reasons = tuple(dict.fromkeys(ask.reason for ask in asks))
    more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    grant = first.grant if {ask.grant for ask in asks} == {first.grant} else ""
    return Ask(first.rule, first.reason + more, grant)


def _rank(verdict: Verdict) -> int:
    return 2 if isinstance(verdict, Deny) else 1 if isinstance(verdict, Ask) else 0


def watched(path: str, shown: str, policy: Policy, glob: bool = False) -> Verdict | None:
    """What a deny or ask rule for reading says to a path, by its real and by its written form; None when
    none covers it. A glob that may match a denied file asks."""
    if place := _closing(policy, path, shown, glob):
        return Deny(place, f"{shown} is closed to the agent")
    if rule := _path_rule(policy, "deny", "read", path, shown, glob):
        return _may_open(rule, shown) if glob else Deny(str(rule), f"reading {shown} is denied")
    if rule := _path_rule(policy, "ask", "read", path, shown, glob):
        return _may_open(rule, shown) if glob else Ask(str(rule), f"reading {shown} needs approval")
    return None


def _closing(policy: Policy, path: str, shown: str, glob: bool) -> str | None:
    """What closes a path, by its real form or by the name of the link that was written."""
    if place := policy.hidden(path, glob):
        return place
    written = _written(policy, shown)
    is_same = written != path and policy.resolve(shown, policy.root) == path
    return policy.hidden(written, glob) if is_same else None


def _written(policy: Policy, shown: str) -> str:
    return os.path.normpath(os.path.join(policy.root, os.path.expanduser(shown)))


def _may_open(rule: Rule, shown: str) -> Ask:
    return Ask(str(rule), f"{shown} may name files that this rule covers")


def _path_rule(
    policy: Policy, effect: Effect, kind: Kind, path: str, shown: str, glob: bool = False
) -> Rule | None:
    written = _written(policy, shown)
    covers = may_match_path if glob else matches_path
    for rule in policy.rules:
        if rule.effect == effect and rule.kind == kind:
            if covers(rule, path, policy.root):
                return rule
            if effect != "allow" and written != path and covers(rule, written, policy.root):
                return rule
    return None


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def is_protected(path: str, policy: Policy) -> bool:
    """Whether a path belongs to git or to the agent itself, or says what the agent may open."""
    if _inside(path, policy.protected) and not _inside(path, policy.readable):
        return True
    parts = path.split("/")
    if parts[-1] == ".agentignore" and _inside(path, policy.roots):
        return True
    return ".git" in parts or any(part == ".agent" and _inside(path, policy.roots) for part in parts)


def read_verdict(path: str, shown: str, policy: Policy, glob: bool = False) -> Verdict:
    """What the policy says to reading a file."""
    if verdict := watched(path, shown, policy, glob):
        return verdict
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


def write_verdict(path: str, shown: str, policy: Policy) -> Verdict:
    """What the policy says to creating, changing or deleting a file."""
    if place := _closing(policy, path, shown, False):
        return Deny(place, f"{shown} is closed to the agent")
    if rule := _path_rule(policy, "deny", "write", path, shown):
        return Deny(str(rule), f"changing {shown} is denied")
    if rule := _path_rule(policy, "deny", "read", path, shown):
        return Deny(str(rule), f"{shown} may not be read, so it may not be changed")
    if policy.mode == "plan":
        return Deny("mode plan", "plan mode changes nothing")
    if is_protected(path, policy):
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
    """The rule offered for a changed file. In the workspace it is wider than what was asked: all files of the
    same folder and below, since edits come in groups; the root's own files and files elsewhere one by one."""
    prefix = policy.root.rstrip("/") + "/"
    if not path.startswith(prefix):
        return f"write({path})"
    folder = os.path.dirname(path[len(prefix) :])
    return f"write({folder}/**)" if folder else f"write({path[len(prefix) :]})"
