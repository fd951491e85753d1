"""Of several causes the first in the documented order decides the exit code."""

from agent_cli.protocol.stop_reason import EXIT_CODES, StopReason, exit_code
from tests.rows import each_row

ORDER = (130, 143, 1, 2, 3, 4, 5, 7, 8, 6)
"""As in `docs/headless.md`."""


@each_row("reason", EXIT_CODES)
@each_row(("denied", "verified"), [(False, None), (True, True), (False, False), (True, False)])
def test_the_first_cause_in_the_order_decides(reason: StopReason, denied: bool, verified: bool | None) -> None:
    causes = {EXIT_CODES[reason], 6 if denied else 0, 8 if verified is False else 0} - {0}
    expected = min(causes, key=ORDER.index, default=0)
    assert exit_code(reason, denied=denied, verified=verified) == expected
