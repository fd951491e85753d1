"""Run the hooks of an event and combine what they answer.

All hooks of one event run at the same time, each as a process tree with a bound, and their answers are combined in
the order of the configuration. The strictest decision counts; an allow never beats a rule.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.sandbox.process.runner import OverdueError, ProcessError, ProcessRunner, shell_program

from .answer import Decision, HookAnswer, HookProcess, read_answer
from .call_names import NamedCall, ToolCallFacts, named_calls
from .definition import Event, Hook

_MAX_OUTPUT = 1_000_000
_RUNS_KEPT = 200
_STRICTNESS: dict[Decision | None, int] = {None: 0, "allow": 1, "ask": 2, "deny": 3}
_MODES = {"plan": "plan", "ask": "default", "auto-edit": "acceptEdits", "yolo": "bypassPermissions"}


class HookRun(msgspec.Struct, frozen=True):
    """One run of a hook, for lists and records."""

    hook: str
    event: Event
    source: str
    duration_s: float
    exit_code: int | None
    decision: Decision | None
    failure: str = ""


class HookResult(msgspec.Struct, frozen=True):
    """What the hooks of an event want together."""

    decision: Decision | None = None
    reason: str = ""
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    """For the user."""
    new_arguments: dict[str, Any] | None = None
    """Ours, of a call that is to be made in place of the one asked about."""
    rewriter: str = ""
    new_output: str | None = None
    stop: bool = False
    stop_reason: str = ""
    deciders: str = ""
    """The hooks that decided, by name."""
    runs: tuple[HookRun, ...] = ()


class HookSession(msgspec.Struct, frozen=True):
    """The facts that every hook is told."""

    session_id: str
    transcript: str
    """Path of the session's file."""
    root: Path
    environment: Mapping[str, str]
    mode: Callable[[], str]
    model: Callable[[], str]


class HookEngine:
    """The hooks of one session."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        session: HookSession,
        processes: ProcessRunner,
        *,
        notes: tuple[str, ...] = (),
        changed_file: Callable[[Hook], str] = lambda hook: "",
    ) -> None:
        """`changed_file` names the file of a hook that is another than when the session began; empty for none."""
        self.notes = notes
        """What is wrong with definitions in files."""
        self._changed_file = changed_file
        self.hooks = tuple(dict.fromkeys(hooks))
        self.runs: deque[HookRun] = deque(maxlen=_RUNS_KEPT)
        self.is_off: set[str] = set()
        """Labels of those that the user has switched off for this session."""
        self._session = session
        self._processes = processes

    def has(self, event: Event) -> bool:
        """Return whether anything is to be run at an event."""
        return any(hook.event == event and hook.label not in self.is_off for hook in self.hooks)

    async def before_call(self, call: ToolCallFacts) -> HookResult:
        """Ask about a call that is about to be made."""
        return await self._about_call("PreToolUse", call, {})

    async def on_permission(self, call: ToolCallFacts) -> HookResult:
        """Ask about a call that a person would be asked about."""
        return await self._about_call("PermissionRequest", call, {"permission_suggestions": []})

    async def after_call(self, call: ToolCallFacts, response: Any, *, ok: bool, duration_s: float) -> HookResult:
        """Tell of a call that was made."""
        timing = {"duration_ms": round(duration_s * 1000)}
        if ok:
            return await self._about_call("PostToolUse", call, {"tool_response": response, **timing})
        return await self._about_call("PostToolUseFailure", call, {"error": str(response), **timing})

    async def at(self, event: Event, facts: Mapping[str, Any], names: Iterable[str] = ()) -> HookResult:
        """Ask, or tell, at an event that is about no call. `names` are what a matcher is held against."""
        listed = tuple(names)
        chosen = [hook for hook in self._of(event) if not listed or hook.is_for(listed)]
        return combined(await self._answers([(hook, dict(facts), None) for hook in chosen]))

    async def _about_call(self, event: Event, call: ToolCallFacts, facts: Mapping[str, Any]) -> HookResult:
        asked: list[tuple[Hook, dict[str, Any], NamedCall | None]] = []
        for hook in self._of(event):
            for named in named_calls(call, hook.dialect):
                if hook.is_for(named.names):
                    asked.append((hook, {**_call_facts(hook, call, named), **facts}, named))
        return combined(await self._answers(asked), call.arguments)

    def _of(self, event: Event) -> list[Hook]:
        return [hook for hook in self.hooks if hook.event == event and hook.label not in self.is_off]

    async def _answers(self, asked: Sequence[tuple[Hook, dict[str, Any], NamedCall | None]]) -> "list[Answered]":
        return list(await asyncio.gather(*(self._ask(*each) for each in asked)))

    async def _ask(self, hook: Hook, facts: dict[str, Any], named: NamedCall | None) -> "Answered":
        began = time.monotonic()
        ended = await self._run(hook, msgspec.json.encode({**self._common(hook), **facts}))
        answer = read_answer(hook, ended)
        run = HookRun(
            hook.label, hook.event, hook.source, round(time.monotonic() - began, 3), ended.exit_code,
            answer.decision, answer.failure,
        )  # fmt: skip
        self.runs.append(run)
        return Answered(hook, answer, named, run)

    def _common(self, hook: Hook) -> dict[str, Any]:
        session = self._session
        common: dict[str, Any] = {
            "session_id": session.session_id,
            "transcript_path": session.transcript,
            "cwd": str(session.root),
            "hook_event_name": hook.written_event or hook.event,
        }
        match hook.dialect:
            case "gemini":
                return common | {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
            case "cursor":
                extra = {"conversation_id": session.session_id, "workspace_roots": [str(session.root)]}
                return common | extra | {"model": session.model()}
            case "native":
                return common | {"mode": session.mode(), "model": session.model()}
            case _:
                return common | {
                    "permission_mode": _MODES.get(session.mode(), "default"),
                    "model": session.model(),
                }

    async def _run(self, hook: Hook, given: bytes) -> HookProcess:
        if changed := self._changed_file(hook):
            return HookProcess(problem=f"was not run: {changed} has changed since the session began")
        env = self._environment(hook)
        line = hook.command
        argv = [shell_program(env.get("PATH", "")), "-c", line] if isinstance(line, str) else list(line)
        try:
            done = await self._processes.run(
                argv, cwd=self._session.root, env=env, input=given + b"\n", timeout_s=hook.timeout_s,
                max_output_bytes=_MAX_OUTPUT,
            )  # fmt: skip
        except OverdueError:
            return HookProcess(problem=f"took longer than {hook.timeout_s:g} s and was stopped")
        except ProcessError as error:
            return HookProcess(problem=f"could not start: {error}")
        if done.cut:
            return HookProcess(problem=f"printed more than {_MAX_OUTPUT // 1_000_000} MB and was stopped")
        return HookProcess(done.exit_code, _decoded(done.stdout), _decoded(done.stderr))

    def _environment(self, hook: Hook) -> dict[str, str]:
        root = str(self._session.root)
        env = {**self._session.environment, "CLAUDE_PROJECT_DIR": root, "CLAUDE_CODE_REMOTE": "false"}
        if hook.dialect == "gemini":
            env |= {"GEMINI_PROJECT_DIR": root, "GEMINI_SESSION_ID": self._session.session_id, "GEMINI_CWD": root}
        if hook.root:
            env |= {"CLAUDE_PLUGIN_ROOT": hook.root, "PLUGIN_ROOT": hook.root}
        return env


class Answered(msgspec.Struct, frozen=True):
    """A hook, what it was asked about, and its answer."""

    hook: Hook
    answer: HookAnswer
    named: NamedCall | None
    run: HookRun


def combined(answers: Sequence[Answered], arguments: Mapping[str, Any] | None = None) -> HookResult:
    """Combine answers in their order: the strictest decision, all texts. Two that rewrite a call differently leave
    it as it was and ask."""
    strictest = max(answers, key=lambda each: _STRICTNESS[each.answer.decision], default=None)
    decision = strictest.answer.decision if strictest else None
    reasons = [each.answer.reason for each in answers if each.answer.decision == decision and each.answer.reason]
    rewrites = _rewrites(answers, arguments)
    clash = len({msgspec.json.encode(new, order="sorted") for _, new in rewrites}) > 1
    if clash and _STRICTNESS[decision] < _STRICTNESS["ask"]:
        decision = "ask"
        reasons = ["hooks want to change the call in different ways, so it is as the model made it"]
    stopping = next((each.answer for each in answers if each.answer.stop), None)
    outputs = [each.answer.new_output for each in answers if each.answer.new_output is not None]
    return HookResult(
        decision=decision,
        reason="\n".join(dict.fromkeys(reasons)),
        contexts=tuple(each.answer.context for each in answers if each.answer.context),
        messages=tuple(text for each in answers for text in _messages(each) if text),
        new_arguments=rewrites[0][1] if rewrites and not clash else None,
        rewriter=rewrites[0][0].label if rewrites and not clash else "",
        new_output=outputs[-1] if outputs else None,
        stop=stopping is not None,
        stop_reason=stopping.stop_reason if stopping else "",
        deciders=", ".join(dict.fromkeys(each.hook.label for each in answers if each.answer.decision == decision)),
        runs=tuple(each.run for each in answers),
    )


def _rewrites(
    answers: Sequence[Answered], arguments: Mapping[str, Any] | None
) -> list[tuple[Hook, dict[str, Any]]]:
    found = []
    for each in answers:
        if each.answer.new_input is None or each.named is None or each.named.back is None:
            continue
        given = (
            {**each.named.input, **each.answer.new_input} if each.answer.merges_input else each.answer.new_input
        )
        made = each.named.back(given)
        if made != arguments:
            found.append((each.hook, made))
    return found


def _messages(each: Answered) -> tuple[str, ...]:
    failure = each.answer.failure
    if failure and each.answer.decision != "deny":
        failure = f"{failure} What it guards goes on without it."
    elif failure:
        failure = f"{failure} `/hooks off {each.hook.label}` or --no-hooks goes on without it."
    return (failure, each.answer.message)


def _call_facts(hook: Hook, call: ToolCallFacts, named: NamedCall) -> dict[str, Any]:
    facts: dict[str, Any] = {"tool_name": named.name, "tool_input": named.input, "tool_use_id": call.call_id}
    if call.server:
        facts["mcp_server"] = call.server
    if hook.dialect == "cursor":
        match hook.written_event.lower():
            case "beforeshellexecution":
                facts |= {"command": named.input.get("command", ""), "cwd": call.folder}
            case "beforereadfile" | "afterfileedit":
                facts |= {"file_path": named.input.get("file_path", "")}
    return facts


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
