"""State for the status line and `/status`, recomputed when the conversation changes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from agent_cli.model.types.base import ModelInfo
from agent_cli.protocol.client import ContextItem, ContextPart, ContextPicture, Snapshot, WaitingInput
from agent_cli.protocol.messages import AssistantMessage, Message, ToolResult, UserMessage, is_prompt
from agent_cli.session import history

from .context.token_meter import message_tokens, part_of

if TYPE_CHECKING:
    from .services import SessionServices


class SnapshotBuilder:
    """Builds snapshots of one session. Called many times a second while the screen is drawn."""

    def __init__(self, services: "SessionServices") -> None:
        self._services = services
        self._session = services.session
        self._meter = services.meter
        self._pictured: tuple[tuple[int, ModelInfo, int | None], Snapshot] | None = None

    def snapshot(self, *, busy: bool, compacting: bool, waiting: tuple[WaitingInput, ...]) -> Snapshot:
        """Return the current state. Parts that depend on the conversation are recomputed only when it has
        changed."""
        state = (len(self._session.records), self._services.models.model.info, self._meter.window())
        if self._pictured is None or self._pictured[0] != state:
            self._pictured = (state, self._context_picture())
        picture = self._pictured[1]
        open_calls = 0 if busy else picture.open_calls
        jobs = self._services.tools.jobs.states()
        hooks, agents = self._services.hooks, self._services.agents
        return msgspec.structs.replace(
            picture,
            busy=busy,
            compacting=compacting,
            waiting=waiting,
            open_calls=open_calls,
            jobs=jobs,
            hook=hooks.slowest if hooks is not None else "",
            agents=agents.lines() if agents is not None else (),
            sandbox=self._services.permissions.level(),
        )

    def _context_picture(self) -> Snapshot:
        view = self._session.view
        model, mode, effort = view.settings
        return Snapshot(
            session_id=self._session.header.session_id,
            title=self._session.title(),
            session_path=self._services.settings.session_path,
            cwd=str(self._services.tools.workspace.root),
            model=model,
            standing_in=self._standing_in(),
            mode=mode,
            effort=effort,
            sandbox=self._services.permissions.level(),
            busy=False,
            compacting=False,
            waiting=(),
            open_calls=len(view.open_calls),
            context_tokens=self._meter.shown_tokens(),
            context_window=self._meter.window(),
            context_parts=self._meter.parts(),
            context_source=self._meter.source(),
            totals=view.costs.totals,
            costs=view.costs.lines(),
            spent_today_usd=self._services.budget.today_usd(),
            cached_share=view.cached_share,
            plan=view.plan,
            jobs=(),
            unsent=self._services.inbox.unsent,
            stopped="terminated" if view.last_end == "terminated" else "",
            turns=view.turns,
            last_prompt=view.prompts[-1].text if view.prompts else "",
            last_answer=view.last_answer,
            answered=view.is_answered,
            unfinished=view.is_unfinished,
        )

    def context(self) -> ContextPicture:
        """Return the contents of the window, message by message."""
        marks = history.marks(self._session.records)
        items: list[ContextItem] = []
        age = 0
        visible = self._session.visible()
        calls = {call.id: call.arguments for m in visible if isinstance(m, AssistantMessage) for call in m.calls}
        for message in reversed(visible):
            items.append(
                ContextItem(
                    message_id=message.id,
                    kind=part_of(message),
                    label=_label(message, calls),
                    tokens=message_tokens(message),
                    age=age,
                    mark=marks.get(message.id, ""),
                )
            )
            age += is_prompt(message)
        return ContextPicture(
            window=self._meter.window(),
            budget=self._meter.budget(),
            compact_at=self._services.compactor.threshold,
            tokens=self._meter.shown_tokens(),
            source=self._meter.source(),
            parts=self._meter.parts(),
            can_go=tuple(
                ContextPart(name, tokens) for name, tokens in self._services.compactor.reclaimable_tokens().items()
            ),
            items=tuple(reversed(items)),
        )

    def _standing_in(self) -> str:
        name = self._services.models.model.info.name
        return name if name != self._services.models.chosen.info.name else ""


_LABEL_CHARS = 100


def _label(message: Message, calls: Mapping[str, str]) -> str:
    """Return a short label for a message; `calls` maps call ids to arguments."""
    match message:
        case ToolResult():
            words = f"{message.tool} {message.command or calls.get(message.call_id, '')}"
        case AssistantMessage():
            words = message.text or ", ".join(f"{call.name} {call.arguments}" for call in message.calls)
        case UserMessage():
            words = message.text or message.lead
    return " ".join(words.split())[:_LABEL_CHARS]
