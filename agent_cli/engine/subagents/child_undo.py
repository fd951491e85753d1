"""Checkpoints of a sub-agent: its own, and those of the turn that it works for, so that undoing that turn takes
back what it changed as well."""

from collections.abc import Callable

from agent_cli.protocol.events import AnyEvent
from agent_cli.session.session import Session
from agent_cli.session.turn_scope import TurnScope
from agent_cli.workspace.checkpoints.types import Snapshots

from ..services import SessionServices
from ..undo.turn_undo import TurnUndo
from .child import Child


class ChildUndo(TurnUndo):
    """The checkpoints of one sub-agent's session."""

    def __init__(
        self,
        session: Session,
        snapshots: Callable[[], Snapshots],
        emit: Callable[[AnyEvent], None],
        parent: SessionServices,
        child: Child,
    ) -> None:
        super().__init__(session, snapshots, emit)
        self._parent = parent
        self._child = child

    async def before_effect(self, scope: TurnScope, paths: tuple[str, ...]) -> None:
        """Make sure that its turn and that of its parent can be undone; between turns the parent has none."""
        agents = self._parent.agents
        is_apart = self._child.workplace is not None  # what it changes there is merged, and undone then
        if agents is not None and agents.scope.turn_id and not is_apart:
            await self._parent.undo.before_effect(agents.scope, paths)
        await super().before_effect(scope, paths)
