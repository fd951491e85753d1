"""A review: passes, checks, comparison with an earlier one, and what is left when it cannot end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.review.finding import Finding, Review
from agent_cli.review.material import collect
from agent_cli.review.passes import MOST_PASSES, Conversation, Request, ReviewRun, Unanswered
from agent_cli.review.placing import Placer
from tests.review.repository import ANYTHING, ScriptedModel, committed, put, reader, reported

BUGS = (
    "File handle is never closed", "Division by zero for an empty list", "Password is written to the log",
    "SQL built from user input", "Index is off by one", "Lock is not released on error",
    "Exception is swallowed silently", "Cache grows without bound", "Wrong default time zone",
    "Recursion has no end",
)  # fmt: skip
CODE = "".join(f"def f{at}(x):\n    return {at} * x\n\n\n" for at in range(10))
SEEDED = CODE.replace(" * x", " / x")
PLAIN = Request()


def line_of(at: int) -> int:
    return 4 * at + 2


@asynccontextmanager
async def prepared(
    folder: Path, model: ScriptedModel, request: Request = PLAIN, text: str = SEEDED
) -> AsyncIterator[ReviewRun]:
    """Give a review of ten changed functions that has not run yet."""
    work = folder / "work"
    if not work.exists():
        committed(work, {"a.py": CODE})
    put(work, {"a.py": text})
    async with reader(work) as git:
        material = await collect(git, ANYTHING, lambda path: True)
        yield ReviewRun(material, Placer(git, material), model.open, request, lambda line: None)


async def review(folder: Path, model: ScriptedModel, *previous: Finding, **how: Any) -> Review:
    text = how.pop("text", SEEDED)
    async with prepared(folder, model, Request(previous=previous, **how), text) as run:
        await run.run()
        return run.result()


def bug(at: int, **more: Any) -> dict[str, Any]:
    return reported(BUGS[at], line=line_of(at), **more)


def titles(found: Review, *statuses: str) -> set[str]:
    return {each.title for each in found.findings if not statuses or each.status in statuses}


async def test_ten_bugs_are_found_once_each_and_checked(tmp_path: Path) -> None:
    reworded = reported("The file handle is never really closed", line=line_of(0))
    model = ScriptedModel([bug(at) for at in range(6)], [reworded, *(bug(at) for at in range(4, 10))], [bug(9)])
    found = await review(tmp_path, model)
    assert [each.title for each in sorted(found.findings, key=lambda each: each.start_line)] == list(BUGS)
    assert len({each.id for each in found.findings}) == 10
    assert all(each.is_checked and each.in_diff and each.status == "new" for each in found.findings)
    assert len(model.checks) == 10 and model.opened == 11, "each is checked in a conversation of its own"
    assert found.passes == 3 and found.is_complete and found.exit_code == 8


async def test_a_pass_that_brings_nothing_new_is_the_last(tmp_path: Path) -> None:
    model = ScriptedModel([])
    found = await review(tmp_path, model)
    assert (found.passes, found.findings, found.exit_code, len(model.prompts)) == (1, (), 0, 1)
    again = ScriptedModel(*([bug(at)] for at in range(5)))
    assert len((await review(tmp_path, again)).findings) == MOST_PASSES
    assert BUGS[0] in again.prompts[1], "a pass is told what is known"


async def test_refuted_findings_are_kept_apart(tmp_path: Path) -> None:
    found = await review(tmp_path, ScriptedModel([bug(0), bug(1)], refutes=(BUGS[1],)))
    assert titles(found) == {BUGS[0]}
    assert [(each.finding.title, each.reason) for each in found.refuted] == [(BUGS[1], "I read it.")]


async def test_a_check_is_told_what_else_has_changed(tmp_path: Path) -> None:
    committed(tmp_path / "work", {"a.py": CODE, "b.py": "x = 1\n", "c.py": "y = 1\n"})
    put(tmp_path / "work", {"b.py": "x = 2\n"})
    caller = reported("Caller of the removed name", path="c.py", line=1)
    await review(tmp_path, model := ScriptedModel([bug(0), caller]))
    assert [check.partition("Also changed: ")[2].split("\n")[0] for check in model.checks] == [
        "b.py",
        "a.py, b.py",
    ]


async def test_the_gravest_come_first_and_only_as_many_as_asked_for(tmp_path: Path) -> None:
    given = [bug(at, priority=at % 4, confidence=at / 10) for at in range(8)]
    found = await review(tmp_path, model := ScriptedModel(given, refutes=(BUGS[4],)), max_findings=3)
    assert [each.title for each in found.findings] == [BUGS[0], BUGS[5], BUGS[1]]
    assert found.left_out == 4 and len(model.checks) == 4


async def test_alike_findings_in_two_places_have_two_ids(tmp_path: Path) -> None:
    text = SEEDED.replace("def f1(x):\n    return 1 / x", "def f0(x):\n    return 0 / x")
    given = [reported("Division by zero", line=line_of(at)) for at in (0, 1)]
    one = await review(tmp_path, ScriptedModel(given), text=text)
    two = await review(tmp_path, ScriptedModel(given[::-1]), text=text)
    assert len({each.id for each in one.findings}) == 2
    assert {each.id: each.start_line for each in one.findings} == {
        each.id: each.start_line for each in two.findings
    }


# Two reviews, one after the other


async def test_a_second_push_repeats_nothing(tmp_path: Path) -> None:
    first = await review(tmp_path, ScriptedModel([bug(at) for at in range(4)]))
    by_title = {each.title: each for each in first.findings}
    previous = [
        by_title[BUGS[0]],
        by_title[BUGS[1]],
        msgspec.structs.replace(by_title[BUGS[2]], status="dismissed"),
        msgspec.structs.replace(by_title[BUGS[3]], status="fixed"),
    ]
    text = "# moved\n\n" + SEEDED.replace("return 1 / x", "return 1 / x if x else 0")
    model = ScriptedModel(
        [reported(BUGS[0] + " at all", line=line_of(0) + 2), reported(BUGS[2], line=line_of(2) + 2),
         reported(BUGS[7], line=line_of(7) + 2)],
        refutes=(BUGS[1],),
    )  # fmt: skip
    second = await review(tmp_path, model, *previous, text=text)
    statuses = {each.id: each.status for each in second.findings}
    assert [statuses[each.id] for each in previous] == ["still_open", "fixed", "dismissed", "fixed"]
    assert titles(second, "new") == {BUGS[7]}
    assert {each.title for each in second.open_findings} == {BUGS[0] + " at all", BUGS[7]}
    assert len(model.checks) == 3, "what was dismissed is not checked again"
    assert BUGS[1] in model.prompts[0], "the first pass is told what is known"


async def test_a_known_finding_that_no_pass_reports_is_checked_where_its_code_is_now(tmp_path: Path) -> None:
    (earlier,) = (await review(tmp_path, ScriptedModel([bug(5)]))).findings
    found = await review(tmp_path, model := ScriptedModel([]), earlier, text="\n" * 7 + SEEDED)
    (now,) = found.findings
    assert (now.id, now.status, now.start_line) == (earlier.id, "still_open", earlier.start_line + 7)
    assert "An earlier review" in model.checks[0] and found.exit_code == 8


async def test_a_fixed_finding_that_is_reported_again_has_to_be_confirmed(tmp_path: Path) -> None:
    (earlier,) = (await review(tmp_path, ScriptedModel([bug(5)]))).findings
    fixed = msgspec.structs.replace(earlier, status="fixed")
    refuted = await review(tmp_path, model := ScriptedModel([bug(5)], refutes=(BUGS[5],)), fixed)
    assert [each.status for each in refuted.findings] == ["fixed"] and refuted.exit_code == 0
    assert "judged to be fixed" in model.checks[0]
    back = await review(tmp_path, ScriptedModel([bug(5)]), fixed)
    assert [(each.id, each.status) for each in back.findings] == [(earlier.id, "still_open")]


async def test_another_problem_on_the_line_of_a_dismissed_one_is_new(tmp_path: Path) -> None:
    (earlier,) = (await review(tmp_path, ScriptedModel([bug(5)]))).findings
    dismissed = msgspec.structs.replace(earlier, status="dismissed")
    found = await review(tmp_path, ScriptedModel([reported(BUGS[3], line=line_of(5))]), dismissed)
    assert titles(found, "new") == {BUGS[3]} and titles(found, "dismissed") == {BUGS[5]}
    twin = await review(tmp_path, ScriptedModel([reported(BUGS[5], line=line_of(8))]), dismissed)
    assert titles(twin, "new") == {BUGS[5]}, "the same fault in another place was not dismissed"


async def test_a_finding_in_a_file_that_is_gone_is_fixed(tmp_path: Path) -> None:
    (earlier,) = (await review(tmp_path, ScriptedModel([bug(5)]))).findings
    gone = msgspec.structs.replace(earlier, path="gone.py")
    found = await review(tmp_path, model := ScriptedModel([]), gone)
    assert [each.status for each in found.findings] == ["fixed"] and not model.checks


# Reviews that do not come to their end


async def test_a_failed_pass_is_no_clean_review(tmp_path: Path) -> None:
    found = await review(tmp_path, ScriptedModel(Unanswered("provider_error", "no network")))
    assert (found.findings, found.is_complete, found.exit_code, found.error) == ((), False, 4, "no network")


async def test_what_was_found_before_the_budget_ended_is_kept_unchecked(tmp_path: Path) -> None:
    stop = Unanswered("cost_limit", "the budget is spent")
    found = await review(tmp_path, model := ScriptedModel([bug(0), bug(1)], stop))
    assert titles(found) == set(BUGS[:2]) and not any(each.is_checked for each in found.findings)
    assert found.exit_code == 5 and not model.checks


async def test_one_check_without_an_answer_leaves_the_others(tmp_path: Path) -> None:
    model = ScriptedModel([bug(0), bug(1)])
    model.fails[BUGS[0]] = Unanswered("no_answer", "no JSON")
    found = await review(tmp_path, model)
    assert {each.title: each.is_checked for each in found.findings} == {BUGS[0]: False, BUGS[1]: True}
    assert found.exit_code == 7 and len(model.checks) == 2


class _Hanging(ScriptedModel):
    """Never answers a check."""

    def __init__(self, *passes: list[dict[str, Any]]) -> None:
        super().__init__(*passes)
        self.is_checking = asyncio.Event()

    async def ask(self, prompt: str, schema: dict[str, Any]) -> Any:
        if "verdict" in schema["properties"]:
            self.is_checking.set()
            await asyncio.Event().wait()
        return await super().ask(prompt, schema)


async def test_an_interrupted_review_has_what_there_is(tmp_path: Path) -> None:
    (earlier,) = (await review(tmp_path, ScriptedModel([bug(5)]))).findings
    model = _Hanging([bug(0)])
    async with prepared(tmp_path, model, Request(previous=(earlier,))) as run:
        work = asyncio.ensure_future(run.run())
        await model.is_checking.wait()
        work.cancel()
        await asyncio.wait({work})
        found = run.result("interrupted")
    assert {each.title: each.status for each in found.findings} == {BUGS[0]: "new", BUGS[5]: "still_open"}
    assert not any(each.is_checked for each in found.findings)
    assert (found.exit_code, found.is_complete) == (130, False)


async def test_a_review_stopped_at_once_keeps_the_earlier_findings(tmp_path: Path) -> None:
    (earlier,) = (await review(tmp_path, ScriptedModel([bug(5)]))).findings
    async with prepared(tmp_path, ScriptedModel(), Request(previous=(earlier,))) as run:
        found = run.result("terminated")
    assert [each.id for each in found.findings] == [earlier.id] and found.exit_code == 143


async def test_a_file_that_is_too_large_makes_a_review_incomplete(tmp_path: Path) -> None:
    committed(tmp_path / "work", {"a.py": CODE})
    put(tmp_path / "work", {"big.py": "x" * 1_100_000})
    found = await review(tmp_path, ScriptedModel([]))
    assert (found.is_complete, found.exit_code) == (False, 5) and "big.py" in found.error


@pytest.mark.parametrize(("fail_on", "code"), [(0, 0), (1, 0), (2, 8), (3, 8)])
async def test_findings_count_from_a_priority_on(tmp_path: Path, fail_on: int, code: int) -> None:
    found = await review(tmp_path, ScriptedModel([bug(0, priority=2)]))
    assert msgspec.structs.replace(found, fail_on=fail_on).exit_code == code


async def test_a_failure_to_open_a_conversation_is_raised(tmp_path: Path) -> None:
    class Closed(ScriptedModel):
        @asynccontextmanager
        async def open(self) -> AsyncIterator[Conversation]:
            raise LookupError("no model")
            yield self

    async with prepared(tmp_path, Closed()) as run:
        with pytest.raises(LookupError):
            await run.run()
