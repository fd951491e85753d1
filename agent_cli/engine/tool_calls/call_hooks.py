"""User hooks on a tool call: before the final decision, and after it ran.

A hook may refuse a call, require the user's approval, answer an approval request, or change the call. Changed
arguments are parsed and judged as if the model had written them.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.hooks.call_names import PatchedFile, ToolCallFacts
from agent_cli.protocol.actions import Deny
from agent_cli.session.event_bus import TurnScope
from agent_cli.tools.kit.base import ToolError, ToolOutcome
from agent_cli.tools.registry import Registry

from ..user_hooks.session_hooks import announce
from .approval_gate import ApprovalGate
from .pending_call import HookRuling, PendingCall, failure

if TYPE_CHECKING:
    from agent_cli.hooks.answer import Decision
    from agent_cli.hooks.definition import Event, Hook
    from agent_cli.hooks.engine import HookEngine, HookResult

    from ..services import SessionServices


class CallHooks:
    """The hooks on the calls of one turn."""

    def __init__(
        self, services: "SessionServices", engine: "HookEngine", gate: ApprovalGate, scope: TurnScope
    ) -> None:
        self._engine = engine
        self._registry: Registry = services.registry
        self._session = services.session
        self._root = str(services.tools.workspace.root)
        self._gate = gate
        self._scope = scope
        self.stop_reason = ""
        """Why a hook ends the turn; empty while none does."""

    async def before(self, batch: Sequence[PendingCall]) -> None:
        """Run the hooks on calls that are about to run, except those that a rule denies."""
        asked = [pending for pending in batch if self.is_open(pending)]
        for pending in asked:
            hooks = pending.hooks
            hooks.seen_arguments, hooks.contexts, hooks.rewrite = pending.arguments, (), ""
        if self._engine.has("PreToolUse"):
            await asyncio.gather(*(self._ask(each, "PreToolUse", self._engine.before_call) for each in asked))
        if self._engine.has("PermissionRequest"):
            unanswered = [each for each in asked if each.awaits_answer]
            on_question = self._engine.on_permission
            await asyncio.gather(*(self._ask(each, "PermissionRequest", on_question) for each in unanswered))

    async def after(self, pending: PendingCall, outcome: ToolOutcome, duration_s: float) -> ToolOutcome:
        """Run the hooks after a call and return the outcome with their additions."""
        event: Event = "PostToolUse" if outcome.ok else "PostToolUseFailure"
        contexts, pending.hooks.contexts = pending.hooks.contexts, ()
        if not self._engine.has(event):
            return _with_notes(outcome, contexts)
        response = _response(pending, outcome)
        result = await self._engine.after_call(
            self._facts(pending), response, ok=outcome.ok, duration_s=duration_s
        )
        announce(result, self._session, self._scope)
        self._take_stop(result)
        if result.new_output is not None:
            outcome = msgspec.structs.replace(
                outcome, text=f"[A user hook replaced this result.]\n{result.new_output}"
            )
        said = (result.reason,) if result.decision == "deny" else ()
        return _with_notes(outcome, (*contexts, *said, *result.contexts))

    @staticmethod
    def is_open(pending: PendingCall) -> bool:
        """Return True if a call may still run and hooks have not seen its current arguments."""
        is_asked = pending.hooks.seen_arguments == pending.arguments
        return pending.result is None and not is_asked and not isinstance(pending.authorized.verdict, Deny)

    async def _ask(
        self, pending: PendingCall, event: "Event", hooks: "Callable[[ToolCallFacts], Awaitable[HookResult]]"
    ) -> None:
        """Run hooks on a call. A hook may answer a question to the user as a saved rule could."""
        result = self._taken(pending, await hooks(self._facts(pending)))
        pending.hooks.contexts += result.contexts
        if pending.result is not None:
            return
        if result.new_arguments is not None:
            self._rewrite(pending, result)
            if pending.result is None:
                await self._ask_about_change(pending, event, result.changed_by)
        elif result.decision is not None:
            self._rule(pending, _ruling(result.decision, result))
        if pending.result is None:
            self._gate.judge(pending)

    async def _ask_about_change(self, pending: PendingCall, event: "Event", changed_by: "Sequence[Hook]") -> None:
        """Run the other hooks on a call as hooks have changed it, since one of them may be a guard."""
        self._gate.judge(pending)
        for each in dict.fromkeys((event, "PreToolUse")):
            if pending.result is not None or isinstance(pending.authorized.verdict, Deny):
                return
            result = self._taken(pending, await self._engine.on_change(each, self._facts(pending), changed_by))
            if pending.result is None and result.decision == "ask":
                self._rule(pending, _ruling("ask", result))

    def _taken(self, pending: PendingCall, result: "HookResult") -> "HookResult":
        """Record an answer of hooks, and refuse the call if they do."""
        announce(result, self._session, self._scope)
        self._take_stop(result)
        pending.hooks.rewrite = "\n".join(filter(None, (pending.hooks.rewrite, result.rewrite)))
        if result.decision == "deny" or result.stop:
            self._refuse(pending, result)
        return result

    @staticmethod
    def _rule(pending: PendingCall, ruling: HookRuling) -> None:
        """Take over a decision. An approval that a hook requires is the user's to give: no other hook gives it."""
        before = pending.hooks.ruling
        if before is not None and before.decision in ("ask", "changed") and ruling.decision == "ask":
            ruling = msgspec.structs.replace(ruling, reason=f"{before.reason}; {ruling.reason}")
        if before is None or before.decision != "ask" or ruling.decision == "ask":
            pending.hooks.ruling = ruling

    @staticmethod
    def _refuse(pending: PendingCall, result: "HookResult") -> None:
        text, rule = f"Refused by a user hook: {result.why}", f"hook {result.deciders}"
        pending.result = failure(pending, "denied", text, rule, result.why)

    def _rewrite(self, pending: PendingCall, result: "HookResult") -> None:
        """Apply the arguments requested by a hook. They are judged again: only the user's or a rule's approval
        lets them run. An allow by the hook counts for them as it would for the model's arguments."""
        arguments = msgspec.json.encode(result.new_arguments).decode()
        try:
            pending.understand(self._registry.read(pending.name, arguments))
        except ToolError as error:
            text = f"The hook {result.rewriter} changed this call into one that cannot be parsed: {error}"
            pending.result = failure(pending, "failed", text)
            return
        pending.hooks.seen_arguments = pending.arguments
        pending.hooks.rewritten_by = result.rewriter
        pending.forget_approval()
        reason = f"the hook {result.rewriter} changed it"
        self._rule(pending, HookRuling(result.decision or "changed", f"hook {result.rewriter}", reason))

    def _facts(self, pending: PendingCall) -> ToolCallFacts:
        external = pending.authorized.external
        return msgspec.structs.replace(
            call_facts(pending.call.id, pending.name, pending.understood, self._root),
            server=external.server if external else "",
            server_tool=external.tool if external else "",
            paths=pending.authorized.writes,
            actions=pending.authorized.actions,
        )

    def _take_stop(self, result: "HookResult") -> None:
        if result.stop:
            self.stop_reason = result.stop_reason or result.reason or "a hook ended the turn"


def _ruling(decision: "Decision", result: "HookResult") -> HookRuling:
    reason = result.reason or f"the hook {result.deciders} requires approval"
    return HookRuling(decision, f"hook {result.deciders}", reason)


def call_facts(call_id: str, tool: str, arguments: dict[str, Any], folder: str) -> ToolCallFacts:
    """Return what hooks learn of a call from its arguments."""
    patched = tuple(_patched(arguments, folder)) if tool == "apply_patch" else ()
    return ToolCallFacts(call_id, tool, arguments, folder, patched=patched)


def _patched(arguments: dict[str, Any], folder: str) -> Iterator[PatchedFile]:
    """Yield the changes of a patch by file; none if it cannot be read."""
    from agent_cli.tools.files.patch_format import parse

    with suppress(ToolError):
        for file in parse(str(arguments.get("patch", ""))):
            edits = tuple((hunk.old, hunk.new) for hunk in file.hunks)
            for path in filter(None, (file.path, file.target)):
                whole = os.path.normpath(os.path.join(folder, os.path.expanduser(path)))
                yield PatchedFile(whole, file.kind, edits)


def _response(pending: PendingCall, outcome: ToolOutcome) -> Any:
    if pending.authorized.command:
        return {"stdout": outcome.text, "stderr": "", "interrupted": False, "exit_code": outcome.exit_code}
    return outcome.text


def _with_notes(outcome: ToolOutcome, notes: Sequence[str]) -> ToolOutcome:
    said = "".join(f"\n[A user hook says: {note}]" for note in notes if note)
    return msgspec.structs.replace(outcome, text=f"{outcome.text}{said}") if said else outcome
