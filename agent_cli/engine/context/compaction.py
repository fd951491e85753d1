"""Compaction: keep the conversation inside the model's context window.

There is one measure, one threshold, and a ladder of steps: shorten old tool results → replace the older part with
a summary by the model → leave out the middle, without the model → if the next request still does not fit, shorten
the newest results too. Each step is checked to make the conversation smaller. The ladder ends when a good part of
the window is free again. Nothing is ever removed from the session, and a cut never separates a call from its
result.
"""

import math
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from agent_cli.model.types.base import Answer, ModelError
from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.events import Compacted
from agent_cli.protocol.messages import AssistantMessage, Message, ToolResult, UserMessage, new_id
from agent_cli.protocol.records import CompactionReverted, CompactionSaved, Shortened
from agent_cli.session import history
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.undo_state import taken_back

from ..model_calls.budget import OverBudget
from .prompt_parts import PromptAdditions
from .token_meter import estimate, message_tokens

if TYPE_CHECKING:
    from ..services import SessionServices

AdditionsBuilder = Callable[[Sequence[Message]], PromptAdditions]
"""Returns what must be sent in addition to the messages that are still sent."""

Trigger = Literal["manual", "auto"]
"""Trigger of a compaction: the user, or the size of the conversation."""
_TARGET = 0.75
"""A reduction continues down to this share of the threshold, so that the next one is far off."""
_KEEP_SHARE = 0.25
"""Share of the budget kept verbatim after a summary."""
_PROMPTS_SHARE = 0.1
"""Share of the budget for earlier prompts of the user."""
_FACTS_SHARE = 0.08
_SUMMARIZED_SHARE = 0.8
"""Maximum share of the budget that one summary may cover."""
_SHORTEN_STEPS = ((6, 2000), (3, 800), (1, 400))
"""Number of newest results left whole, characters kept of each older one; tried in order."""
_SHORTEN_NEWEST = ((0, 8000), (0, 2000), (0, 800))
"""The same for results that the model has not seen yet, used if the next request would not fit otherwise."""
_LONGEST_SUMMARY = 50_000
"""Maximum characters of a summary, so that a rambling model does not fill the window again."""
_SUMMARIES = 2
"""Maximum summaries per reduction, and consecutive failures after which no more are requested."""
_GROWTH = 1.1
"""After a reduction that did not help, the next is tried once the size has grown by this factor."""
_LEAST_GAIN = 0.05
"""Minimum share of the messages that an automatic reduction must free: after it the provider reads all of them
anew."""


class ContextFull(Exception):
    """Nothing more can be reduced, and the next request would not fit. The message lists the largest parts."""


class Compactor:
    """Compacts the conversation of one session."""

    def __init__(self, services: "SessionServices") -> None:
        self._session = services.session
        self._meter = services.meter
        self._services = services
        self._not_below = 0
        self._failures = 0
        self.is_summarizing = False
        """True while the model writes a summary."""
        self._draft: CompactionSaved | None = None
        """A previewed compaction that is not in force yet."""

    @property
    def threshold(self) -> int:
        """Size in tokens at which the conversation is compacted."""
        return int(self._meter.budget() * self._services.settings.compact_at)

    def forget_failure(self) -> None:
        """Forget failed reductions: the model or the conversation has changed."""
        self._not_below = self._failures = 0

    def window_warning(self) -> str:
        """Return a warning if the conversation does not fit a newly chosen model; empty otherwise."""
        size, budget = self._meter.tokens(), self._meter.budget()
        if size <= self.threshold:
            return ""
        return (
            f"The conversation has about {size} tokens, the new model takes {budget}: it is compacted before "
            "the next request. To keep all of it, go back with /model first, or /compact with the old one."
        )

    def is_due(self, share: float = 1.0) -> bool:
        """Return True if the next request would exceed `share` of the threshold."""
        return self._meter.tokens() >= self.threshold * share

    async def reduce_if_needed(self, scope: TurnScope, share: float = 1.0) -> bool:
        """Compact if the next request would exceed `share` of the threshold. Return True if it became smaller.

        Raises:
            ContextFull: it cannot be made to fit.
        """
        if not self.is_due(share):
            return False
        size = left = self._meter.tokens()
        done = False
        if size >= self._not_below:
            done = await self._descend(scope)
            left = self._meter.tokens()
            self._not_below = int(left * _GROWTH) if left >= self.threshold else 0
        if self._is_over(left) and self._shorten_newest(scope):
            done, left = True, self._meter.tokens()
        if self._is_over(left) and (window := self._meter.window()) is not None:
            raise ContextFull(self._what_fills(window))
        return done

    async def reduce(self, focus: str, scope: TurnScope) -> bool:
        """Summarize the older part, or if that fails shorten old tool results. Return True if the conversation
        became smaller. `focus` tells the model what matters."""
        self.forget_failure()
        if await self._refused_by_hook("manual", scope):
            return False
        if await self._summarize(focus, scope, "manual"):
            return True
        return self._shorten(_SHORTEN_STEPS[-1:], scope)

    def has_older_part(self) -> bool:
        """Return True if a part of the conversation could be summarized."""
        return self._cut() > 0

    async def reduce_refused(self, scope: TurnScope) -> bool:
        """Compact after the provider refused a request as too large. Return True if the conversation became
        smaller."""
        self._meter.was_refused()
        done = await self._descend(scope)
        newest = not self._is_enough() and self._shorten_newest(scope)
        return done or newest

    async def preview(self, focus: str, scope: TurnScope) -> bool:
        """Request a summary and show it without applying it. Return False if there is nothing to summarize."""
        cut = 0 if await self._refused_by_hook("manual", scope) else self._cut()
        summary = await self._request_summary(self._session.visible()[:cut], focus, scope) if cut else ""
        if not summary:
            return False
        older = self._session.visible()[:cut]
        fold = self._draft = self._fold(older, "", summary, "summary")
        before, after = self._sizes(fold)
        scope.emit(Compacted(before=before, after=after, how="preview", summary=fold.summary))
        return True

    def keep_summary(self, text: str, scope: TurnScope) -> bool:
        """Use a text as the summary: of the last previewed part if it is still unchanged, otherwise in place of
        the summary in force. Return False if there is neither."""
        draft = self._draft
        if draft is None or all(message.id != draft.through for message in self._session.visible()):
            draft = self._session.view.fold_in_force()
        if draft is None:
            return False
        fold = CompactionSaved(
            id=new_id("fold"), through=draft.through, kept=draft.kept, summary=text, how="edited"
        )
        return self._add(fold, scope, least_gain=-math.inf)

    def take_back(self, scope: TurnScope) -> bool:
        """Revert the newest reduction. Return False if there is none."""
        reductions = self._session.view.reductions
        if not reductions:
            return False
        before = estimate(self._session.visible())
        self._session.append(CompactionReverted(id=new_id("unfold"), fold_id=reductions[-1].id))
        self._not_below = int(self._meter.tokens() * _GROWTH)
        scope.emit(Compacted(before=before, after=estimate(self._session.visible()), how="undone"))
        return True

    def reclaimable_tokens(self) -> dict[str, int]:
        """Return the estimated tokens that each step of the ladder would free."""
        visible = self._session.visible()
        before = estimate(visible)
        record = self._shortened(*_SHORTEN_STEPS[-1], "")
        shorter = before - estimate(self._session.view.reduced(record)) if record else 0
        cut = self._cut()
        return {"shortening old results": shorter, "a summary": estimate(visible[:cut])}

    async def _descend(self, scope: TurnScope) -> bool:
        """Go down the ladder until the target is reached. Return True if the conversation became smaller."""
        before = estimate(self._session.visible())
        is_enough = self._shorten(_SHORTEN_STEPS, scope, only_if_enough=True)
        if not is_enough and not await self._refused_by_hook("auto", scope):
            for number in range(_SUMMARIES):
                if self._is_enough() or self._failures >= _SUMMARIES:
                    break
                if not await self._summarize("", scope, keep_less=number == 0):
                    break
            if not self._is_enough():
                self._shorten(_SHORTEN_STEPS[-1:], scope)
            if not self._is_enough():
                self._leave_out(scope)
        return estimate(self._session.visible()) < before

    def _is_over(self, size: int) -> bool:
        """Return True if a request of this size would certainly not fit, by all that is known of the window."""
        window = self._meter.window()
        return window is not None and size >= window <= self._meter.at_least()

    def _shorten_newest(self, scope: TurnScope) -> bool:
        """Shorten the newest results too, but no more than necessary. Return True if they became smaller."""
        enough = self._shorten(_SHORTEN_NEWEST, scope, only_if_enough=True)
        return enough or self._shorten(_SHORTEN_NEWEST[-1:], scope)

    def _is_enough(self) -> bool:
        return self._meter.tokens() <= self.threshold * _TARGET

    def _cut(self, *, keep_less: bool = True) -> int:
        from . import compaction_facts

        budget, visible = self._meter.budget(), self._session.visible()
        keep, at_most = int(budget * _KEEP_SHARE), int(budget * _SUMMARIZED_SHARE)
        return compaction_facts.choose_cut(visible, keep, at_most, keep_less=keep_less)

    async def _refused_by_hook(self, trigger: Trigger, scope: TurnScope) -> bool:
        hooks = self._services.session_hooks
        refusal = await hooks.before_compaction(trigger, scope) if hooks is not None else ""
        if refusal:
            scope.notice(f"A hook refused to have the conversation compacted: {refusal}")
        return bool(refusal)

    async def _summarize(
        self, focus: str, scope: TurnScope, trigger: Trigger = "auto", *, keep_less: bool = True
    ) -> bool:
        cut = self._cut(keep_less=keep_less)
        if cut == 0:
            return False
        older = self._session.visible()[:cut]
        summary = await self._request_summary(older, focus, scope)
        least_gain = _LEAST_GAIN if trigger == "auto" else 0
        if summary and self._add(self._fold(older, scope.turn_id, summary, "summary"), scope, least_gain):
            self._failures = 0
            if (hooks := self._services.session_hooks) is not None:
                await hooks.after_compaction(trigger, summary, scope)
            return True
        self._failures += 1
        return False

    async def _request_summary(self, older: Sequence[Message], focus: str, scope: TurnScope) -> str:
        """Return the model's summary of a part of the conversation; empty, after a notice, if there is none. A
        model that calls a tool instead is asked once more."""
        self.is_summarizing = True
        try:
            answer = await self._ask(older, _instruction(focus), scope)
            if answer.calls:
                answer = await self._ask(older, f"{_instruction(focus)}\n\n{_NO_CALLS}", scope)
        except (ModelError, OverBudget) as error:
            scope.notice(f"The conversation could not be summarized ({error}).")
            return ""
        finally:
            self.is_summarizing = False
        if not answer.text.strip() or answer.finish not in ("stop", "unknown"):
            scope.notice("The conversation could not be summarized (no usable answer).")
            return ""
        return answer.text.strip()[:_LONGEST_SUMMARY]

    async def _ask(self, older: Sequence[Message], instruction: str, scope: TurnScope) -> Answer:
        request = self._services.request([*older, UserMessage(id="compact", text=instruction, origin="hint")])
        request = msgspec.structs.replace(request, may_call=False)
        answer, _ = await self._services.caller.call(request, scope, kind="summary", step=0)
        return answer

    def _leave_out(self, scope: TurnScope) -> bool:
        """Replace the older part with facts about it, without the model."""
        from . import compaction_facts

        visible = self._session.visible()
        cut = compaction_facts.choose_cut(visible, int(self._meter.budget() * _KEEP_SHARE))
        if cut == 0:
            return False
        return self._add(self._fold(visible[:cut], scope.turn_id, self._earlier_summary(), "left_out"), scope)

    def _earlier_summary(self) -> str:
        """Return the text of an earlier summary, as far as it fits, for use when no new one is available."""
        from . import compaction_facts

        first = self._session.visible()[0]
        if not isinstance(first, UserMessage) or first.origin != "summary":
            return ""
        text = first.text.partition("]\n\n")[2] or first.text
        said = compaction_facts.without_facts(text).removeprefix(_EARLIER)
        return said and f"{_EARLIER}{said[: int(self._meter.budget() * _FACTS_SHARE) * 4]}"

    def _in_place_of_originals(self) -> list[Message]:
        """Return all messages that count, in the form sent for those that are sent. Others may have no text in
        memory."""
        sent = {message.id: message for message in self._session.visible()}
        return [sent.get(each.id, each) for each in history.active_messages(self._session.records)]

    def _fold(
        self, older: Sequence[Message], turn_id: str, summary: str, how: Literal["summary", "left_out"]
    ) -> CompactionSaved:
        """Return the compaction of a part: `summary`, the facts about the part, and instructions that were only in
        it."""
        from . import compaction_facts

        budget = self._meter.budget()
        view, visible = self._session.view, self._session.visible()
        kept = compaction_facts.word_for_word(visible, len(older), view.pinned, int(budget * _PROMPTS_SHARE))
        stay = [*(m for m in older if m.id in kept), *visible[len(older) :]]
        additions = self._services.prompt_additions(stay)
        facts = compaction_facts.facts(
            self._in_place_of_originals(),
            view.plan,
            view.known_files,
            self._directory(),
            self._running(),
            int(budget * _FACTS_SHARE) * 4,
            sent=len(visible) - len(older),
            reverted=taken_back(self._session.records).files,
        )
        summary_id = before.id if (before := view.fold_in_force()) else ""
        gone = [m for m in older if m.id not in kept and m.id != summary_id]
        heading = _HEADING if how == "summary" else _LEFT_OUT.format(count=len(gone))
        parts = (heading, summary, facts, additions.text if additions.told else "")
        return CompactionSaved(
            id=new_id("fold"),
            turn_id=turn_id,
            through=next(m.id for m in reversed(older) if m.id != summary_id),
            summary="\n\n".join(part for part in parts if part),
            how=how,
            kept=kept,
            told=additions.told,
        )

    def _directory(self) -> str:
        """Return where the next command runs; empty for the workspace's folder."""
        workspace, now = self._services.tools.workspace, self._services.tools.shell.cwd
        return "" if now == workspace.root else workspace.relative(str(now))

    def _running(self) -> list[str]:
        """Return what goes on in the background, of which the model would otherwise know nothing any more."""
        jobs, agents = self._services.tools.jobs.states(), self._services.agents
        children = agents.lines() if agents is not None else ()
        return [
            *(f"job {job.id}: {job.command}" for job in jobs if job.state in ("running", "kept")),
            *(f"sub-agent {child.name}: {child.task}" for child in children if child.state not in ENDED),
        ]

    def _add(self, fold: CompactionSaved, scope: TurnScope, least_gain: float = _LEAST_GAIN) -> bool:
        before, after = self._sizes(fold)
        if not self._frees_enough(before, after, least_gain):
            if fold.how == "summary":
                scope.notice("The summary is not used: it is not much smaller than what it would replace.")
            return False
        self._draft = None
        self._session.append(msgspec.structs.replace(fold, before=before, after=after))
        scope.emit(Compacted(before=before, after=after, how=fold.how, summary=fold.summary))
        return True

    def _frees_enough(self, before: int, after: int, least_gain: float = _LEAST_GAIN) -> bool:
        """Return True if a reduction frees enough: a share of the messages, or anything if the next request would
        not fit."""
        freed = before - after
        return freed > before * least_gain or (freed > 0 and self._is_over(self._meter.tokens()))

    def _shorten(
        self, steps: Sequence[tuple[int, int]], scope: TurnScope, *, only_if_enough: bool = False
    ) -> bool:
        """Shorten tool results, but no more than necessary. Return True if they became smaller. With
        `only_if_enough`, do nothing unless that alone reaches the target."""
        before = estimate(self._session.visible())
        for step in steps:
            record = self._shortened(*step, scope.turn_id)
            after = estimate(self._session.view.reduced(record)) if record else before
            enough = self._meter.tokens_after(before, after) <= self.threshold * _TARGET
            frees_enough = record is not None and self._frees_enough(before, after, 0 if enough else _LEAST_GAIN)
            if record is None or not frees_enough or (only_if_enough and not enough):
                continue
            self._session.append(msgspec.structs.replace(record, before=before, after=after))
            scope.emit(Compacted(before=before, after=after, how="shortened"))
            return True
        return False

    def _shortened(self, newest: int, keep_chars: int, turn_id: str) -> Shortened | None:
        """Return the record of what one step would shorten; None if there is nothing. Results that the model has
        not seen stay whole unless `newest` is 0, however many calls it made at once."""
        visible = self._session.visible()
        results = [m for m in visible if isinstance(m, ToolResult)]
        after = takewhile(lambda m: not isinstance(m, AssistantMessage), reversed(visible))
        whole = max(newest, sum(isinstance(m, ToolResult) for m in after)) if newest else 0
        older = results[: max(0, len(results) - whole)]
        long = tuple(r.call_id for r in older if len(r.text) > keep_chars + 200)
        return (
            Shortened(id=new_id("short"), turn_id=turn_id, call_ids=long, keep_chars=keep_chars) if long else None
        )

    def _sizes(self, fold: CompactionSaved) -> tuple[int, int]:
        return estimate(self._session.visible()), estimate(self._session.view.reduced(fold))

    def largest(self, count: int) -> list[Message]:
        """Return the largest messages that the user could drop, the largest first."""
        prompts = self._session.view.prompts
        last = prompts[-1].turn_id if prompts else ""
        free = [m for m in self._session.visible() if not (isinstance(m, UserMessage) and m.turn_id == last)]
        return sorted(free, key=message_tokens, reverse=True)[:count]

    def _what_fills(self, window: int) -> str:
        parts = sorted(self._meter.parts(), key=lambda part: -part.tokens)
        named = ", ".join(f"{part.name} {part.tokens:,}" for part in parts[:3] if part.tokens)
        return (
            f"The next request would have at least {self._meter.at_least():,} tokens, and the model's window "
            f"takes {window:,}. Nothing more can be reduced automatically. What fills it, in tokens: {named}."
        )


_NO_CALLS = (
    "Your last answer to this called a tool, which is not possible here. Answer with the text of the summary."
)
_EARLIER = "Earlier summary:\n"
_HEADING = (
    "[Summary of the conversation so far. Nothing is lost: search_history finds what was said, recall shows a "
    "result whole.]"
)
_LEFT_OUT = (
    "[{count} earlier messages are left out here, since they no longer fit. Nothing is lost: search_history finds "
    "what was said, recall shows a result in full.]"
)


def _instruction(focus: str) -> str:
    text = (Path(__file__).parent / "prompts" / "compact.md").read_text(encoding="utf-8").strip()
    return f"{text}\n\nPay particular attention to: {focus}" if focus else text
