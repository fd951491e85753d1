"""Compare two runs of the same tasks, task by task. Pure."""

import msgspec

from .statistics import mean, sign_test
from .summary import Share, Summary, TaskRow


class Pair(msgspec.Struct, frozen=True):
    """A task with a valid outcome in both runs: the share of solved attempts in each."""

    id: str
    before: float
    after: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two runs."""

    before: Share
    after: Share
    """pass@1 of each run over its own valid tasks."""
    names: tuple[str, str]
    pairs: tuple[Pair, ...]
    difference: float | None
    """Mean difference over the pairs."""
    better: int
    worse: int
    p_value: float
    """McNemar's exact test; with several attempts per task, the sign test on the shares."""
    unpaired: tuple[str, ...]
    """Tasks with a valid outcome in only one run."""
    cost_before_usd: float | None
    cost_after_usd: float | None
    notes: tuple[str, ...]

    @property
    def changed(self) -> tuple[Pair, ...]:
        """The tasks that differ."""
        return tuple(pair for pair in self.pairs if pair.before != pair.after)

    @property
    def is_significant(self) -> bool:
        """True if chance alone produces such a difference less than once in 20 times."""
        return self.p_value < 0.05


def compare(before: Summary, after: Summary, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """Return the differences of the second run from the first."""
    old, new = _graded(before), _graded(after)
    pairs = tuple(Pair(name, _solved(old[name]), _solved(new[name])) for name in sorted(old.keys() & new.keys()))
    better = sum(pair.after > pair.before for pair in pairs)
    worse = sum(pair.after < pair.before for pair in pairs)
    return Comparison(
        before=before.valid,
        after=after.valid,
        names=names,
        pairs=pairs,
        difference=mean(pair.after - pair.before for pair in pairs),
        better=better,
        worse=worse,
        p_value=sign_test(better, worse),
        unpaired=tuple(sorted(old.keys() ^ new.keys())),
        cost_before_usd=before.cost.total_usd,
        cost_after_usd=after.cost.total_usd,
        notes=tuple(_notes(before, after)),
    )


def _graded(summary: Summary) -> dict[str, TaskRow]:
    return {row.id: row for row in summary.rows if row.graded}


def _solved(row: TaskRow) -> float:
    return row.solved / row.graded


def _notes(before: Summary, after: Summary) -> list[str]:
    """Return the recorded facts that differ: the comparison measures their joint effect."""
    names = [name for name in before.about if name in after.about and before.about[name] != after.about[name]]
    return [f"{name}: {before.about[name]} → {after.about[name]}" for name in names]
