"""What is painted before the line editor is loaded, and of which sessions."""

import msgspec

from agent_cli.protocol.usage import Totals
from agent_cli.ui.repl.first_paint import FirstPaint
from agent_cli.ui.text.theme import NONE
from tests.ui.fake_client import SNAPSHOT

NEW = msgspec.structs.replace(SNAPSHOT, turns=0, totals=Totals(), unsent=())


def test_a_new_session_is_painted() -> None:
    assert "/help for commands" in FirstPaint(NONE, NEW, "").banner


def test_a_session_that_goes_on_is_not_also_where_all_its_turns_are_undone() -> None:
    for went_on in ({"turns": 1}, {"totals": Totals(requests=2)}, {"unsent": ("never sent",)}):
        assert FirstPaint(NONE, msgspec.structs.replace(NEW, **went_on), "").banner == ""
