"""The one place that says allow, ask or deny.

`authorize` is a pure function of an action and a `Policy`. Deny beats ask beats allow, whatever the order
or the source; modes and kept rules included. Every verdict names what decided. A shell line is judged by
its simple commands and by every file its words and redirections name; what cannot be read with certainty
is never allowed by a rule.
"""

import msgspec

from ..protocol.actions import (
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
    WritePath,
)
from .commands import input_verdict, run_verdict
from .paths import Policy, read_verdict, strictest, together, write_verdict
from .rules import Kind, matches_words

__all__ = ["Policy", "authorize", "strictest", "together"]


def authorize(action: Action, policy: Policy) -> Verdict:
    """What the policy says to an action."""
    match action:
        case ReadPath(path=path, shown=shown):
            return read_verdict(path, shown, policy)
        case WritePath(path=path, shown=shown):
            return write_verdict(path, shown, policy)
        case RunCommand(altered=altered, shadowed=shadowed, functions=functions):
            facts = msgspec.structs.replace(
                policy, altered=altered, shadowed=frozenset(shadowed), functions=frozenset(functions)
            )
            return run_verdict(action.command, action.cwd, facts)
        case SendInput(command=command, text=text):
            return input_verdict(command, text, policy)
        case StopCommand():
            return Allow("what the agent has started itself")
        case Fetch(host=host, url=url):
            return _outside(policy, "fetch", host, f"it contacts {host} ({url})", f"fetch({host})")
        case CallExternal(server=server, tool=tool):
            name = f"{server}/{tool}"
            return _outside(policy, "mcp", name, f"it calls the external tool {name}", f"mcp({name})")


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
