"""Collects samples into metric families, and renders them as Prometheus or OpenMetrics text.

Samples are added in the event loop, where the numbers are, and only noted there: making text of ten thousand of them
takes a tenth of a second, for which a thread is used.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


@dataclass(slots=True)
class _Noted:
    """A family, and what `add_metric` of its class is to be called with."""

    make: type[Any]
    help_text: str
    labels: list[str]
    samples: list[tuple[Any, ...]] = field(default_factory=list)


class Families:
    """Metric families by name, in the order in which they were first added."""

    def __init__(self) -> None:
        self._noted: dict[str, _Noted] = {}

    def counter(self, name: str, help_text: str, value: float, **labels: str) -> None:
        """Add a sample of a counter; `name` is without `_total`."""
        self._note(CounterMetricFamily, name, help_text, labels, value)

    def gauge(self, name: str, help_text: str, value: float, **labels: str) -> None:
        """Add a sample of a gauge."""
        self._note(GaugeMetricFamily, name, help_text, labels, value)

    def info(self, name: str, help_text: str, values: Mapping[str, str]) -> None:
        """Add what never changes while the process runs, as labels of a metric that is always 1."""
        self._note(InfoMetricFamily, name, help_text, {}, dict(values))

    def histogram(
        self,
        name: str,
        help_text: str,
        bounds: Sequence[float],
        counts: Sequence[int],
        total: float,
        **labels: str,
    ) -> None:
        """Add a histogram: `counts` for each bucket, one more than `bounds`, and the sum of all that was observed."""
        buckets: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
            so_far += count
            buckets.append((bound, so_far))
        self._note(HistogramMetricFamily, name, help_text, labels, buckets, total)

    def _note(
        self, make: type[Any], name: str, help_text: str, labels: Mapping[str, str], *value: object
    ) -> None:
        noted = self._noted.get(name)
        if noted is None:
            noted = self._noted[name] = _Noted(make, help_text, [*labels])
        noted.samples.append(([*labels.values()], *value))

    def collect(self) -> list[Metric]:
        """Return the families. Any thread may call it, once nothing more is added."""
        made: list[Metric] = []
        for name, noted in self._noted.items():
            family = noted.make(name, noted.help_text, labels=noted.labels)
            for sample in noted.samples:
                family.add_metric(*sample)
            made.append(family)
        return made


class _Collected(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def render(metrics: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """Return the text of metrics and its content type: OpenMetrics if the Accept header asks for it."""
    encode, content_type = choose_encoder(accept)
    return encode(_Collected(metrics)), content_type
