"""Run the hooks of an event and combine their answers.

All hooks of an event run concurrently, each as a process tree with limits, and their answers are combined in the
order of the configuration. The strictest decision counts; an allow never overrides a rule.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from agent_cli.fs.inline_python import safe_path
from agent_cli.protocol.records import storable_json
from agent_cli.sandbox.process.runner import OverdueError, ProcessError, ProcessRunner, shell_program

from .answer import MAX_OUTPUT, Decision, HookAnswer, read_answer
from .call_names import NamedCall, ToolCallFacts, call_input, named_calls, type_names
from .condition import holds
from .definition import Event, Hook, HookProcess

_RUNS_KEPT = 200
MOST_BESIDE = 8
"""Number of background hooks that run at the same time; others wait for a place."""
_SLOW_S = 0.5
"""Seconds after which a running hook is named to the user."""
T = TypeVar("T")
_FOLDER = re.compile(r"\$\{(CLAUDE_PROJECT_DIR|CLAUDE_PLUGIN_ROOT|PLUGIN_ROOT|extensionPath|workspacePath)\}")
_STRICTNESS: dict[Decision | None, int] = {None: 0, "allow": 1, "ask": 2, "deny": 3}
_CURSOR = "1.7.0"
"""The version of Cursor whose hooks are followed; hooks for several agents know Cursor by it."""
_GEMINI_NOTIFICATIONS = {"permission_prompt": "ToolPermission"}
_QUESTION: Mapping[str, Any] = MappingProxyType({"permission_suggestions": []})
_ABOUT_AGENTS = ("SubagentStart", "SubagentStop")
_MODES = {"plan": "plan", "ask": "default", "auto-edit": "acceptEdits", "yolo": "bypassPermissions"}


class HookRun(msgspec.Struct, frozen=True):
    """A run of a hook, for lists and records."""

    hook: str
    event: Event
    source: str
    duration_s: float
    exit_code: int | None
    decision: Decision | None
    failure: str = ""
    rewrite: str = ""
    """Diff of the changes it requests in the arguments of a call."""


class HookResult(msgspec.Struct, frozen=True):
    """The combined answer of an event's hooks."""

    decision: Decision | None = None
    reason: str = ""
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    """For the user."""
    new_arguments: dict[str, Any] | None = None
    """Our arguments of the call to make instead."""
    changed_by: tuple[Hook, ...] = ()
    """The hooks that want these arguments."""
    rewrite: str = ""
    """Diff of the changes that hooks request in the arguments, each named, whether applied or not."""
    new_output: str | None = None
    stop: bool = False
    stop_reason: str = ""
    deciders: str = ""
    """Names of the hooks that decided."""
    runs: tuple[HookRun, ...] = ()
    later: "tuple[asyncio.Task[HookResult], ...]" = ()
    """Answers of the hooks that run in the background."""

    @property
    def why(self) -> str:
        """Why something is refused."""
        return self.reason or self.stop_reason or "no reason given"

    @property
    def rewriter(self) -> str:
        """Name of the hook that changes the call; empty if none does."""
        return self.changed_by[0].label if self.changed_by else ""


class HookSession(msgspec.Struct, frozen=True):
    """The facts that every hook receives."""

    session_id: str
    transcript: str
    """Path of the session file."""
    root: Path
    environment: Mapping[str, str]
    mode: Callable[[], str]
    model: Callable[[], str]
    agent_id: str = ""
    """Id of the sub-agent whose session they run in; empty otherwise."""
    agent_type: str = ""
    claude_transcript: Callable[[], str] | None = None
    """Returns the path of the session in the form of Claude Code's transcripts, up to date."""


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
        """Create an engine. `changed_file` returns the file of a hook that has changed since the session began;
        empty if none."""
        self.notes = notes
        """Problems in the definition files."""
        self._changed_file = changed_file
        self.hooks = tuple(_distinguished(dict.fromkeys(hooks)))
        self.runs: deque[HookRun] = deque(maxlen=_RUNS_KEPT)
        self.is_off: set[str] = set()
        """Labels of the hooks the user has switched off for this session."""
        self._session = session
        self._processes = processes
        self._ran_once: set[Hook] = set()
        self._prompt = ""
        """The last prompt, which hooks of Gemini CLI get at the end of its turn."""
        self._of_cursor: dict[str, str] = {}
        """Variables that hooks of Cursor have set for later ones at the start of the session."""
        self._stops = 0
        """How many times in a row hooks have made the turn continue."""
        self._begun: dict[float, Hook] = {}
        """The hooks being awaited, by their start time."""
        self._beside: set[asyncio.Task[Any]] = set()
        self._places = asyncio.Semaphore(MOST_BESIDE)

    async def aclose(self) -> None:
        """Stop the background hooks with everything they have started."""
        tasks = tuple(self._beside)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def beside(self, work: "Coroutine[Any, Any, T]") -> "asyncio.Task[T]":
        """Run something in the background, at most until the session ends."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._ended_beside)
        return task

    def _ended_beside(self, task: "asyncio.Task[Any]") -> None:
        self._beside.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here: the failure does not concern the turn

    @property
    def slowest(self) -> str:
        """The status or name of the hook awaited longest; empty while none takes long."""
        began, hook = next(iter(self._begun.items()), (0.0, None))
        if hook is None or time.monotonic() - began < _SLOW_S:
            return ""
        return hook.status or hook.label

    def has(self, event: Event) -> bool:
        """Return True if any hook is to be run at an event."""
        return bool(self._of(event))

    async def before_call(self, call: ToolCallFacts) -> HookResult:
        """Run the hooks for a call about to be made."""
        return await self._about_call("PreToolUse", call, {})

    async def on_permission(self, call: ToolCallFacts) -> HookResult:
        """Run the hooks for a call that requires the user's approval."""
        return await self._about_call("PermissionRequest", call, _QUESTION)

    async def on_change(self, event: Event, call: ToolCallFacts, changed_by: Collection[Hook]) -> HookResult:
        """Run the hooks that may refuse a call on one that others have changed. A further change is not made: it
        requires the user's approval."""
        beside = (hook for hook in self._of(event) if hook.is_async)
        facts = _QUESTION if event == "PermissionRequest" else {}
        result = await self._about_call(event, call, facts, {*changed_by, *beside})
        if result.decision != "deny" and result.rewrite:
            reason = "a hook wants to change what another one has changed, which is not done"
            return msgspec.structs.replace(result, decision="ask", reason=reason, deciders=result.rewriter)
        return result

    async def after_call(self, call: ToolCallFacts, response: Any, *, ok: bool, duration_s: float) -> HookResult:
        """Notify the hooks of a call that was made."""
        timing = {"duration_ms": round(duration_s * 1000)}
        if ok:
            return await self._about_call("PostToolUse", call, {"tool_response": response, **timing})
        return await self._about_call("PostToolUseFailure", call, {"error": response, **timing})

    async def at(
        self,
        event: Event,
        facts: Mapping[str, Any],
        names: Iterable[str] = (),
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> HookResult:
        """Run the hooks at an event that is not about a call. `names` are compared with matchers, `env` are
        further variables for the hooks that are awaited."""
        listed = tuple(names)
        chosen = [hook for hook in self._of(event) if not hook.condition and _concerns(hook, listed)]
        own = {True: MappingProxyType({}), False: env}
        self._prompt = str(facts["prompt"]) if event == "UserPromptSubmit" else self._prompt
        if event in ("Stop", "SubagentStop"):
            self._stops = self._stops + 1 if facts.get("stop_hook_active") else 0
        return await self._result(
            [HookCall(hook, {**facts, **self._own_facts(hook, facts)}, env=own[hook.is_async]) for hook in chosen]
        )

    def _own_facts(self, hook: Hook, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that an agent has under its own names at events that are not about a call."""
        if hook.event in _ABOUT_AGENTS:
            known = {"agent_type": type_names(str(facts.get("agent_type", "")), hook.dialect)[0]}
            if hook.event == "SubagentStop":
                known["agent_transcript_path"] = self._transcript(hook)
            extra = {"subagent_type": known["agent_type"], "subagent_id": facts.get("agent_id", "")}
            if hook.event == "SubagentStop":
                extra |= {"status": "completed", "summary": facts.get("last_assistant_message", "")}
            return {**known, **extra, "loop_count": self._stops} if hook.dialect == "cursor" else known
        match hook.dialect, hook.event:
            case "gemini", "Stop":
                return {"prompt": self._prompt, "prompt_response": facts.get("last_assistant_message", "")}
            case "gemini", "Notification":
                kind = str(facts.get("notification_type", ""))
                return {"notification_type": _GEMINI_NOTIFICATIONS.get(kind, kind), "details": {}}
            case "cursor", "Stop":
                return {"status": "completed", "loop_count": self._stops}
            case "cursor", "UserPromptSubmit":
                return {"attachments": []}
            case _:
                return {}

    async def _about_call(
        self, event: Event, call: ToolCallFacts, facts: Mapping[str, Any], without: Collection[Hook] = ()
    ) -> HookResult:
        asked = []
        for hook in self._of(event):
            if hook in without:
                continue
            for named in named_calls(call, hook.dialect):
                if hook.is_for(named.names) and holds(hook, call, named):
                    asked.append(HookCall(hook, call_input(hook, call, named, facts), named))
        return await self._result(asked, call.arguments)

    def _of(self, event: Event) -> list[Hook]:
        return [hook for hook in self.hooks if hook.is_at(event) and hook.label not in self.is_off]

    async def _result(
        self, chosen: "Sequence[HookCall]", arguments: Mapping[str, Any] | None = None
    ) -> HookResult:
        """Run hooks concurrently; background hooks are only started."""
        asked = [each for each in chosen if each.hook not in self._ran_once]
        self._ran_once.update(each.hook for each in asked if each.hook.is_once)
        later = tuple(self.beside(self._said_later(each)) for each in asked if each.hook.is_async)
        answers = await asyncio.gather(*(self._ask(each) for each in asked if not each.hook.is_async))
        return msgspec.structs.replace(combined(answers, arguments), later=later)

    async def _said_later(self, asked: "HookCall") -> HookResult:
        async with self._places:
            return combined([await self._ask(asked)])

    async def _ask(self, asked: "HookCall") -> "HookOutcome":
        hook, began = asked.hook, time.monotonic()
        if not hook.is_async:
            self._begun[began] = hook
        try:
            ended = await self._run(asked, storable_json({**self._common(hook), **asked.facts}))
        finally:
            self._begun.pop(began, None)
        answer = read_answer(hook, ended)
        self._of_cursor.update(answer.variables)
        run = HookRun(
            hook.label, hook.event, hook.source, round(time.monotonic() - began, 3), ended.exit_code,
            answer.decision, answer.failure,
        )  # fmt: skip
        self.runs.append(run)
        return HookOutcome(hook, answer, asked.named, run)

    def _common(self, hook: Hook) -> dict[str, Any]:
        session = self._session
        common: dict[str, Any] = {
            "session_id": session.session_id,
            "transcript_path": self._transcript(hook),
            "cwd": str(session.root),
            "hook_event_name": hook.written_event or hook.event,
        }
        if session.agent_id:
            kind = type_names(session.agent_type, hook.dialect)[0]
            common |= {"agent_id": session.agent_id, "agent_type": kind}
        match hook.dialect:
            case "gemini":
                return common | {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
            case "cursor":
                ids = {"conversation_id": session.session_id, "generation_id": session.session_id}
                extra = {"workspace_roots": [str(session.root)], "cursor_version": _CURSOR, "user_email": None}
                return common | ids | extra | {"model": session.model()}
            case "native":
                return common | {"mode": session.mode(), "model": session.model()}
            case _:
                return common | {
                    "permission_mode": _MODES.get(session.mode(), "default"),
                    "model": session.model(),
                }

    def _transcript(self, hook: Hook) -> str:
        """Return the path of the conversation's file in the form that a hook reads."""
        in_their_form = self._session.claude_transcript if hook.dialect == "claude" else None
        return in_their_form() if in_their_form else self._session.transcript

    async def _run(self, asked: "HookCall", given: bytes) -> HookProcess:
        hook = asked.hook
        if hook.fault:
            return HookProcess(problem=f"cannot be run: {hook.fault}")
        if changed := self._changed_file(hook):
            return HookProcess(problem=f"was not run: {changed} has changed since the session began")
        if hook.callback is not None:
            return await hook.callback(given, hook.timeout_s)
        if hook.request is not None:
            from .http import post  # its library is slow to load

            return await post(hook.request, given, hook.timeout_s)
        env = {**self._environment(hook), **asked.env}
        try:
            done = await self._processes.run(
                _argv(hook, env), cwd=Path(hook.folder or self._session.root), env=env, input=given + b"\n",
                timeout_s=hook.timeout_s, max_output_bytes=MAX_OUTPUT,
            )  # fmt: skip
        except OverdueError:
            return HookProcess(problem=f"took longer than {hook.timeout_s:g} s and was stopped")
        except ProcessError as error:
            return HookProcess(problem=f"could not start: {error}")
        if done.cut:
            return HookProcess(problem=f"printed more than {MAX_OUTPUT // 1_000_000} MB and was stopped")
        said = (each.decode("utf-8", "replace") for each in (done.stdout, done.stderr))
        return HookProcess(done.exit_code, *said)

    def _environment(self, hook: Hook) -> dict[str, str]:
        root = str(self._session.root)
        env = {**self._session.environment, "CLAUDE_PROJECT_DIR": root, "CLAUDE_CODE_REMOTE": "false"}
        line = hook.command
        env |= safe_path((line,) if isinstance(line, str) else line, self._session.root)
        if hook.dialect == "gemini":
            env |= {"GEMINI_PROJECT_DIR": root, "GEMINI_SESSION_ID": self._session.session_id, "GEMINI_CWD": root}
        if hook.dialect == "cursor":
            env |= {"CURSOR_PROJECT_DIR": root, "CURSOR_TRANSCRIPT_PATH": self._session.transcript}
            env |= {"CURSOR_VERSION": _CURSOR, **self._of_cursor}
        if hook.root:
            env |= {"CLAUDE_PLUGIN_ROOT": hook.root, "PLUGIN_ROOT": hook.root}
            env |= {"extensionPath": hook.root, "workspacePath": root, **dict(hook.variables)}
        return env


def _distinguished(hooks: Iterable[Hook]) -> Iterator[Hook]:
    """Yield hooks, with a number in the name of those that differ from others of their name only in the middle of
    a long command: a name switches hooks off."""
    lines: dict[str, dict[str, int]] = {}
    for hook in hooks:
        known = lines.setdefault(hook.label, {})
        number = known.setdefault(hook.line, len(known) + 1)
        yield hook if hook.name or number == 1 else msgspec.structs.replace(hook, name=f"{hook.label} #{number}")


def _concerns(hook: Hook, names: tuple[str, ...]) -> bool:
    """Return True if a hook is for something with one of these names; with none, it is."""
    if hook.event in _ABOUT_AGENTS:
        names = tuple(each for name in names for each in type_names(name, hook.dialect))
    if hook.dialect == "gemini" and hook.event == "Notification":
        names = tuple(_GEMINI_NOTIFICATIONS.get(name, name) for name in names)
    return not names or hook.is_for(names)


class HookCall(msgspec.Struct, frozen=True):
    """A hook and its input."""

    hook: Hook
    facts: dict[str, Any]
    named: NamedCall | None = None
    env: Mapping[str, str] = MappingProxyType({})


class HookOutcome(msgspec.Struct, frozen=True):
    """A hook, its input, and its answer."""

    hook: Hook
    answer: HookAnswer
    named: NamedCall | None
    run: HookRun


def combined(answers: Sequence[HookOutcome], arguments: Mapping[str, Any] | None = None) -> HookResult:
    """Combine answers in order: the strictest decision, all texts. If two rewrite a call differently, or one
    rewrites a call that cannot be, it stays unchanged and asks."""
    strictest = max(answers, key=lambda each: _STRICTNESS[each.answer.decision], default=None)
    decision = strictest.answer.decision if strictest else None
    reasons = [each.answer.reason for each in answers if each.answer.decision == decision and each.answer.reason]
    changes = [_Change(each, made) for each in answers if (made := _rewritten(each, arguments)) is not None]
    clash = len({msgspec.json.encode(each.arguments, order="sorted") for each in changes}) > 1
    fixed = next((each.hook.label for each in answers if _wants_the_impossible(each)), "")
    if (clash or fixed) and _STRICTNESS[decision] < _STRICTNESS["ask"]:
        decision = "ask"
        ways = "in different ways" if clash else f"and it cannot be changed by {fixed}"
        reasons = [f"hooks want to change the call {ways}, so it is as the model made it"]
    chosen = changes[0] if changes and not clash else None
    if chosen and decision == "allow" and all(each.by.answer.decision is None for each in changes):
        decision = None  # it was for the call as the model made it
    diffs = _diffs(changes, arguments or {})
    stopping = next((each.answer for each in answers if each.answer.stop), None)
    outputs = [each.answer.new_output for each in answers if each.answer.new_output is not None]
    return HookResult(
        decision=decision,
        reason="\n".join(dict.fromkeys(reasons)),
        contexts=tuple(each.answer.context for each in answers if each.answer.context),
        messages=tuple(text for each in answers for text in _messages(each) if text),
        new_arguments=chosen.arguments if chosen else None,
        changed_by=tuple(dict.fromkeys(each.by.hook for each in changes)) if chosen else (),
        rewrite="\n".join(dict.fromkeys(diffs.values())),
        new_output=outputs[-1] if outputs else None,
        stop=stopping is not None,
        stop_reason=stopping.stop_reason if stopping else "",
        deciders=", ".join(dict.fromkeys(each.hook.label for each in answers if each.answer.decision == decision)),
        runs=tuple(msgspec.structs.replace(each.run, rewrite=diffs.get(id(each), "")) for each in answers),
    )


class _Change(msgspec.Struct, frozen=True):
    """The arguments that a hook requests instead of those of a call."""

    by: HookOutcome
    arguments: dict[str, Any]


def _rewritten(each: HookOutcome, arguments: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the arguments that a hook requests, in our terms; None if unchanged."""
    if each.answer.new_input is None or each.named is None or each.named.back is None:
        return None
    given = {**each.named.input, **each.answer.new_input} if each.answer.merges_input else each.answer.new_input
    try:
        made = each.named.back(given)
    except (AttributeError, TypeError, ValueError):
        made = given  # the tool refuses it, naming the hook
    return made if made != arguments else None


def _wants_the_impossible(each: HookOutcome) -> bool:
    """Return True if a hook changes a call that is put in other terms for it, from which there is no way back."""
    wanted, named = each.answer.new_input, each.named
    return (
        wanted is not None
        and named is not None
        and named.back is None
        and {**named.input, **wanted} != named.input
    )


def _diffs(changes: "Sequence[_Change]", arguments: Mapping[str, Any]) -> dict[int, str]:
    """Return the diff of each answer's changes, for display and for the record, by the identity of the answer."""
    if not changes:
        return {}
    from agent_cli.workspace.editing.unified_diff import unified_diff

    before = _as_text(arguments)
    found = {id(each.by): unified_diff(before, _as_text(each.arguments), each.by.hook.label) for each in changes}
    return {by: diff.text.rstrip("\n") for by, diff in found.items()}


def _as_text(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a call for a diff: one value per line, texts split into their lines."""
    return "".join(f"{line}\n" for key, value in arguments.items() for line in _lines(key, value))


def _lines(name: str, value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _lines(f"{name}.{key}", inner)
        case list() if value:
            for at, inner in enumerate(value, 1):
                yield from _lines(f"{name} {at}", inner)
        case str() if "\n" in value:
            yield f"{name}:"
            yield from (f"  {line}" for line in value.split("\n"))
        case str():
            yield f"{name}: {value}"
        case _:
            yield f"{name}: {msgspec.json.encode(value).decode()}"


def _messages(each: HookOutcome) -> tuple[str, ...]:
    failure = each.answer.failure
    if failure and each.answer.decision is None:
        failure = f"{failure} What it guards proceeds without it."
    elif failure:
        failure = f"{failure} `/hooks off {each.hook.label}` or --no-hooks continues without it."
    return (failure, each.answer.message)


def _argv(hook: Hook, env: Mapping[str, str]) -> Sequence[str]:
    """Return the command to run. Folder variables are expanded for a program that is run without a shell."""
    line = hook.command
    if not isinstance(line, str):
        return [_FOLDER.sub(lambda found: env.get(found[1], found[0]), word) for word in line]
    match hook.shell:
        case "":
            return (shell_program(env.get("PATH", "")), "-c", line)
        case "powershell":
            return ("pwsh", "-NoProfile", "-NonInteractive", "-Command", line)
        case "bash" | "sh" | "zsh" as named:
            return (named, "-c", line)
        case other:
            raise ProcessError(f"there is no shell named {other}")
