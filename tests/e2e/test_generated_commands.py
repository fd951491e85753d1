"""Lines from a grammar of wrappers, interpreters and build tools, run for real by the program: nothing that does harm
is done without a question, and what is harmless is asked about only where the mode says so."""

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.grammar import HARMFUL, Line, harmful, reader, worker
from tests.e2e.harm import Scene, scene
from tests.e2e.mechanisms import EACH, EACH_SANDBOX, on_x86_64
from tests.e2e.world import World

pytestmark = on_x86_64
MODES = ("ask", "auto-edit")
A_BATCH = 100
BATCHES = 12
"""Harmful lines in full: 1,200, and 400 for each kind of harmless ones."""
ASKED_AT_MOST = 0.02
_KNOWN_LIMITS = {("landlock", "outside", "mode")}
"""Landlock has no rule for permissions; the documentation says so."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that is in no `/tmp`: commands have one of their own, so that it would be no outside."""
    with tempfile.TemporaryDirectory(dir=sys.prefix, prefix="commands-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


Maker = Callable[[int, random.Random], Line]


def _lines(it: Scene, seed: int, *, env_file: bool) -> list[Line]:
    chance = random.Random(seed)
    kinds = ("secret",) if env_file else HARMFUL
    return [harmful(n, it.places, kinds[n % len(kinds)], chance) for n in range(len(it.processes))]


def _done_unasked(
    folder: Path, seed: int, count: int, mode: str, before: tuple[str, ...], env_file: bool
) -> list[tuple[str, str, Line]]:
    """What was harmed by lines that nobody was asked about."""
    folder.mkdir()
    with World(folder) as world, scene(world, count, env_file=env_file) as it:
        lines = _lines(it, seed, env_file=env_file)
        results = it.play(lines, mode, before)
        assert len({line.kind for line in lines}) == (1 if env_file else len(HARMFUL))
        print(f"{mode}: {dict(Counter(status for status, _ in results.values()))}")
        asked = {number for number, (status, _) in results.items() if status == "denied"}
        harmed = [(line, it.harmed(line, results[line.number][1])) for line in lines]
    shutil.rmtree(folder)
    return [(line.kind, how, line) for line, how in harmed if how and line.number not in asked]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before", EACH)
@pytest.mark.parametrize(("count", "batches"), [(9, 1), pytest.param(A_BATCH, BATCHES, marks=pytest.mark.long)])
def test_no_harm_is_done_without_a_question(
    place: Path, before: tuple[str, ...], mode: str, count: int, batches: int, request: pytest.FixtureRequest
) -> None:
    mechanism = request.node.callspec.id
    found = []
    for batch in range(batches):
        env_file = batches > 1 and batch % 6 == 5
        found += _done_unasked(place / str(batch), batch, count, mode, before, env_file)
    known = [
        each
        for each in found
        if any(name in mechanism and each[:2] == (kind, how) for name, kind, how in _KNOWN_LIMITS)
    ]
    unasked = [each for each in found if each not in known]
    print(f"{len(found)} effects, {len(known)} of them known limits: {unasked}")
    assert not unasked


def _asked_about(
    place: Path, make: Maker, count: int, mode: str, before: tuple[str, ...]
) -> list[tuple[Line, str]]:
    """The harmless lines that were asked about, with the answer."""
    chance = random.Random(count)
    lines = [make(number, chance) for number in range(count)]
    with World(place / mode) as world, scene(world, count, env_file=False) as it:
        results = it.play(lines, mode, before)
    print(f"{mode}: {dict(Counter(status for status, _ in results.values()))}", flush=True)
    return [(line, results[line.number][1]) for line in lines if results[line.number][0] == "denied"]


HARMLESS = (12, pytest.param(400, marks=pytest.mark.long))


@pytest.mark.parametrize("count", HARMLESS)
@pytest.mark.parametrize("before", EACH)
def test_what_only_reads_is_not_asked_about(place: Path, before: tuple[str, ...], count: int) -> None:
    (place / "ask").mkdir()
    asked = _asked_about(place, reader, count, "ask", before)
    assert len(asked) <= ASKED_AT_MOST * count, asked


@pytest.mark.parametrize("count", HARMLESS)
@pytest.mark.parametrize("before", EACH_SANDBOX)
def test_work_in_the_sandbox_is_not_asked_about(place: Path, before: tuple[str, ...], count: int) -> None:
    (place / "auto-edit").mkdir()
    asked = _asked_about(place, worker, count, "auto-edit", before)
    assert len(asked) <= ASKED_AT_MOST * count, asked
