"""Events that wait for a slow reader."""

import msgspec

from agent_cli.fleet.engines.queueing import EventQueue
from agent_cli.fleet.job import EngineEvent, Lost, Progress, Started


def progress(key: str, type: str, number: int = 0) -> Progress:
    return Progress(key, msgspec.Raw(msgspec.json.encode({"type": type, "number": number})))


async def read(queue: EventQueue) -> list[EngineEvent]:
    queue.close()
    return [event async for event in queue.read()]


async def test_of_progress_the_newest_waits_for_each_job() -> None:
    queue = EventQueue()
    started, lost = Started("a", "host", 1, "1.0"), Lost("a", "gone")
    queue.put(started)
    for number in range(1000):
        queue.put(progress("a", "text_delta", number))
        queue.put(progress("b", "text_delta", number))
    queue.put(lost)
    newest = [progress("a", "text_delta", 999), progress("b", "text_delta", 999)]
    assert await read(queue) == [started, *newest, lost]


async def test_every_retry_waits_and_progress_after_it_comes_after_it() -> None:
    queue = EventQueue()
    retries = [progress("a", "retry_scheduled", number) for number in (1, 2)]
    for event in (progress("a", "text_delta", 1), *retries, progress("a", "text_delta", 2)):
        queue.put(event)
    assert await read(queue) == [*retries, progress("a", "text_delta", 2)]
