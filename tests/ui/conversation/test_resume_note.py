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


def test_an_image_that_is_not_restored_with_its_text_is_named() -> None:
    now = msgspec.structs.replace(SNAPSHOT, unsent=("look at [image 1] and [image 1]",))
    note, text = never_sent(now, ["or at [image 2]"])
    assert text == "look at [image 1] and [image 1]\n\nor at [image 2]"
    assert note.endswith(
        "\nThe image is not saved with the text: paste it again in place of [image 1], [image 2]."
    )
    assert "image" not in never_sent(SNAPSHOT, ["or at image 2"])[0]
