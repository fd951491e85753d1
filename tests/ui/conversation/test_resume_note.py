"""What is offered again after a program has ended in the middle."""

import msgspec

from agent_cli.ui.conversation.resume_note import never_sent
from tests.ui.fake_client import SNAPSHOT


def test_a_prompt_queued_in_the_moment_of_the_end_is_offered_once() -> None:
    now = msgspec.structs.replace(SNAPSHOT, unsent=("and then this",))
    note, text = never_sent(now, ["and then this\n", "something else"])
    assert text == "and then this\n\nsomething else" and len(note.split("\n")) == 2
    note, text = never_sent(now, ["and then this"])
    assert text == "and then this" and "typing" not in note
