"""The only place that decides allow, ask or deny.

`authorize` is a pure function of an action and a `Policy`. Deny takes precedence over ask, ask over allow,
whatever the order or source of the rules, including modes and saved rules. Every verdict names what decided it. A
shell line is judged by its simple commands and by every file that its words and redirections name; a line that
cannot be parsed with certainty is never allowed by a rule. Once untrusted text is in the conversation, the user
decides on everything that reaches beyond the workspace.
"""

import msgspec

from agent_cli.protocol.actions import (
    EXTERNAL_SOURCE,
    Action,
    Allow,
    Ask,
    CallExternal,
    Deny,
    Fetch,
    ReadPath,
    RunCommand,
    SendInput,
    StopCommand,
    Verdict,
    WriteMemory,
    WritePath,
)
from agent_cli.protocol.paths import is_inside

from .rules.path_verdict import Policy, combine, read_verdict, strictest, write_verdict
from .rules.rule import Kind, matches_words

__all__ = ["Policy", "authorize", "combine", "judged_parts", "may_leave", "repeats_changes", "strictest"]


def authorize(action: Action, policy: Policy) -> Verdict:
    """Return the policy's verdict on an action."""
    verdict = _decided(action, policy)
    if not policy.untrusted or isinstance(verdict, Deny):
        return verdict
    if isinstance(verdict, Allow) and isinstance(action, CallExternal) and _stays_among_servers(action, policy):
        return verdict
    return _guarded(action, verdict, policy)


def may_leave(action: RunCommand, policy: Policy) -> Verdict:
    """Return the verdict on running a command outside the sandbox, asked for when the sandbox has blocked it.
    Allow: rules let the whole line out; Deny: it must never leave."""
    from .shell.line import outside_verdict

    return outside_verdict(action.command, action.cwd, _with_facts(action, policy))


def judged_parts(action: RunCommand, policy: Policy) -> list[tuple[str, Verdict]]:
    """Return each simple command of a line with the verdict on it alone."""
    from .shell.line import parts_of

    return parts_of(action.command, action.cwd, _with_facts(action, policy))


def repeats_changes(action: RunCommand, policy: Policy) -> bool:
    """Return True if a line that failed halfway may change something a second time when it runs again: it has
    several commands that are not known to be read-only, or cannot be parsed."""
    from .shell.line import is_read

    plan = _with_facts(action, msgspec.structs.replace(policy, mode="plan"))
    changing = [verdict for _, verdict in judged_parts(action, plan) if isinstance(verdict, Deny)]
    return len(changing) > 1 or not is_read(action.command, action.cwd, plan)


def _decided(action: Action, policy: Policy) -> Verdict:
    match action:
        case ReadPath(path=path, shown=shown):
            return read_verdict(path, shown, policy)
        case WritePath(path=path, shown=shown):
            return write_verdict(path, shown, policy)
        case RunCommand():
            from .shell.line import run_verdict  # loaded with the first command line, not at startup

            return run_verdict(action.command, action.cwd, _with_facts(action, policy))
        case SendInput(command=command, text=text):
            from .shell.line import input_verdict

            return input_verdict(command, text, policy)
        case StopCommand():
            return Allow("what the agent has started itself")
        case Fetch(host=host, url=url):
            return _outside(policy, "fetch", host, f"it contacts {host} ({url})", f"fetch({host})")
        case WriteMemory():
            return _memory_verdict(action, policy)
        case CallExternal():
            return _external_verdict(action, policy)


def _external_verdict(action: CallExternal, policy: Policy) -> Verdict:
    """Return the verdict on an external tool call. A tool whose definition differs from the approved one always
    asks."""
    name = f"{action.server}/{action.tool}"
    grant = "" if "*" in name else f"mcp({name})"  # a rule for `*` would cover other tools too
    verdict = _outside(policy, "mcp", name, f"it calls the external tool {name}", grant)
    if action.changed and not isinstance(verdict, Deny):
        return Ask("changed definition", f"the definition of {name} has changed: {action.changed}")
    return verdict


def _memory_verdict(action: WriteMemory, policy: Policy) -> Verdict:
    """Return the verdict on a memory change. Memory is not a workspace file: a change is shown, and undone
    with its turn. A change to what later conversations receive asks like an edit."""
    if policy.mode == "plan":
        return Deny("mode plan", "plan mode changes nothing", by_mode=True)
    if action.scope != "notes" and policy.mode == "ask":
        who = "every project" if action.scope == "user" else "later conversations here"
        return Ask(
            "mode ask", f"it changes the memory block {action.block}, which is given to {who}", by_mode=True
        )
    return Allow("memory is shown and can be undone")


def _with_facts(action: RunCommand, policy: Policy) -> Policy:
    return msgspec.structs.replace(
        policy,
        altered=action.altered,
        shadowed=frozenset(action.shadowed),
        functions=frozenset(action.functions),
        local=frozenset(action.local),
    )


def _guarded(action: Action, verdict: Allow | Ask, policy: Policy) -> Verdict:
    """Return the verdict while untrusted text may have influenced the model: whatever sends data away or changes
    something outside the workspace asks regardless of rules, and no rule is offered that would allow it next
    time."""
    leaves = _leaving(action, verdict, policy)
    if not leaves:
        return verdict
    source = f"text from {policy.untrusted} is in the conversation"
    if isinstance(verdict, Ask):
        return msgspec.structs.replace(verdict, reason=f"{verdict.reason}; {source}", grant="", by_mode=False)
    return Ask(verdict.rule, f"{source}, and {leaves}", "", verdict.reach)


def _stays_among_servers(action: CallExternal, policy: Policy) -> bool:
    """Return True if all untrusted text came from the called server or from servers that a rule allows: the user
    has allowed these to be used together."""
    sources = policy.untrusted_sources
    names = [each.removeprefix(EXTERNAL_SOURCE) if each.startswith(EXTERNAL_SOURCE) else "" for each in sources]
    allows = policy.rules.of("allow", "mcp")
    return bool(names) and all(
        name.partition("/")[0] == action.server or any(matches_words(rule, name) for rule in allows)
        for name in names
    )


def _leaving(action: Action, verdict: Allow | Ask, policy: Policy) -> str:
    """Return what an action does beyond the workspace; empty for nothing."""
    match action:
        case Fetch(host=host):
            return f"it contacts {host}"
        case CallExternal(server=server, tool=tool):
            return f"it calls the external tool {server}/{tool}"
        case WriteMemory(block=block, scope="user" | "project"):
            return f"later conversations would be given it in {block}"
        case WritePath(path=path, shown=shown) if not is_inside(path, policy.roots):
            return f"{shown} is outside the workspace"
        case RunCommand() | SendInput() if verdict.reach == "outside":
            return "it reaches beyond the sandbox and the workspace"
        case RunCommand() if verdict.reach == "network":
            return "it needs the network"
        case RunCommand() if not policy.sandboxed:
            from .shell.line import is_read

            facts = _with_facts(action, policy)  # earlier commands may have changed what the line means
            return "" if is_read(action.command, action.cwd, facts) else "its effect is not known"
        case SendInput() if not policy.sandboxed:
            return "its input may do anything"
        case _:
            return ""


def _outside(policy: Policy, kind: Kind, name: str, reason: str, grant: str) -> Verdict:
    if rule := policy.rules.first("deny", kind, (name,)):
        return Deny(str(rule), f"{name} is denied")
    if policy.mode == "plan":
        return Deny("mode plan", reason, by_mode=True)
    if rule := policy.rules.first("ask", kind, (name,)):
        return Ask(str(rule), reason)
    if rule := policy.rules.first("allow", kind, (name,)):
        return Allow(str(rule))
    if policy.mode == "yolo":
        return Allow("mode yolo", by_mode=True)
    return Ask(f"mode {policy.mode}", reason, grant, by_mode=True)
