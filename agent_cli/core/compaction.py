"""Keeping the conversation inside the model's window.

One meter, one threshold, a ladder of two rungs: a summary written by the model in place of the older part;
where that fails, old tool results shortened. Each step is verified to be smaller, nothing is ever removed
from the session, and a cut never parts a call from its result.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ..model.base import ModelError, ModelRequest
from ..protocol.events import AnyEvent, Compacted, Notice
from ..protocol.messages import AssistantMessage, Message, ToolResult, UserMessage, new_id
from ..protocol.records import Folded, Shortened
from . import history
from .meter import Meter, estimate, message_tokens
from .model_call import ModelCaller
from .recall import recallable
from .session import Session

_KEEP_SHARE = 0.25
"""Share of the budget that stays word for word behind a summary."""
_SHORTEN_STEPS = ((6, 2000), (3, 800), (1, 400))
"""Newest results left whole, characters kept of each older one; tried in order."""
_GROWTH = 1.1
"""After a reduction that did not help, the next is tried when the size has grown by this factor."""


class Compactor:
    """Reduces one session's conversation."""

    def __init__(
        self,
        session: Session,
        meter: Meter,
        caller: ModelCaller,
        request: Callable[[Sequence[Message]], ModelRequest],
        emit: Callable[[AnyEvent], None],
        *,
        compact_at: float,
    ) -> None:
        self._session = session
        self._meter = meter
        self._caller = caller
        self._request = request
        self._emit = emit
        self._compact_at = compact_at
        self._not_below = 0

    def forget_failure(self) -> None:
        """Try again at the threshold: the model or the conversation is another one now."""
        self._not_below = 0

    async def reduce_if_needed(self, *, turn_id: str, submission_id: str) -> bool:
        """Reduce when the next request would pass the threshold; True when it became smaller."""
        size = self._meter.tokens()
        if size < self._meter.budget() * self._compact_at or size < self._not_below:
            return False
        return await self.reduce("", turn_id=turn_id, submission_id=submission_id)

    async def reduce(self, focus: str, *, turn_id: str, submission_id: str) -> bool:
        """Summarise the older part, or failing that shorten old tool results; True when it became
        smaller. `focus` tells the summary what matters."""
        before = estimate(self._session.visible())
        done = await self._summarise(focus, turn_id, submission_id) or self._shorten(turn_id, submission_id)
        after = estimate(self._session.visible())
        if not done or self._meter.tokens() >= self._meter.budget() * self._compact_at:
            self._not_below = int(self._meter.tokens() * _GROWTH)
        return done and after < before

    async def _summarise(self, focus: str, turn_id: str, submission_id: str) -> bool:
        visible = self._session.visible()
        cut = choose_cut(visible, int(self._meter.budget() * _KEEP_SHARE))
        if cut == 0:
            return False
        older = visible[:cut]
        request = self._request([*older, UserMessage(id="compact", text=_instruction(focus), origin="hint")])
        request = msgspec.structs.replace(request, may_call=False)
        try:
            answer, _ = await self._caller.call(
                request, kind="summary", step=0, turn_id=turn_id, submission_id=submission_id
            )
        except ModelError as error:
            self._warn(f"The conversation could not be summarised ({error.message}).", submission_id)
            return False
        if not answer.text.strip() or answer.finish not in ("stop", "unknown"):
            self._warn("The conversation could not be summarised (no usable answer).", submission_id)
            return False
        summary = f"{_HEADING}\n\n{answer.text.strip()}\n\n{self._facts()}".rstrip()
        return self._fold(summary, older, turn_id, submission_id)

    def _fold(self, summary: str, older: Sequence[Message], turn_id: str, submission_id: str) -> bool:
        before = estimate(self._session.visible())
        through = next(m.id for m in reversed(older) if m.id != self._fold_id())
        fold = Folded(id=new_id("fold"), turn_id=turn_id, through=through, summary=summary)
        after = estimate(history.visible_messages([*self._session.records, fold]))
        if after >= before:
            self._warn("The summary was no smaller than what it would replace.", submission_id)
            return False
        self._session.append(msgspec.structs.replace(fold, before=before, after=after))
        self._emit(
            Compacted(before=before, after=after, how="summary", summary=summary, submission_id=submission_id)
        )
        return True

    def _fold_id(self) -> str:
        first = self._session.visible()[0]
        return first.id if isinstance(first, UserMessage) and first.origin == "summary" else ""

    def _shorten(self, turn_id: str, submission_id: str) -> bool:
        before = estimate(self._session.visible())
        for newest, keep_chars in _SHORTEN_STEPS:
            results = [m for m in self._session.visible() if isinstance(m, ToolResult)]
            long = [r.call_id for r in results[: max(0, len(results) - newest)] if len(r.text) > keep_chars + 200]
            if not long:
                continue
            record = Shortened(
                id=new_id("short"),
                turn_id=turn_id,
                call_ids=tuple(long),
                keep_chars=keep_chars,
                before=before,
            )
            after = estimate(history.visible_messages([*self._session.records, record]))
            if after >= before:
                continue
            self._session.append(msgspec.structs.replace(record, after=after))
            self._emit(Compacted(before=before, after=after, how="shortened", submission_id=submission_id))
            if after < self._meter.budget() * self._compact_at:
                return True
        return estimate(self._session.visible()) < before

    def _facts(self) -> str:
        """What a summary must not lose, copied from the records: the plan and the files concerned."""
        plan = history.current_plan(self._session.records)
        lines = ["Plan:", *(f"- [{item.status}] {item.text}" for item in plan)] if plan else []
        changed = dict.fromkeys(
            change.path
            for message in history.active_messages(self._session.records)
            if isinstance(message, ToolResult)
            for change in message.changes
        )
        if changed:
            lines += ["Files changed so far: " + ", ".join(list(changed)[-60:])]
        if earlier := recallable(history.active_messages(self._session.records)):
            lines += ["Earlier results (recall ID shows one whole):", *earlier]
        return "\n".join(lines)

    def _warn(self, text: str, submission_id: str) -> None:
        self._emit(Notice(level="warning", text=text, submission_id=submission_id))


def choose_cut(messages: Sequence[Message], keep_tokens: int) -> int:
    """How many of the oldest messages to fold: as many as leave about `keep_tokens` behind, at a place
    that parts no call from its results. 0 when nothing can be folded."""
    kept = 0
    place = 0
    for index in range(len(messages) - 1, 0, -1):
        kept += message_tokens(messages[index])
        if isinstance(messages[index], UserMessage | AssistantMessage):
            place = index
            if kept >= keep_tokens:
                break
    else:
        place = _last_safe_cut(messages) if kept < keep_tokens else place
    folded = [m for m in messages[:place] if not (isinstance(m, UserMessage) and m.origin == "summary")]
    worthwhile = any(not isinstance(m, UserMessage) for m in folded)
    return place if worthwhile else 0


def _last_safe_cut(messages: Sequence[Message]) -> int:
    """For a conversation smaller than what would be kept: fold all but the last exchange."""
    for index in range(len(messages) - 1, 0, -1):
        if isinstance(messages[index], UserMessage | AssistantMessage):
            return index
    return 0


_HEADING = "[Summary of the conversation so far. The originals are kept in the session.]"


def _instruction(focus: str) -> str:
    text = (Path(__file__).parent / "prompts" / "compact.md").read_text(encoding="utf-8").strip()
    return f"{text}\n\nPay particular attention to: {focus}" if focus else text
