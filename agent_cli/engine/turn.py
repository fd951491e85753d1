"""One turn: from the user's text to the stop.

    begin → finish open calls → ( limits → compact → call the model → act on the answer → steers )*

Each way in which the model can finish has one defined outcome, and the turn ends with one reason from a closed
set. New features belong next to this loop, not in it.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_cli.model.types.base import Answer, ModelError
from agent_cli.protocol.events import InputReturned, Steered
from agent_cli.protocol.messages import AssistantMessage, Image, Origin, UserMessage, new_id
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.records import InputDequeued, Marked
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.protocol.usage import CallKind
from agent_cli.session.event_bus import TurnScope
from agent_cli.store.session_file import StoreError

from .context.compaction import ContextFull
from .context.prompt_parts import NOTHING_NEW, PromptAdditions, names_plan_mode
from .context.reminders import CLOSING, CONTINUE, LOST_CALLS
from .model_calls.budget import OverBudget
from .model_calls.limits import Limits
from .recovery import Recovery
from .tool_calls.loop_detector import LoopDetector
from .tool_calls.runner import ToolRunner

if TYPE_CHECKING:
    from .context.mentions import Attachments
    from .services import SessionServices

MAX_CONTINUATIONS = 4


class Stop(msgspec.Struct, frozen=True):
    """End of a turn."""

    reason: StopReason
    text: str = ""
    """The answer, with its parts joined."""
    unmet_rules: tuple[str, ...] = ()


class Steers(list[str]):
    """Guidance typed for the running turn that has not reached the model yet, oldest first."""

    def take_back(self, text: str) -> bool:
        """Remove a text; of equal texts the newest. Return False if it is not queued."""
        at = max((at for at, held in enumerate(self) if held == text), default=-1)
        return at >= 0 and self.pop(at) == text


class Turn:
    """One turn of a session, used for one input."""

    def __init__(self, services: "SessionServices", scope: TurnScope) -> None:
        self.scope = scope
        self._services = services
        self._session = services.session
        self._guard = LoopDetector()
        self._limits = Limits(services.settings.bounds, services.prompt_calls)
        self._tools = ToolRunner(services, self._guard, scope)
        self._recovery = Recovery(services, scope)
        self._approvals = services.approvals
        services.reminders.begin_turn()
        services.permissions.begin_turn()
        self.steers = Steers()
        """Guidance waiting for the next step."""
        self._passed_steers: dict[str, str] = {}
        """Guidance that hooks have seen and not refused → the text they add to it."""
        self._pieces: list[str] = []
        self._unmet: tuple[str, ...] = ()
        self._truncated = 0
        self._empty = 0
        self._hook_context = ""
        """Text that hooks add to the prompt."""
        self._input = UserInput("")
        self._plans = services.permissions.mode == "plan"
        """True if the model takes the mode for plan mode."""

    @property
    def steps(self) -> int:
        """Number of model calls so far."""
        return self._limits.steps

    @property
    def elapsed_s(self) -> float:
        """Seconds since the turn began."""
        return self._limits.elapsed_s()

    @property
    def text(self) -> str:
        """The answer so far, with its parts joined."""
        return "".join(self._pieces)

    async def run(self, user_input: UserInput) -> Stop:
        """Process the input to its end.

        Raises:
            ModelError: the model failed permanently.
            CancelledError: the user stopped it; everything up to then is saved and valid.
        """
        if refusal := await self._asked_hooks(user_input):
            self.scope.notice(f"The prompt was refused by a hook: {refusal}")
            if taken := self._services.inbox.take(user_input.text, prompt=True):
                self._session.append(*taken)
            return Stop("hook_refused")
        self._input = user_input
        is_new = await self._begin(user_input)
        try:
            async with asyncio.timeout(self._limits.deadline()):
                open_calls = tuple(self._session.view.open_calls.values())
                await self._tools.finish_open(open_calls, same_input=not is_new)
                reason = await self._steps()
        except TimeoutError:
            reason = "time_limit"
        if reason in ("turn_limit", "cost_limit", "time_limit"):
            await self._ask_for_closing_words()
        return Stop(reason, self.text, self._unmet)

    async def _asked_hooks(self, user_input: UserInput) -> str:
        """Return why user hooks refuse a prompt, which is then not saved; empty if they do not."""
        hooks = self._services.session_hooks
        if hooks is None or not user_input.text.strip():
            return ""
        try:
            ruling = await hooks.on_prompt(user_input.text, self.scope)
        except asyncio.CancelledError:  # the prompt is not saved before hooks have seen it
            self.scope.emit(InputReturned(texts=(user_input.text,)))
            raise
        self._hook_context = ruling.context
        return ruling.refusal

    async def _begin(self, user_input: UserInput) -> bool:
        """Save what the turn begins with. Return False if it continues an earlier input."""
        if user_input.text.strip() or user_input.images:
            await self._prompt(user_input)
            return True
        if not self._session.view.open_calls:
            visible = self._session.visible()
            if not visible or isinstance(visible[-1], AssistantMessage):
                self._say("hint", "Continue.", additions=self._additions())
        return False

    async def _steps(self) -> StopReason:
        while True:
            if (forbidden := await self._forbidden()) is not None:
                return forbidden
            await self._deliver_steers()
            self._deliver_reports()
            reminder, near = self._services.reminders.due(), self._services.come_near()
            is_news = bool(near) or self._plan_mode_changed()
            if reminder or is_news:
                self._say("hint", reminder or "Continue.", additions=self._additions() if is_news else NOTHING_NEW)
                self._say_near(near)
            stop = await self._step()
            if stop is not None and stop not in _FINAL:
                await self._ask_hooks_about_steers()
            if stop is not None and (not self.steers or stop in _FINAL):
                self._warn_of_cost()
                return stop

    def _say_near(self, folders: Sequence[str]) -> None:
        for folder in folders:
            self.scope.notice(f"The instructions in {folder} apply from here on.", "info")

    def _plan_mode_changed(self) -> bool:
        """Return True if plan mode has begun or ended since the model was last told of it."""
        was, self._plans = self._plans, self._services.permissions.mode == "plan"
        return was != self._plans

    async def _forbidden(self) -> StopReason | None:
        """Return the reason not to make another step: a limit, or the user's decision."""
        limit = self._limits.reached()
        if limit is not None:
            self.scope.notice(f"Stopped at the limit of {limit[1]}.")
            return limit[0]
        cost_warning = self._services.budget.warning() or (
            self._services.caller.unpriced() if self._approvals.interactive else ""
        )
        return (
            "declined" if cost_warning and not await self._confirm_continue(cost_warning, otherwise=True) else None
        )

    def _warn_of_cost(self) -> None:
        """Show the cost warning at the end of a turn if no user is present; a user would be asked at the next
        step."""
        if not self._approvals.interactive and (cost_warning := self._services.budget.warning()):
            self.scope.notice(cost_warning)

    async def _step(self) -> StopReason | None:
        """Make one model call and run its tools. Return None to continue."""
        try:
            if await self._services.compactor.reduce_if_needed(self.scope):
                self._plans = names_plan_mode(self._session.visible())
                if self._plan_mode_changed():
                    self._say("hint", "Continue.", additions=self._additions())
            if self.steers:  # they were typed meanwhile
                await self._deliver_steers()
            self._limits.count()
            try:
                answer, message = await self._ask("main")
            except ModelError as error:
                self._limits.count(-1)
                if not await self._recovery.helps(error):
                    raise
                self._plans = names_plan_mode(self._session.visible())  # the reduction may have hidden it
                return None
        except OverBudget as error:
            self.scope.notice(f"Stopped at the limit of {error}.")
            return "cost_limit"
        except ContextFull as error:
            if not (self._recovery.offer_fewer_tools() or await self._drop_message(error)):
                raise
            return None
        return await self._act_on(answer, message)

    async def _drop_message(self, full: ContextFull) -> bool:
        """Drop the message that the user chooses from the largest ones. Return False if they choose none."""
        largest = self._services.compactor.largest(3)
        chosen = await self._approvals.choose_message_to_drop(str(full), largest, self.scope)
        if chosen is None:
            return False
        self._session.append(
            Marked(id=new_id("mark"), turn_id=self.scope.turn_id, message_id=chosen.id, mark="dropped")
        )
        return True

    async def _ask(self, kind: CallKind) -> tuple[Answer, AssistantMessage | None]:
        request = self._services.request(self._session.visible())
        request = msgspec.structs.replace(request, answer_schema=self._input.answer_schema)
        if kind == "limit" or self._input.answer_only:
            request = msgspec.structs.replace(request, may_call=False)
        elif (must := self._tools.rules.must_call()) in {tool.name for tool in request.tools}:
            request = msgspec.structs.replace(request, must_call=must)
        return await self._services.caller.call(request, self.scope, kind=kind, step=self._limits.steps)

    async def _act_on(self, answer: Answer, message: AssistantMessage | None) -> StopReason | None:
        match answer.finish:
            case "length":
                return self._continue_cut_off(answer)
            case "content_filter":
                self._pieces.append(answer.text)
                return "content_filter"
            case "stop" | "tool_calls" | "interrupted":
                pass
            case "unknown":
                lost = "; its calls do not run" if answer.calls else ""
                self.scope.notice(f"The model ended with an unknown reason, {answer.raw_finish!r}{lost}.")
                if answer.calls:
                    return self._continue_cut_off(answer)
        if message is None:
            self._empty += 1
            return None if self._empty < 2 else "no_answer"
        self._empty = 0
        if message.calls:
            self._truncated = 0
            self._pieces.clear()
            summary = await self._tools.run(message.calls)
            if hook := self._tools.stopped_by_hook:
                self.scope.notice(f"Stopped by a hook: {hook}")
                return "hook_refused"
            return await self._ends_with(summary) if summary else await self._check_for_loop()
        return await self._ends_with(answer.text)

    async def _ends_with(self, text: str) -> StopReason | None:
        """Handle a model that wants to stop: the turn ends with this text unless its plan, a sub-agent or a hook
        prevents it."""
        if await self._awaits_agents():
            return None
        if self._services.session_hooks:
            await self._session.flush()
            with self._services.undo.effect():
                more = await self._services.session_hooks.on_stop(text, self.scope)
            if more:
                self._say("hook", more)
                return None
        if reminder := self._services.reminders.unfinished() or self._tools.rules.missing():
            self._say("hint", reminder)
            return None
        self._pieces.append(text)
        self._unmet = self._tools.rules.unmet()
        for rule in self._unmet:
            self.scope.notice(f"The turn ends although a rule is not met: {rule}.")
        return "rules_unmet" if self._unmet else "end_turn"

    def _continue_cut_off(self, answer: Answer) -> StopReason | None:
        """Handle a cut-off answer: lost calls are named to the model, text is continued, both a bounded number of
        times."""
        self._truncated += 1
        if answer.calls:
            lost = ", ".join(call.name or "unnamed" for call in answer.calls)
            self._say("hint", LOST_CALLS.format(lost=lost, why=answer.raw_finish))
        else:
            self._pieces.append(answer.text)
            self._say("hint", CONTINUE)
        return "length_limit" if self._truncated > MAX_CONTINUATIONS else None

    async def _check_for_loop(self) -> StopReason | None:
        alarm = self._guard.check()
        if alarm is None:
            return None
        if alarm.level == "hint":
            self._say("hint", alarm.text)
        elif await self._confirm_continue(f"The model seems stuck: {alarm.text}.", otherwise=False):
            self._guard.forget()
        else:
            self.scope.notice(f"Stopped, because {alarm.text}.")
            return "stuck"
        return None

    async def _confirm_continue(self, doubt: str, *, otherwise: bool) -> bool:
        """Return True if the user lets the turn continue; their guidance reaches the model at the next step."""
        said = await self._approvals.confirm_continue(doubt, self.scope, otherwise=otherwise)
        if said.guidance:
            self.steers.append(said.guidance)
        return said.go_on

    async def _ask_for_closing_words(self) -> None:
        """Make one last call without tools after a limit, for a summary of done and open work."""
        self._say("hint", CLOSING)
        try:
            async with asyncio.timeout(self._limits.closing_s()):
                answer, _ = await self._ask("limit")
        except OverBudget:
            return  # the limit has been reported
        except (ModelError, TimeoutError) as error:
            self.scope.notice(f"No closing summary: {str(error) or 'it took too long'}.")
            return
        self._pieces[:] = [answer.text]

    async def _deliver_steers(self) -> None:
        await self._ask_hooks_about_steers()
        for text in self.steers:
            self._say("human", text, beside=self._services.inbox.take(text))
            if context := self._passed_steers.get(text):
                self._say("hook", f"{_SAID_BY_HOOK}{context}")
            self.scope.emit(Steered(text=text))
            self._pieces.clear()
        self.steers.clear()

    async def _ask_hooks_about_steers(self) -> None:
        """Drop guidance that user hooks refuse. More may be typed or withdrawn while they run."""
        hooks = self._services.session_hooks
        if hooks is None:
            return
        while (text := next((each for each in self.steers if each not in self._passed_steers), None)) is not None:
            ruling = await hooks.on_prompt(text, self.scope)
            if not ruling.refusal:
                self._passed_steers[text] = ruling.context
            elif self.steers.take_back(text):
                self.scope.notice(f"The prompt was refused by a hook: {ruling.refusal}")
                if taken := self._services.inbox.take(text):
                    self._session.append(*taken)

    def _deliver_reports(self) -> bool:
        """Report ended background sub-agents to the model. Return True if there were any."""
        agents = self._services.agents
        reports = agents.reports() if agents is not None else {}
        for name, result in reports.items():
            self._say("hint", f"The sub-agent {name} has ended.", brought=result)
        return bool(reports)

    async def _awaits_agents(self) -> bool:
        """Wait for background sub-agents if their results cannot be delivered later. Return True if the model has
        something to read from them."""
        agents = self._services.agents
        if agents is None:
            return False
        if not self._approvals.interactive or self._services.parent is not None:
            await agents.all_ended()
        return self._deliver_reports()

    def _additions(self) -> PromptAdditions:
        return self._services.prompt_additions(self._session.visible())

    async def _prompt(self, user_input: UserInput) -> None:
        """Save a prompt with its attachments. It is on disk before anything is read, and is saved as a message
        even if a stop arrives in the meantime."""
        needs_time = "@" in user_input.text or user_input.insertions or user_input.brought
        if needs_time and not self._services.inbox.holds(user_input.text):
            self._services.inbox.queue(user_input.text, user_input.images)
        brought: Attachments | None = None
        text = user_input.text
        try:
            brought = await self._services.attach(user_input)
            if user_input.insertions or user_input.brought or user_input.allowed:
                text, completed = await self._completed(user_input)
                brought = completed.joined(brought)
        finally:
            near = self._services.come_near()
            self._save_prompt(user_input, text, brought)
        if brought and brought.counted:
            from agent_cli.session.replay import attached_event

            for each in brought.counted:
                self.scope.emit(attached_event(each))
        self._say_near(near)

    def _save_prompt(self, user_input: UserInput, text: str, brought: "Attachments | None") -> None:
        try:
            self._say(
                "human",
                text,
                additions=self._from_hooks(self._additions()),
                images=user_input.images[len(user_input.image_paths) :],
                brought=brought,
                beside=self._services.inbox.take(user_input.text, prompt=True),
            )
        except StoreError:  # it is nowhere else, and continuing would continue without it
            self.scope.emit(InputReturned(texts=(user_input.text,)))
            raise

    async def _completed(self, user_input: UserInput) -> "tuple[str, Attachments]":
        """Return the text of a prompt with the output of its commands, and the texts sent along with it. Mentions
        in that output are not followed: the user did not write them."""
        from .context.mentions import Attachments, attach_text, origin_of

        text, brought = user_input.text, Attachments()
        if user_input.insertions or user_input.allowed:
            inserted = await self._tools.insert(text, user_input.insertions, user_input.allowed)
            text, brought = inserted.text, origin_of(inserted.untrusted)
        for each in user_input.brought:
            inserted = await self._tools.insert(each.text, each.insertions, each.allowed)
            brought = brought.joined(attach_text(each, inserted.text, inserted.untrusted))
        return text, brought

    def _say(
        self,
        origin: Origin,
        text: str,
        *,
        additions: PromptAdditions = NOTHING_NEW,
        images: tuple[Image, ...] = (),
        brought: "Attachments | None" = None,
        beside: tuple[InputDequeued, ...] = (),
    ) -> None:
        message = UserMessage(
            id=new_id("msg"),
            turn_id=self.scope.turn_id,
            text=text,
            origin=origin,
            context=additions.text,
            told=additions.told,
            images=(*images, *(brought.images if brought else ())),
            attachments=(*(brought.attachments if brought else ()), *additions.origin),
            attached=brought.counted if brought else (),
        )
        self._session.append(message, *beside, durable=False)  # the request that sends it is durable

    def _from_hooks(self, additions: PromptAdditions) -> PromptAdditions:
        if not self._hook_context:
            return additions
        said = f"{_SAID_BY_HOOK}{self._hook_context}"
        return msgspec.structs.replace(additions, text=f"{additions.text}\n\n{said}".strip())


_SAID_BY_HOOK = "From a user hook:\n"
_FINAL: frozenset[StopReason] = frozenset({"cost_limit", "stuck"})
"""After these, waiting guidance does not continue the turn; it becomes a new prompt."""
