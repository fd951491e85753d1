"""The event bus: whoever follows a session cannot hold or break it."""

from agent_cli.protocol.events import AnyEvent, Notice
from agent_cli.redaction.redactor import Redactor
from agent_cli.session.event_bus import EventBus


def test_one_follower_that_fails_is_given_up_alone() -> None:
    heard: list[int] = []
    asked: list[int] = []

    def fails(event: AnyEvent) -> None:
        asked.append(event.seq)
        raise OSError("disk full")

    bus = EventBus(fails, Redactor(), watchers=(lambda event: heard.append(event.seq),))
    for _ in range(3):
        bus.emit(Notice(level="info", text="hello"))
    assert (asked, heard) == ([1], [1, 2, 3])


def test_followers_are_given_events_with_their_number_and_time_and_without_secrets() -> None:
    heard: list[AnyEvent] = []
    bus = EventBus(None, Redactor({"TOKEN": "s3cret-value-of-mine"}), watchers=(heard.append,))
    bus.emit(Notice(level="info", text="it is s3cret-value-of-mine"))
    (event,) = heard
    assert isinstance(event, Notice) and event.seq == 1 and event.time > 0
    assert "s3cret" not in event.text
