"""Checkpoints of a sub-agent, for its own turn and for the parent turn it works for, so that undoing the parent
turn also reverts the sub-agent's changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_cli.protocol.events import AnyEvent
from agent_cli.session.session import Session
from agent_cli.session.turn_scope import TurnScope
from agent_cli.workspace.checkpoints.types import Snapshots
from agent_cli.workspace.memory import Memory

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
        memory: Memory,
    ) -> None:
        super().__init__(session, snapshots, emit, memory)
        self._parent = parent
        self._child = child

    @contextmanager
    def effect(self, goes_on: Callable[[], bool]) -> Iterator[None]:
        """Return a context for an effect, which is the parent's too."""
        with self._parent.undo.effect(goes_on), super().effect(goes_on):
            yield

    async def before_effect(self, scope: TurnScope, paths: tuple[str, ...]) -> None:
        """Ensure that its turn and its parent's turn can be undone. Between turns there is no parent turn."""
        agents = self._parent.agents
        is_apart = self._child.workplace is not None  # its changes there are merged, and undone with the merge
        if agents is not None and agents.scope.turn_id and not is_apart:
            await self._parent.undo.before_effect(agents.scope, paths)
        await super().before_effect(scope, paths)
