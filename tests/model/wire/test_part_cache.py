"""Parts of a request that are kept for the next one."""

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.model.wire.part_cache import PartCache
from agent_cli.protocol.messages import UserMessage

POOL = [UserMessage(id=str(number), text="x" * (number % 3)) for number in range(6)]
REQUESTS = st.lists(st.tuples(st.lists(st.sampled_from(POOL), max_size=8), st.booleans()), max_size=8)


@given(REQUESTS)
def test_parts_are_those_of_the_items_whatever_was_asked_before(
    requests: list[tuple[list[UserMessage], bool]],
) -> None:
    kept: PartCache[UserMessage, str] = PartCache()
    for items, upper in requests:
        found = kept.of(items, upper, lambda item, upper=upper: f"{item.id}{upper}")  # type: ignore[misc]
        assert found == [f"{item.id}{upper}" for item in items]


def test_an_item_is_written_once_while_it_is_sent() -> None:
    kept: PartCache[UserMessage, str] = PartCache()
    written: list[str] = []

    def write(item: UserMessage) -> str:
        written.append(item.id)
        return item.id

    kept.of(POOL[:2], 1, write)
    kept.of(POOL[:3], 1, write)
    kept.of([POOL[1], POOL[2], POOL[3]], 1, write)
    assert written == ["0", "1", "2", "3"]
    kept.of(POOL[:1], 1, write)
    kept.of(POOL[:2], 2, write)
    assert written == ["0", "1", "2", "3", "0", "0", "1"], "what is no longer sent, or is sent otherwise"


def test_a_caller_may_change_its_list() -> None:
    kept: PartCache[UserMessage, str] = PartCache()
    kept.of(POOL[:1], 1, lambda item: item.id).append("mark")
    assert kept.of(POOL[:2], 1, lambda item: item.id) == ["0", "1"]
