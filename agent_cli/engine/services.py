"""What lives as long as one session: made once by the composition root, shared by its turns."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import msgspec

from agent_cli.model.transport.retry import RetryPolicy
from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.messages import Message
from agent_cli.session.event_bus import EventBus
from agent_cli.session.history import RepairedHistory
from agent_cli.session.input_queue import Inbox
from agent_cli.session.session import Session
from agent_cli.session.turn_scope import TurnScope
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.registry import Registry

from .context.compaction import Briefed, Compactor
from .context.reminders import Reminders
from .context.token_meter import OfferedTools, TokenMeter
from .model_calls.budget import BudgetLimits, DayLedger, SharedBudget
from .model_calls.caller import ModelCaller
from .model_calls.limits import PromptCalls, Settings
from .model_calls.model_selection import Models
from .permissions.active_policy import Permissions
from .snapshot import SnapshotBuilder
from .tool_calls.approval_requests import ApprovalRequests
from .tool_calls.call_rules import BoundRule, TurnRules
from .undo.turn_undo import TurnUndo

if TYPE_CHECKING:
    from agent_cli.hooks.engine import HookEngine
    from agent_cli.protocol.operations import UserInput

    from .context.history_search import EarlierSessions, SessionHistory
    from .context.mentions import Attachments
    from .subagents.subagents import Subagents
    from .user_hooks.session_hooks import SessionHooks


class SessionServices(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """The services of one session. What follows from others is made when it is first used."""

    session: Session
    bus: EventBus
    models: Models
    registry: Registry
    permissions: Permissions
    approvals: ApprovalRequests
    undo: TurnUndo
    tool_base: ToolContext
    """What tools reach, but for what they ask of the session."""
    settings: Settings
    prompt_additions: Briefed
    """What is new beside the messages that are still sent."""
    retry: RetryPolicy
    redacted: Callable[[Sequence[Message]], Sequence[Message]] = tuple
    """Messages as they may be sent."""
    day: DayLedger | None = None
    rules: Sequence[BoundRule] = ()
    hooks: "HookEngine | None" = None
    """Programs of the user that are asked at fixed points."""
    earlier: "Callable[[], EarlierSessions] | None" = None
    prompt_calls: PromptCalls = msgspec.field(default_factory=lambda: PromptCalls(None))
    """The model calls for the user's prompt, shared with sub-agents."""
    parent: "SessionServices | None" = None
    """The session that started this one as a sub-agent."""
    agents: "Subagents | None" = None
    """The sub-agents of this session; None where it may start none."""
    shared_budget: SharedBudget | None = None
    """A bound on money together with other sessions; a sub-agent has its parent's."""

    @cached_property
    def tools(self) -> ToolContext:
        """What tools reach."""
        return msgspec.structs.replace(
            self.tool_base,
            recall=lambda identifier: self.history_search().recall(identifier),
            search_history=lambda query: self.history_search().search(query),
            max_tokens=self.meter.result_tokens,
        )

    @cached_property
    def offered(self) -> OfferedTools:
        """The tools that the model is offered."""
        return OfferedTools(self.session, self.registry)

    @cached_property
    def meter(self) -> TokenMeter:
        """The size of the conversation against the model in use."""
        return TokenMeter(self.session, lambda: self.models.model.info, lambda: self.offered.specs)

    @cached_property
    def budget(self) -> BudgetLimits:
        """The limits on money."""
        parent = self.parent.budget if self.parent is not None else None
        return BudgetLimits(
            self.session, self.settings.bounds, self.day, self.meter.tokens, parent, self.shared_budget
        )

    @cached_property
    def caller(self) -> ModelCaller:
        """Calls of the model, with retries and fallbacks."""
        return ModelCaller(self.session, self.models, self.retry, self.budget)

    @cached_property
    def compactor(self) -> Compactor:
        """Reduces the conversation when the window is nearly full."""
        return Compactor(self)

    @cached_property
    def inbox(self) -> Inbox:
        """Input that waits."""
        return Inbox(self.session)

    @cached_property
    def session_hooks(self) -> "SessionHooks | None":
        """The user's hooks on prompts and turns; None where there are none."""
        if self.hooks is None:
            return None
        from .user_hooks.session_hooks import SessionHooks

        return SessionHooks(self.hooks, self.session, self.tools, resumed=self.settings.resumed)

    @cached_property
    def reminders(self) -> Reminders:
        """What the model is reminded of between steps."""
        return Reminders(self.session, self.tools.jobs, finish_plan=self.settings.finish_plan)

    @cached_property
    def snapshots(self) -> SnapshotBuilder:
        """The facts that a status line shows."""
        return SnapshotBuilder(self)

    @cached_property
    def _repaired(self) -> RepairedHistory:
        return RepairedHistory()

    def scope(self, submission_id: str = "", turn_id: str = "") -> TurnScope:
        """Return the scope of a turn, of an operation, or of work between turns."""
        hooks = self.session_hooks
        emit = self.bus.emit if hooks is None else hooks.watching(self.bus.emit)
        return TurnScope(emit, submission_id, turn_id)

    def turn_rules(self) -> TurnRules:
        """Return the rules on calls, for one turn."""
        return TurnRules(self.rules, str(self.tools.workspace.root))

    def request(self, messages: Sequence[Message]) -> ModelRequest:
        """Return a valid request: repaired, redacted, with the tools that are offered."""
        return ModelRequest(
            system=self.session.header.system,
            messages=self._repaired.of(self.redacted(messages)),
            tools=self.offered.specs,
            effort=self.models.effort,
            session_id=self.session.header.session_id,
        )

    def history_search(self) -> "SessionHistory":
        """Search in what was said earlier, in this session and in others."""
        from .context.history_search import SessionHistory

        return SessionHistory(self.session, self.tools.spill_dir, self.earlier() if self.earlier else None)

    async def attach(self, given: "UserInput") -> "Attachments":
        """Return the pictures of files that come with a prompt, and read what it names, as far as the policy and
        the hooks let it; files shown whole count as known. What the user ran comes first."""
        from .context.mentions import attach, guarded_images, unguarded

        hosts, hooks = self.settings.private_hosts, self.session_hooks
        guard = partial(hooks.on_mention, self.scope()) if hooks is not None else unguarded
        of_files = given.images[: len(given.image_paths)]
        brought = await guarded_images(given.image_paths, of_files, guard)
        if given.is_data:
            return brought
        named = await attach(given.text, self.tools, self.permissions.authorize, hosts, guard)
        self.tools.seen.update(named.seen)
        brought = brought.joined(named)
        if given.commands:
            from .context.user_commands import attach_commands

            brought = attach_commands(given.commands, self.tools).joined(brought)
        return brought
