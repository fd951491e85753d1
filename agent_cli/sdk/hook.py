"""Hooks as functions of the program."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.protocol.json_text import decode_json

from .approvals import Allow, CallbackError, Deny, called
from .options import AgentError

if TYPE_CHECKING:
    from agent_cli.hooks.definition import Hook as EngineHook

SOURCE = "Agent(hooks=…)"


class HookEvent(msgspec.Struct, frozen=True):
    """The event passed to a hook."""

    name: str
    """Name of the event, such as `PreToolUse`."""
    tool: str
    """The tool, by its name in hooks of Claude Code; empty if the event is not about a tool call."""
    input: dict[str, Any]
    """The arguments of the call, by their names in hooks of Claude Code."""
    path: Path | None
    """The file that the call is about, if any."""
    prompt: str
    """The prompt, if the event is about one."""
    facts: dict[str, Any]
    """All facts, as passed to a hook that is a program."""


Answer = Allow | Deny | None


class Hook(msgspec.Struct, frozen=True):
    """A function that is called at an event (see docs/hooks.md).

    `Deny` refuses what is about to happen. `Allow` lets a call run without approval, but overrides no rule. None
    means no decision. If the function raises an exception or times out, the action is refused, and a `Notice` says
    why.
    """

    event: str
    """Such as `PreToolUse`."""
    callback: Callable[[HookEvent], Answer | Awaitable[Answer]]
    matcher: str = ""
    """Tools to match, such as `Edit|Write`; empty for all."""
    timeout_s: float = 60.0


def adapted(hook: Hook) -> "EngineHook":
    """Convert a hook to the engine's form.

    Raises:
        AgentError: there is no such event.
    """
    from agent_cli.hooks.definition import Hook as EngineHook
    from agent_cli.hooks.definition import HookProcess, event_named, nearest_event

    event = event_named(hook.event)
    if event is None:
        hint = f"; did you mean {near}?" if (near := nearest_event(hook.event)) else ""
        raise AgentError(f"there is no hook event {hook.event!r}{hint}")

    async def callback(given: bytes, timeout_s: float) -> HookProcess:
        try:
            said = await called(hook.callback, _event(decode_json(given)), timeout_s)
        except CallbackError as error:
            return HookProcess(problem=f"failed: {error}")
        match said:
            case Deny(message=message):
                return HookProcess(2, stderr=message)
            case Allow():
                return HookProcess(0, stdout=_ALLOWS)
            case None:
                return HookProcess(0)
            case _:
                return HookProcess(problem=f"failed: it returned {type(said).__name__}, not Allow, Deny or None")

    name = getattr(hook.callback, "__name__", "a callback")
    return EngineHook(
        event, "", hook.matcher, hook.timeout_s, dialect="claude", on_error="block", name=name, source=SOURCE,
        callback=callback,
    )  # fmt: skip


_ALLOWS = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'


def _event(facts: dict[str, Any]) -> HookEvent:
    given = facts.get("tool_input") or {}
    path = given.get("file_path") or given.get("path")
    return HookEvent(
        name=facts.get("hook_event_name", ""),
        tool=facts.get("tool_name", ""),
        input=given,
        path=Path(path) if isinstance(path, str) else None,
        prompt=str(facts.get("prompt", "")),
        facts=facts,
    )
