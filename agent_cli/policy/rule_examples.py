"""Examples that test what permission rules decide.

An example is written like a rule, `shell(git status)`, `read(.env)`, `write(src/a.py)`, `fetch(docs.python.org)`,
`mcp(server/tool)`, but stands for one action. `Examples` is the structure under `allow`, `ask` and `deny`.
"""

import contextlib
import os
import re
from collections.abc import Callable

import msgspec

from agent_cli.protocol.actions import (
    Action,
    Allow,
    Ask,
    CallExternal,
    Fetch,
    ReadPath,
    RunCommand,
    Verdict,
    WritePath,
    canonical_host,
)

from .authorize import Policy, authorize
from .rules.rule import Effect

_FORM = re.compile(r"\s*(shell|outside|read|write|fetch|mcp)\((.+)\)\s*", re.DOTALL)


class ExampleError(ValueError):
    """Malformed example; the text shows the correct form."""


class Example(msgspec.Struct, frozen=True):
    """An action, the verdict expected on it, and where the example is written."""

    expected: Effect
    text: str
    place: str


class Problem(msgspec.Struct, frozen=True):
    """An example that does not hold or, without a verdict, cannot be parsed."""

    example: Example
    verdict: Verdict | None
    why: str


def check(examples: tuple[Example, ...], decide: Callable[[str, str], Verdict]) -> list[Problem]:
    """Return the examples that do not hold. `decide` returns the verdict on a kind (`shell`, `read` …) and the
    text in the brackets."""
    problems = []
    for example in examples:
        try:
            kind, value = read_example(example.text)
        except ExampleError as error:
            problems.append(Problem(example, None, str(error)))
            continue
        verdict = decide(kind, value)
        found = effect_of(verdict)
        if found != example.expected:
            why = f"expected {example.expected}, got {found}: {because(verdict)}"
            problems.append(Problem(example, verdict, why))
    return problems


def read_example(text: str) -> tuple[str, str]:
    """Return the kind of an example and the text in its brackets.

    Raises:
        ExampleError: unknown kind, or brackets missing or empty.
    """
    match = _FORM.fullmatch(text)
    if match is None or not match.group(2).strip():
        raise ExampleError(
            f"{text!r} is not an example; write shell(COMMAND), read(PATH), write(PATH), fetch(HOST)"
        )
    return match.group(1), match.group(2).strip()


def action_of(kind: str, value: str, cwd: str, resolve: Callable[[str, str], str]) -> Action:
    """Return the action of an example; `outside` is a command like `shell`."""
    if kind in ("shell", "outside"):
        return RunCommand(value, cwd)
    if kind in ("read", "write"):
        shown = value if value.startswith("~") else os.path.join(cwd, value)
        return (ReadPath if kind == "read" else WritePath)(resolve(value, cwd), shown)
    if kind == "fetch":
        url = value if "://" in value else f"https://{value}/"
        host = re.sub(r"^[a-z]+://", "", value).partition("/")[0].rpartition("@")[2]
        with contextlib.suppress(ValueError):  # a port stays, which only rules on this machine have
            host = canonical_host(host)
        return Fetch(url, host)
    server, _, tool = value.partition("/")
    return CallExternal(server, tool)


def decision(policy: Policy) -> Callable[[str, str], Verdict]:
    """Return a function with a policy's verdict on the kind and bracketed text of an example."""
    return lambda kind, value: authorize(action_of(kind, value, policy.root, policy.resolve), policy)


def effect_of(verdict: Verdict) -> Effect:
    """Return the rule effect that corresponds to a verdict."""
    return "allow" if isinstance(verdict, Allow) else "ask" if isinstance(verdict, Ask) else "deny"


def because(verdict: Verdict) -> str:
    """Return the deciding rule of a verdict, with the reason if there is one."""
    return verdict.rule if isinstance(verdict, Allow) else f"{verdict.reason} ({verdict.rule})"
