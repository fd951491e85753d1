"""The policy that decisions depend on, and its verdicts on reading and changing files."""

import os
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from agent_cli.protocol.actions import Allow, Ask, Deny, Mode, Reach, Verdict, widest
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_inside

from .rule import BUILT_IN_PLACE, Effect, Kind, Rule, Rules, matches_path, may_match_path
from .secret_paths import is_secret, names_a_secret, seen_path

_INVISIBLE = lazy_regex(r"[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
"""Characters that make a name look like another. Joiners, which some scripts and emoji need, are not included."""

_BARE_SETTINGS = ("config", "config.worktree", "commondir")


class Policy(msgspec.Struct, frozen=True):
    """Everything a decision depends on."""

    mode: Mode
    rules: Rules
    roots: tuple[str, ...]
    """Real paths of the workspace root and the folders added to it."""
    protected: tuple[str, ...]
    """Real paths that ask in every mode: the agent's own configuration and state."""
    readable: tuple[str, ...]
    """Real paths outside the workspace that may be read, such as spilled tool output."""
    home: str
    sandboxed: bool
    """True if commands run in a sandbox: it lets them change the workspace and a private `/tmp`, hides what rules
    deny, protects the programs that git runs, and has no network."""
    resolve: Callable[[str, str], str]
    """Returns the real path of a word relative to a directory."""
    hidden: Callable[[str, bool], str | None] = lambda path, glob: None
    """Returns the `FILE:LINE` of an ignore list that closes a real path, or one of the files a glob matches."""
    searched: Callable[[str], str | None] = lambda folder: None
    """Returns the ignore list that closes something a search of a folder may open."""
    altered: tuple[str, ...] = ()
    """Variables that earlier commands have changed."""
    shadowed: frozenset[str] = frozenset()
    """Programs whose names may resolve differently since the PATH was changed; `*` means all."""
    functions: frozenset[str] = frozenset()
    """Names that earlier commands have defined as functions; `*` means all."""
    local: frozenset[str] = frozenset()
    """Programs that the PATH finds in the workspace; `*` means all."""
    instructions: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
    """Names of the files that later conversations in the workspace receive."""
    untrusted: str = ""
    """Source of untrusted text in the conversation, such as a host; empty while there is none. From then on
    network access and changes outside the workspace ask regardless of rules."""
    untrusted_sources: tuple[str, ...] = ()
    """All of these sources, if known."""
    unwritable: str = ""
    """Why nothing may be changed, as in a home directory; empty if changes are allowed."""
    names: Callable[[str], tuple[str, ...] | None] = lambda glob: None
    """Returns the paths that an absolute glob currently matches, as found and as real paths; None if unknown."""
    closed_below: Callable[[str], tuple[str, ...] | None] = lambda folder: None
    """Returns the real paths below a folder that rules currently deny; None if unknown."""
    links_out: Callable[[], bool] = lambda: True
    """Returns True if a link in the workspace may lead outside."""
    splits_out: Callable[[], bool] = lambda: True
    """Returns True if a name in the workspace may name something outside when it is split at blanks."""
    script: Callable[[str], str] = lambda path: ""
    """Returns the text of a small file that a command may run as a script; empty if there is none."""
    hard_links: Callable[[str], tuple[str, ...]] = lambda path: ()
    """Returns further real paths (hard links) of a file that are known and closed."""
    temporary: tuple[str, ...] = ()
    """Temporary files and folders that commands of this session have made outside the sandbox."""
    scratch: tuple[str, ...] = ("/tmp", "/var/tmp")
    """Folders that are private in the sandbox."""
    plain_git: Callable[[str], bool] = lambda folder: True
    """Returns True if git runs no program named in the settings of the repositories around a folder."""
    run_by_git: Callable[[], tuple[str, ...]] = lambda: ()
    """Returns the real paths in the workspace to which git's settings lead: hooks, filters, included settings."""
    may_be_repository: Callable[[str], bool] = lambda folder: False
    """Returns True if a folder has a `HEAD`, as a bare repository has."""
    is_repository: Callable[[str], bool] = lambda folder: True
    """Returns True if a folder is in a git repository."""
    git_is_read_only: Callable[[str], bool] = lambda folder: False
    """Returns True if the data of the repository around a folder is read-only in the sandbox, as that of a
    submodule within the workspace."""
    git_aliases: Callable[[str, str], tuple[str, ...]] = lambda folder, name: ()
    """Returns what a git alias stands for in a folder, by the settings of its repository and of the user."""
    git_setting: Callable[[str, str], str] = lambda folder, name: ""
    """Returns the value of a git setting in a folder, by the same settings; empty if it has none."""
    has_hosts: bool = False
    """True if sandboxed commands reach, by HTTP, the hosts that rules allow."""
    missing_sandbox: str = ""
    """Why the required sandbox is missing or insufficient; commands then ask, even in `yolo`."""

    @property
    def is_unbounded(self) -> bool:
        """True if commands run with full rights because no sandbox is required."""
        return self.mode == "yolo" and not self.sandboxed and not self.missing_sandbox

    @property
    def root(self) -> str:
        return self.roots[0]


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest of several verdicts, with the widest reach of all; Allow if there are none."""
    given = list(verdicts)
    worst = max(given, key=_rank, default=Allow("nothing to decide"))
    if isinstance(worst, Deny):
        return worst
    reach = widest(each.reach for each in given if not isinstance(each, Deny))
    return msgspec.structs.replace(worst, reach=reach)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest of several verdicts, with the widest reach of all; of several questions the
    weightiest."""
    given = list(verdicts)
    worst = strictest(given)
    if not isinstance(worst, Ask):
        return worst
    asks = [verdict for verdict in given if isinstance(verdict, Ask)]
    return msgspec.structs.replace(weightiest(asks), reach=worst.reach)


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on all actions of one call. Of several questions the weightiest is asked, one from a rule
    before one from the mode; a rule to save is offered only if it answers all of them. Approval covers the
    widest reach needed."""
    given = list(verdicts)
    first = together(given)
    asks = [verdict for verdict in given if isinstance(verdict, Ask)]
    if not isinstance(first, Ask) or len(asks) < 2:
        return first
    count = len({ask.reason for ask in asks})
    more = f", and {count - 1} more" if count > 1 else ""
    grant = first.grant if {ask.grant for ask in asks} == {first.grant} else ""
    return msgspec.structs.replace(first, reason=first.reason + more, grant=grant)


def weightiest(asks: list[Ask]) -> Ask:
    """Return the question to show: one from a rule or about destruction before one from the mode, and of those the
    one that says why the command must reach as far as it would."""
    reach = widest(ask.reach for ask in asks)
    return next((ask for ask in asks if not ask.by_mode), next(ask for ask in asks if ask.reach == reach))


def _rank(verdict: Verdict) -> int:
    if isinstance(verdict, Allow):
        return int(verdict.by_mode)  # of two that allow, the one that another mode may change
    return 3 if isinstance(verdict, Deny) else 2


def watched(path: str, shown: str, policy: Policy, glob: bool = False) -> Verdict | None:
    """Return the verdict of deny and ask rules for reading on a path in its real form, its written form and its
    hard links; None if no rule covers it. A glob that may match a denied file asks. The sandbox hides these
    files."""
    if verdict := _watched(path, shown, policy, glob):
        return verdict
    names = _matched(path, shown, policy) if glob else (path,)
    for name in _led_to(path, names or ()) if glob else ():
        if verdict := _watched(name, name, policy, True):
            return verdict
    for name in names or ():
        for twin in policy.hard_links(name):
            if verdict := _watched(twin, twin, policy, False):
                return verdict
    return None


def _matched(path: str, shown: str, policy: Policy) -> tuple[str, ...] | None:
    """Return what a glob currently matches; None if unknown. `..` behind a wildcard, which `path` lacks, leads
    elsewhere if a link matches."""
    written = os.path.join(policy.root, os.path.expanduser(shown))
    found = [policy.names(each) for each in dict.fromkeys((path, written))]
    return None if None in found else tuple(name for names in found for name in names or ())


def _led_to(glob: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the real paths among the matches of a glob that it reaches only through links or `..`."""
    parts = (re.sub(r"\\\[.*|\\\*", "[^/]*", re.escape(part)).replace("\\?", "[^/]") for part in glob.split("/"))
    is_written = re.compile("/".join(parts), re.DOTALL).fullmatch
    for name in dict.fromkeys(names):
        if not is_written(name) and os.path.normpath(name) == name:
            yield name


def _watched(path: str, shown: str, policy: Policy, glob: bool) -> Verdict | None:
    if place := _closing(policy, path, shown, glob):
        return Deny(place, f"{shown} is closed to the agent")
    if rule := _path_rule(policy, "deny", "read", path, shown, glob):
        return may_open(rule, shown) if glob else Deny(str(rule), f"reading {shown} is denied")
    if rule := _path_rule(policy, "ask", "read", path, shown, glob):
        return (
            may_open(rule, shown) if glob else Ask(str(rule), f"reading {shown} needs approval", reach="outside")
        )
    return None


def _closing(policy: Policy, path: str, shown: str, glob: bool) -> str | None:
    """Return the ignore-list entry that closes a path, by its real form or by the name of the link that was
    written."""
    if place := policy.hidden(path, glob):
        return place
    written = _written(policy, shown)
    is_same = written != path and policy.resolve(shown, policy.root) == path
    return policy.hidden(written, glob) if is_same else None


def _written(policy: Policy, shown: str) -> str:
    return os.path.normpath(os.path.join(policy.root, os.path.expanduser(shown)))


def may_open(rule: Rule, shown: str) -> Ask:
    """Return the question about names that may match files covered by a rule."""
    return Ask(str(rule), f"{shown} may name files that this rule covers", reach="outside")


def _path_rule(
    policy: Policy, effect: Effect, kind: Kind, path: str, shown: str, glob: bool = False
) -> Rule | None:
    written = _written(policy, shown)
    forms = (path, written, seen_path(path), seen_path(written))
    names = tuple(dict.fromkeys(forms)) if effect != "allow" else (path,)
    covers = may_match_path if glob else matches_path
    known = _matched(path, shown, policy) if glob else names
    lacks_secrets = known is not None and not any(is_secret(name, policy.home) for name in known)
    for rule in policy.rules.of(effect, kind, built_in=not lacks_secrets):
        is_covered = any(covers(rule, name, policy.root) for name in names)
        if is_covered and not (rule.place == BUILT_IN_PLACE and _lifted(policy, path, glob)):
            return rule
    return None


def _lifted(policy: Policy, path: str, glob: bool) -> bool:
    """Return True if an allow rule that names secrets permits reading this one."""
    return not glob and any(
        matches_path(rule, path, policy.root) and names_a_secret(rule.pattern)
        for rule in policy.rules.of("allow", "read")
    )


def is_protected(path: str, policy: Policy) -> bool:
    """Return True if a path belongs to git or to the agent itself, or controls what the agent may open."""
    if is_inside(path, policy.protected) and not is_inside(path, policy.readable):
        return True
    parts = path.lower().split("/")
    if ".git" in parts:
        return True
    return is_inside(path, policy.roots) and (parts[-1] == ".agentignore" or ".agent" in parts)


def protecting(path: str, shown: str, policy: Policy) -> Ask | None:
    """Return the question about changing a file that is protected in every mode; None if it is not."""
    if is_protected(path, policy) or is_inside(path, policy.protected):  # protected even where reading is allowed
        why = "belongs to git or to the agent itself"
    elif is_obeyed(path, policy):
        why = "is run or obeyed by git, editors, shells or other agents"
    else:
        return None
    return Ask("protected path", f"{shown} {why}", reach="outside")


def is_obeyed(path: str, policy: Policy) -> bool:
    """Return True if editors, shells, other agents or git run or obey a workspace file on their own."""
    from agent_cli.protocol.paths import has_autorun_name

    around = max((root for root in policy.roots if is_inside(path, (root,))), key=len, default="")
    if not around:
        return False
    if has_autorun_name(path[len(around) :]) or is_inside(path, policy.run_by_git()):
        return True
    return _controls_bare_repository(path, policy)


def _controls_bare_repository(path: str, policy: Policy) -> bool:
    """Return True if a file makes its folder a repository without `.git`, or is a setting or hook of one."""
    folder, name = os.path.split(path)
    if name.lower() == "head":
        return True
    if os.path.basename(folder).lower() in ("hooks", "info"):
        return policy.may_be_repository(os.path.dirname(folder))
    return name.lower() in _BARE_SETTINGS and policy.may_be_repository(folder)


def read_verdict(path: str, shown: str, policy: Policy, glob: bool = False) -> Verdict:
    """Return the verdict on reading a file."""
    if verdict := watched(path, shown, policy, glob):
        return verdict
    if rule := _path_rule(policy, "allow", "read", path, shown):
        return Allow(str(rule))
    if is_inside(path, policy.readable):
        return Allow("kept output and skills")
    if is_inside(path, policy.protected):
        return Ask("protected path", f"{shown} belongs to the agent itself", reach="outside")
    if is_inside(path, policy.roots) and not (glob and _leads_out(path, shown, policy)):
        return Allow("reads in the workspace")
    reason = f"{shown} is outside the workspace"
    if policy.mode == "plan":
        return Deny("mode plan", reason, by_mode=True)
    if policy.mode == "yolo":
        return Allow("mode yolo", by_mode=True)
    return Ask(f"mode {policy.mode}", reason, f"read({path})", by_mode=True)


def _leads_out(path: str, shown: str, policy: Policy) -> bool:
    """Return True if a glob in the workspace matches something outside."""
    names = _led_to(path, _matched(path, shown, policy) or ())
    return any(not is_inside(name, (*policy.roots, *policy.readable)) for name in names)


def write_verdict(path: str, shown: str, policy: Policy) -> Verdict:
    """Return the verdict on creating, changing or deleting a file."""
    if denied := _unwritable(path, shown, policy):
        return denied
    for twin in policy.hard_links(path):
        if isinstance(denied := _unwritable(twin, twin, policy), Deny):
            return denied
    if policy.mode == "plan":
        return Deny("mode plan", "plan mode changes nothing", by_mode=True)
    if asked := protecting(path, shown, policy):
        return asked
    if found := _INVISIBLE.search(path + shown):
        why = f"the name {shown!a} holds the invisible character U+{ord(found.group()):04X}"
        return Ask("deceptive name", why, reach="outside")
    if asked := _instructing(path, shown, policy):
        return asked
    is_ours = is_inside(path, policy.roots)
    reach: Reach = "inside" if is_ours else "outside"
    if rule := _path_rule(policy, "ask", "write", path, shown):
        return Ask(str(rule), f"changing {shown} needs approval", reach="outside")
    if rule := _path_rule(policy, "allow", "write", path, shown):
        return Allow(str(rule), reach)
    if (policy.mode == "yolo" and is_ours) or policy.is_unbounded:
        return Allow("mode yolo", reach, by_mode=True)
    if is_ours and policy.mode == "auto-edit":
        return Allow("mode auto-edit", by_mode=True)
    reason = f"it changes {shown}" if is_ours else f"{shown} is outside the workspace"
    return Ask(f"mode {policy.mode}", reason, _write_grant(path, policy), reach, by_mode=True)


def is_write_denied(path: str, policy: Policy) -> bool:
    """Return True if a rule forbids changing a file."""
    return any(matches_path(rule, path, policy.root) for rule in policy.rules.of("deny", "write"))


def is_scratch(path: str, policy: Policy) -> bool:
    """Return True if commands see the sandbox's own temporary files at a path, not those of the machine."""
    return policy.sandboxed and is_inside(path, policy.scratch) and not is_inside(path, policy.roots)


def guarded_write(path: str, shown: str, policy: Policy) -> Verdict | None:
    """Return the verdict of deny and ask rules on changing a file, in any mode; None if none covers it."""
    if denied := _unwritable(path, shown, policy):
        return denied
    if rule := _path_rule(policy, "ask", "write", path, shown):
        return Ask(str(rule), f"changing {shown} needs approval", reach="outside")
    return _instructing(path, shown, policy)


def is_instruction(path: str, policy: Policy) -> bool:
    """Return True if later conversations in the workspace receive the content of a file."""
    names = tuple(f"/{name.lower()}" for name in policy.instructions)
    return is_inside(path, policy.roots) and path.lower().endswith(names)


def _instructing(path: str, shown: str, policy: Policy) -> Ask | None:
    """Return the question about changing instructions for later conversations while untrusted text may have
    influenced the model."""
    if not policy.untrusted or not is_instruction(path, policy):
        return None
    why = f"text from {policy.untrusted} is in the conversation, and later ones would be given {shown}"
    return Ask("instructions", why, reach="outside")


def _unwritable(path: str, shown: str, policy: Policy) -> Deny | None:
    if place := _closing(policy, path, shown, False):
        return Deny(place, f"{shown} is closed to the agent")
    if rule := _path_rule(policy, "deny", "write", path, shown):
        return Deny(str(rule), f"changing {shown} is denied")
    if rule := _path_rule(policy, "deny", "read", path, shown):
        return Deny(str(rule), f"{shown} may not be read, so it may not be changed")
    if policy.unwritable and is_inside(path, policy.roots):
        return Deny("unwritable workspace", policy.unwritable)
    return None


def _write_grant(path: str, policy: Policy) -> str:
    """Return the rule to offer for a changed file. In the workspace it covers the whole folder and below, because
    edits come in groups; files of the root itself and files elsewhere are offered one by one."""
    prefix = policy.root.rstrip("/") + "/"
    if not path.startswith(prefix):
        return f"write({path})"
    folder = os.path.dirname(path[len(prefix) :])
    return f"write({folder}/**)" if folder else f"write({path[len(prefix) :]})"
