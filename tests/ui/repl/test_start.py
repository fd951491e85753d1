"""What the interactive loop does about memory."""

import gc
import weakref

from agent_cli.ui.repl.start import let_go


class Ended:
    """Part of a session that has ended: it refers to itself."""

    def __init__(self) -> None:
        self.own = self


def test_a_session_that_has_ended_is_freed_although_the_first_was_excluded_from_collections() -> None:
    gc.disable()
    try:
        gone = [weakref.ref(Ended())]
        gc.freeze()
        let_go(is_first=True)
        assert gone[0]() is None and gc.get_freeze_count()
        gone.append(weakref.ref(Ended()))
        let_go(is_first=False)
        assert gone[1]() is None
    finally:
        gc.unfreeze()
        gc.enable()
