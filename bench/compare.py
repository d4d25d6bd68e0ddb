"""Finds figures that have become worse since an earlier run, by more than noise can explain."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.figures import Better, Figure, Spread
from bench.results import Results

TOLERANCE = 0.10
YARDSTICK = "kafka"


@dataclass(frozen=True, slots=True)
class Change:
    """A figure that has become worse, with its medians then and now."""

    work: str
    target: str
    figure: Figure
    before: float
    now: float

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.work}: {self.figure.name} {self.before:,.4g} -> {self.now:,.4g}"
        )


def worse(before: Results, now: Results) -> Iterator[Change]:
    """Yields Lacuna's figures that are more than a tenth worse, unless the range of their runs overlaps the earlier
    range.

    Rows that are mostly noise are skipped. If Kafka did the same work both times, the ratio to Kafka must also be worse
    by more than a tenth, because the machine itself may have become slower.
    """
    for rows in now.sections.values():
        for row in rows:
            earlier = before.row(row.work, row.target)
            if not row.target.startswith("lacuna") or earlier is None:
                continue
            if row.is_noise or earlier.is_noise:
                continue
            for figure, spread in row.spreads().items():
                then = before.spread(row.work, row.target, figure)
                if then is None or _loss(figure, then.median, spread.median) <= TOLERANCE:
                    continue
                if _overlap(then, spread) or _machine_explains(
                    before, now, row.work, figure, row.target
                ):
                    continue
                yield Change(row.work, row.target, figure, then.median, spread.median)


def _loss(figure: Figure, before: float, now: float) -> float:
    """Returns how much worse `now` is than `before` (0.1 is a tenth), or 0 if they cannot be compared."""
    if figure.better is Better.NEITHER or before <= 0 or now <= 0:
        return 0.0
    return before / now - 1 if figure.better is Better.MORE else now / before - 1


def _overlap(one: Spread, other: Spread) -> bool:
    return one.least <= other.most and other.least <= one.most


def _machine_explains(
    before: Results, now: Results, work: str, figure: Figure, target: str
) -> bool:
    yardsticks = [results.median(work, YARDSTICK, figure) for results in (before, now)]
    medians = [results.median(work, target, figure) for results in (before, now)]
    ratios = [
        median / yardstick
        for median, yardstick in zip(medians, yardsticks, strict=True)
        if median and yardstick
    ]
    return len(ratios) == 2 and _loss(figure, ratios[0], ratios[1]) <= TOLERANCE
