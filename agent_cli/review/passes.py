"""The review algorithm: find problems in passes until one finds nothing new, check each finding in a separate
conversation, and compare with an earlier review. Independent of the engine: a conversation is an object that
answers questions with data."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import msgspec

from agent_cli.protocol.stop_reason import StopReason

from .finding import Evidence, Finding, Refuted, Review
from .fingerprint import fingerprint, similarity
from .material import Material
from .placing import Placer, ReportedFinding, ReportedVerdict, evidence_of
from .questions import FINDINGS_SCHEMA, VERDICT_SCHEMA, again_prompt, check_prompt, find_prompt

T = TypeVar("T")
MOST_PASSES = 3
_AT_ONCE = 3
"""Maximum number of concurrent conversations."""
_NEAR_LINES = 2
_ALIKE, _VERY_ALIKE = 0.4, 0.75
"""Minimum similarity of the titles of two findings about the same problem: at the same place, or in the same
file."""
_LONGEST_DIFF = 20_000
"""Maximum size of a file's diff in a check, in characters."""
_MOST_OTHERS = 20
"""Maximum number of other changed files that a check names."""
_ENDS_ALL: frozenset[StopReason] = frozenset(
    ("auth_error", "provider_error", "bad_model", "usage_error", "cost_limit", "time_limit", "interrupted",
     "terminated", "internal_error")
)  # fmt: skip
"""Stop reasons after which further conversations are useless."""


class Unanswered(Exception):
    """A conversation gave no usable answer.

    Attributes:
        reason: why it ended.
    """

    def __init__(self, reason: StopReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Conversation(Protocol):
    """A conversation with a model that can read the files."""

    async def ask(self, prompt: str, schema: dict[str, Any]) -> Any:
        """Return the answer to a question, as data that fits the schema.

        Raises:
            Unanswered: there is no usable answer.
        """


OpenConversation = Callable[[], AbstractAsyncContextManager[Conversation]]


class Request(msgspec.Struct, frozen=True):
    """The parameters of a review."""

    instructions: str = ""
    previous: tuple[Finding, ...] = ()
    max_findings: int | None = None


class _Report(msgspec.Struct, frozen=True):
    """The answer of a pass."""

    findings: tuple[ReportedFinding, ...]


class _Candidate(msgspec.Struct, frozen=True):
    """A finding to check, and the matching earlier finding, if any."""

    finding: Finding
    earlier: Finding | None = None


class ReviewRun:
    """A review. `run` may be cancelled; `result` then returns the findings so far."""

    def __init__(
        self,
        material: Material,
        placer: Placer,
        open_conversation: OpenConversation,
        request: Request,
        say: Callable[[str], None],
    ) -> None:
        """`say` receives progress messages, one line each."""
        self._material = material
        self._placer = placer
        self._open = open_conversation
        self._request = request
        self._say = say
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._found: list[Finding] = []
        """Findings that are not checked yet."""
        self._done: list[Finding] = []
        self._refuted: list[Refuted] = []
        self._earlier = list(request.previous)
        """Findings of the earlier review, at the present positions of their code."""
        self._located: set[str] = set()
        """Ids of earlier findings whose code was found."""
        self._waiting: list[_Candidate] = []
        self._unanswered: list[_Candidate] = []
        self._is_compared = False
        self._left_out = 0
        self._passes = 0
        self._stop: Unanswered | None = None

    async def run(self) -> None:
        """Find, compare and check."""
        renamed = {each.old_path: each.path for each in self._material.files if not each.is_deleted}
        self._earlier = [await self._moved(each, renamed) for each in self._request.previous]
        await self._in_slots(self._find_in(part) for part in range(len(self._material.parts)))
        self._waiting = self._compared()
        await self._check_all()

    def result(self, stopped: StopReason | None = None) -> Review:
        """Return the findings so far; `stopped` is the reason if `run` was stopped."""
        if not self._is_compared:
            self._waiting = self._compared()
        waiting = [_still_unknown(each) for each in (*self._waiting, *self._unanswered)]
        reason: StopReason = "end_turn" if self._stop is None else self._stop.reason
        error = "" if self._stop is None else str(self._stop)
        if stopped is not None:
            reason, error = stopped, "it was stopped before its end"
        gaps = [each.path for each in self._material.omitted if each.is_gap]
        if reason == "end_turn" and gaps:
            reason, error = (
                "context_limit",
                f"not all of the change was reviewed: {gaps[0]} and {len(gaps) - 1} more",
            )
            error = error.removesuffix(" and 0 more")
        return Review(
            target=self._material.target,
            findings=_numbered(sorted((*self._done, *waiting), key=_importance)),
            refuted=tuple(self._refuted),
            files=tuple(each.path for each in self._material.files),
            omitted=self._material.omitted,
            left_out=self._left_out,
            stop_reason=reason,
            error=error,
            passes=self._passes,
        )

    async def _in_slots(self, tasks: Iterable[Awaitable[None]]) -> None:
        """Run tasks with limited concurrency; all have ended on return."""

        async def one(task: Awaitable[None]) -> None:
            async with self._slots:
                await task

        running = [asyncio.ensure_future(one(task)) for task in tasks]
        try:
            await asyncio.gather(*running)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _find_in(self, part: int) -> None:
        """Find problems in a part of the diff, until a pass finds nothing new."""
        known = [each for each in self._earlier if each.status != "fixed"]
        prompt = find_prompt(self._material, part, self._request.instructions, known)
        try:
            async with self._open() as conversation:
                for number in range(1, MOST_PASSES + 1):
                    answer = await conversation.ask(prompt, FINDINGS_SCHEMA)
                    self._passes = max(self._passes, number)
                    new = await self._added(answer)
                    self._say(f"pass {number}: {new} new")
                    if not new:
                        break
                    prompt = again_prompt((*known, *self._found))
        except Unanswered as stop:
            self._note(stop)

    async def _added(self, answer: Any) -> int:
        """Add the reported findings; return the number of new ones."""
        new = 0
        for given in _read(answer, _Report).findings:
            finding = await self._placer.placed(given)
            twin = next((each for each in self._found if _is_same(each, finding)), None)
            if twin is None:
                self._found.append(finding)
                new += 1
            elif _importance(finding) < _importance(twin):
                self._found[self._found.index(twin)] = finding
        return new

    def _note(self, stop: Unanswered) -> None:
        if self._stop is None or (stop.reason in _ENDS_ALL and not self._is_over):
            self._stop = stop

    @property
    def _is_over(self) -> bool:
        return self._stop is not None and self._stop.reason in _ENDS_ALL

    async def _moved(self, earlier: Finding, renamed: Mapping[str, str]) -> Finding:
        await asyncio.sleep(0)  # searching is slow: let a limit or a signal act in between
        found, is_same = await self._placer.moved(earlier, renamed.get(earlier.path, earlier.path))
        if is_same:
            self._located.add(found.id)
        return found

    def _compared(self) -> list[_Candidate]:
        """Return the candidates to check, most severe first. Dismissed earlier findings are kept, found again or
        not, and so are fixed ones that were not found again."""
        left, candidates = list(self._earlier), []
        for finding in sorted(self._found, key=_importance):
            twin = max(
                (each for each in left if self._is_known(each, finding)),
                key=lambda each: similarity(each.title, finding.title),
                default=None,
            )
            if twin is None:
                candidates.append(_Candidate(finding))
                continue
            left.remove(twin)
            if twin.status == "dismissed":
                self._done.append(twin)
            else:
                candidates.append(_Candidate(msgspec.structs.replace(finding, id=twin.id), twin))
        for each in left:
            if each.is_open:
                candidates.append(_Candidate(each, each))
            else:
                self._done.append(each)
        self._is_compared = True
        return sorted(candidates, key=lambda each: _importance(each.finding))

    def _is_known(self, earlier: Finding, finding: Finding) -> bool:
        """Return True if a finding matches one of an earlier review, reworded or moved. If the earlier code is
        unchanged, both must be about the same lines."""
        if earlier.path != finding.path:
            return False
        alike = similarity(earlier.title, finding.title)
        if _overlap(earlier, finding) and (alike >= _ALIKE or earlier.id == finding.id):
            return True
        return earlier.id not in self._located and alike >= _VERY_ALIKE

    async def _check_all(self) -> None:
        """Check until all findings are checked, or the requested number is confirmed."""
        most = self._request.max_findings
        while self._waiting and not self._is_over:
            confirmed = sum(each.is_open for each in self._done)
            if most is not None and confirmed >= most:
                self._left_out = len(self._waiting)
                self._waiting = []
                break
            batch = self._waiting[: None if most is None else most - confirmed]
            await self._in_slots([self._check(each) for each in batch])

    async def _check(self, candidate: _Candidate) -> None:
        """Check a finding. Without an answer it stays unchecked."""
        if self._is_over:
            return
        finding, earlier = candidate.finding, candidate.earlier
        lines = await self._placer.lines(finding.side, finding.path)
        change = self._material.diff_of(finding.path)
        if earlier is not None and not lines and finding is earlier:
            self._settle(candidate, msgspec.structs.replace(finding, status="fixed", is_checked=True))
            return
        prompt = check_prompt(
            finding,
            lines,
            change.text[:_LONGEST_DIFF] if change else "",
            [each.path for each in self._material.files if each is not change][:_MOST_OTHERS],
            is_earlier=earlier is finding,
            was_fixed=earlier is not None and earlier.status == "fixed",
        )
        try:
            async with self._open() as conversation:
                verdict = _read(await conversation.ask(prompt, VERDICT_SCHEMA), ReportedVerdict)
        except Unanswered as stop:
            self._note(stop)
            self._waiting.remove(candidate)
            self._unanswered.append(candidate)
            return
        self._judged(candidate, verdict)

    def _judged(self, candidate: _Candidate, verdict: ReportedVerdict) -> None:
        finding, earlier = candidate.finding, candidate.earlier
        self._say(f"{verdict.verdict}: {finding.path}:{finding.lines}: {finding.title}")
        if verdict.verdict == "confirmed":
            evidence = tuple(dict.fromkeys((*finding.evidence, *evidence_of(verdict.evidence))))
            status = "new" if earlier is None else "still_open"
            self._settle(
                candidate,
                msgspec.structs.replace(finding, evidence=evidence, status=status, is_checked=True),
            )
        elif earlier is not None:
            self._settle(candidate, msgspec.structs.replace(earlier, status="fixed", is_checked=True))
        else:
            self._waiting.remove(candidate)
            reason = evidence_of((Evidence("code", verdict.reason),))[0].text
            self._refuted.append(Refuted(msgspec.structs.replace(finding, is_checked=True), reason))

    def _settle(self, candidate: _Candidate, finding: Finding) -> None:
        self._waiting.remove(candidate)
        self._done.append(finding)


def _read(answer: Any, shape: type[T]) -> T:
    """Convert an answer to a value."""
    try:
        return msgspec.convert(answer, shape, strict=False)
    except msgspec.ValidationError as error:
        raise Unanswered("no_answer", f"the model did not answer in the required format: {error}") from error


def _importance(finding: Finding) -> tuple[int, float, str, int]:
    return (finding.priority, -finding.confidence, finding.path, finding.start_line)


def _is_same(one: Finding, other: Finding) -> bool:
    """Return True if two findings of a review are about the same problem."""
    if one.path != other.path:
        return False
    if one.id == other.id:
        return _overlap(one, other)
    return _overlap(one, other) and similarity(one.title, other.title) >= _ALIKE


def _overlap(one: Finding, other: Finding) -> bool:
    return (
        one.side == other.side
        and one.start_line <= other.end_line + _NEAR_LINES
        and other.start_line <= one.end_line + _NEAR_LINES
    )


def _still_unknown(candidate: _Candidate) -> Finding:
    """Return a finding that was not checked."""
    status = "new" if candidate.earlier is None else "still_open"
    return msgspec.structs.replace(candidate.finding, status=status, is_checked=False)


def _numbered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Make the ids of findings unique: of several with the same title and code, all but the first get an id that
    includes their number, in line order."""
    taken: dict[str, int] = {}
    ids: dict[int, str] = {}
    for each in sorted(findings, key=lambda each: (each.path, each.start_line)):
        nth = taken.get(each.id, 0)
        taken[each.id] = nth + 1
        ids[id(each)] = fingerprint(each.id, each.path, (), 0, 0, nth) if nth else each.id
    return tuple(msgspec.structs.replace(each, id=ids[id(each)]) for each in findings)
