"""Services that live as long as one session: built once by the composition root, shared by its turns."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import msgspec

from agent_cli.model.transport.retry import RetryPolicy
from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.messages import Message
from agent_cli.session.event_bus import EventBus, TurnScope
from agent_cli.session.history import RepairedHistory
from agent_cli.session.input_queue import Inbox
from agent_cli.session.session import Session
from agent_cli.store.state.daily_spend import SpendLog
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.registry import Registry

from .context.compaction import AdditionsBuilder, Compactor
from .context.reminders import Reminders
from .context.token_meter import OfferedTools, TokenMeter
from .model_calls.budget import BudgetLimits, SharedBudget
from .model_calls.caller import ModelCaller
from .model_calls.limits import PromptCalls, Settings
from .model_calls.model_selection import Models
from .permissions.active_policy import Permissions
from .snapshot import SnapshotBuilder
from .tool_calls.approval_requests import ApprovalRequests
from .tool_calls.call_rules import BoundRule
from .undo.turn_undo import TurnUndo

if TYPE_CHECKING:
    from agent_cli.hooks.engine import HookEngine
    from agent_cli.protocol.operations import UserInput

    from .context.history_search import EarlierSessions, SessionHistory
    from .context.mentions import Attachments
    from .subagents.subagents import Subagents
    from .user_hooks.session_hooks import SessionHooks


class SessionServices(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """The services of one session. Services derived from others are built on first use."""

    session: Session
    bus: EventBus
    models: Models
    registry: Registry
    permissions: Permissions
    approvals: ApprovalRequests
    undo: TurnUndo
    tool_base: ToolContext
    """The context of tools, without the functions that depend on the session."""
    settings: Settings
    prompt_additions: AdditionsBuilder
    """Returns the additions to the messages that are still sent."""
    come_near: Callable[[], Sequence[str]] = tuple
    """Returns folders whose instructions apply from now on, because a file there was used."""
    retry: RetryPolicy
    redacted: Callable[[Sequence[Message]], Sequence[Message]] = tuple
    """Returns messages with secrets removed, as they may be sent."""
    day: SpendLog | None = None
    rules: Sequence[BoundRule] = ()
    hooks: "HookEngine | None" = None
    """Programs of the user that run at fixed points."""
    earlier: "Callable[[], EarlierSessions] | None" = None
    prompt_calls: PromptCalls = msgspec.field(default_factory=lambda: PromptCalls(None))
    """Model calls for the user's prompt, counted together with those of sub-agents."""
    parent: "SessionServices | None" = None
    """Services of the session that started this one as a sub-agent."""
    agents: "Subagents | None" = None
    """The sub-agents of this session; None if it may not start any."""
    shared_budget: SharedBudget | None = None
    """A cost limit shared with other sessions. A sub-agent uses its parent's."""

    @cached_property
    def tools(self) -> ToolContext:
        """The context of tools."""
        return msgspec.structs.replace(
            self.tool_base,
            recall=lambda identifier: self.history_search().recall(identifier),
            search_history=lambda query: self.history_search().search(query),
            is_visible=lambda text: any(text in message.text for message in self.session.visible()),
            max_tokens=self.meter.result_tokens,
        )

    @cached_property
    def offered(self) -> OfferedTools:
        """The tools offered to the model."""
        return OfferedTools(self.session, self.registry)

    @cached_property
    def meter(self) -> TokenMeter:
        """Measures the conversation for the model in use."""
        return TokenMeter(self.session, lambda: self.models.model.info, lambda: self.offered.specs)

    @cached_property
    def budget(self) -> BudgetLimits:
        """The cost limits."""
        parent = self.parent.budget if self.parent is not None else None
        return BudgetLimits(
            self.session, self.settings.bounds, self.day, self.meter.tokens, parent, self.shared_budget
        )

    @cached_property
    def caller(self) -> ModelCaller:
        """Calls the model, with retries and fallbacks."""
        return ModelCaller(self.session, self.models, self.retry, self.budget)

    @cached_property
    def compactor(self) -> Compactor:
        """Compacts the conversation when the window is nearly full."""
        return Compactor(self)

    @cached_property
    def inbox(self) -> Inbox:
        """Queued input."""
        return Inbox(self.session)

    @cached_property
    def session_hooks(self) -> "SessionHooks | None":
        """User hooks on prompts and turns; None if there are none."""
        if self.hooks is None:
            return None
        from .user_hooks.session_hooks import SessionHooks

        return SessionHooks(self.hooks, self.session, self.tools, resumed=self.settings.resumed)

    @cached_property
    def reminders(self) -> Reminders:
        """Reminders to the model between steps."""
        return Reminders(self.session, self.tools.jobs, finish_plan=self.settings.finish_plan)

    @cached_property
    def snapshots(self) -> SnapshotBuilder:
        """Builds snapshots for status lines."""
        return SnapshotBuilder(self)

    @cached_property
    def _repaired(self) -> RepairedHistory:
        return RepairedHistory()

    def scope(self, submission_id: str = "", turn_id: str = "") -> TurnScope:
        """Return the scope of a turn, of an operation, or of work between turns."""
        hooks = self.session_hooks
        emit = self.bus.emit if hooks is None else hooks.watching(self.bus.emit)
        return TurnScope(emit, submission_id, turn_id)

    def request(self, messages: Sequence[Message]) -> ModelRequest:
        """Return a valid request: repaired, redacted, and with the offered tools."""
        return ModelRequest(
            system=self.session.header.system,
            messages=self._repaired.of(self.redacted(messages)),
            tools=self.offered.specs,
            effort=self.models.effort,
            session_id=self.session.header.session_id,
        )

    def history_search(self) -> "SessionHistory":
        """Return the search over what was said in this and earlier sessions."""
        from .context.history_search import SessionHistory

        return SessionHistory(self.session, self.tools.spill_dir, self.earlier() if self.earlier else None)

    async def attach(self, given: "UserInput") -> "Attachments":
        """Return the attachments of a prompt: its images, and everything it names that the policy and hooks allow.
        Files attached in full count as seen. The output of the user's commands comes first."""
        from .context.mentions import attach, attach_commands, guarded_images, unguarded

        hosts, hooks = self.settings.private_hosts, self.session_hooks
        guard = partial(hooks.on_mention, self.scope()) if hooks is not None else unguarded
        of_files = given.images[: len(given.image_paths)]
        brought = await guarded_images(given.image_paths, of_files, guard)
        if given.is_data:
            return brought
        named = await attach(given.text, self.tools, self.permissions.authorize, hosts, guard)
        self.tools.seen.update(named.seen)
        self.session.view.use_files(named.counted)
        brought = brought.joined(named)
        if given.commands:
            brought = attach_commands(given.commands, self.tools).joined(brought)
        return brought
