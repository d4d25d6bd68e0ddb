"""Metrics as rows: kind, name, help text, labels, and a function that reads the value from an object.

    METRICS: Final[tuple[Metric[Agent], ...]] = (
        gauge("lacuna_connections", "Connections of clients.", lambda agent: agent.metrics.connections_now),
        counters(
            "lacuna_connections_closed",
            "Connections that the agent closed.",
            ("reason",),
            lambda agent: (("idle", agent.metrics.idle), ("malformed", agent.metrics.malformed)),
        ),
    )

Both a process's metrics and docs/metrics.md are generated from the rows. A test checks that every metric named in
deploy/prometheus and deploy/grafana has a row.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Generic, TypeAlias, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

S = TypeVar("S")

#: The values of the labels, followed by the metric's value.
Samples: TypeAlias = Iterable[tuple[*tuple[str, ...], float]]


@dataclass(frozen=True, slots=True)
class Metric(Generic[S]):
    """A metric of an object of type S. `name` lacks the suffix that the class `family` adds.

    `read` returns the arguments of the family's `add_metric`. It must not change anything or block.
    """

    family: type[Any]
    name: str
    help_text: str
    labels: tuple[str, ...]
    read: Callable[[S], list[tuple[Any, ...]]]

    @property
    def shown_name(self) -> str:
        return self.name + _SUFFIXES.get(self.family, "")

    @property
    def type(self) -> str:
        """The metric's type in Prometheus. An info metric counts as a gauge."""
        return "gauge" if self.family is InfoMetricFamily else str(self.family(self.name, "").type)


_SUFFIXES: Final = {CounterMetricFamily: "_total", InfoMetricFamily: "_info"}


def gauge(name: str, help_text: str, value: Callable[[S], float]) -> Metric[S]:
    return Metric(GaugeMetricFamily, name, help_text, (), lambda source: [((), value(source))])


def counter(name: str, help_text: str, value: Callable[[S], float]) -> Metric[S]:
    return Metric(CounterMetricFamily, name, help_text, (), lambda source: [((), value(source))])


def gauges(
    name: str, help_text: str, labels: tuple[str, ...], samples: Callable[[S], Samples]
) -> Metric[S]:
    return Metric(
        GaugeMetricFamily, name, help_text, labels, lambda source: _split(samples(source))
    )


def counters(
    name: str, help_text: str, labels: tuple[str, ...], samples: Callable[[S], Samples]
) -> Metric[S]:
    return Metric(
        CounterMetricFamily, name, help_text, labels, lambda source: _split(samples(source))
    )


def info(
    name: str, help_text: str, labels: tuple[str, ...], values: Callable[[S], Sequence[str]]
) -> Metric[S]:
    """Return an info metric, whose value is always 1 and whose labels are fixed while the process runs."""

    def read(source: S) -> list[tuple[Any, ...]]:
        return [(values(source), {})]

    return Metric(InfoMetricFamily, name, help_text, labels, read)


def histograms(
    name: str,
    help_text: str,
    labels: tuple[str, ...],
    bounds: Sequence[float],
    samples: Callable[[S], Iterable[tuple[tuple[str, ...], Sequence[int], float]]],
) -> Metric[S]:
    """Return a histogram with labels.

    A sample contains the values of the labels, the counts of all buckets (one more than there are `bounds`), and the
    sum of all observed values.
    """
    ends = (*map(str, bounds), "+Inf")

    def read(source: S) -> list[tuple[Any, ...]]:
        return [
            (values, list(zip(ends, accumulate(counts), strict=True)), total)
            for values, counts, total in samples(source)
        ]

    return Metric(HistogramMetricFamily, name, help_text, labels, read)


def _split(samples: Samples) -> list[tuple[Any, ...]]:
    return [(each[:-1], each[-1]) for each in samples]
