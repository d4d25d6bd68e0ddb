"""Collects samples into metric families, and renders them as Prometheus or OpenMetrics text."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | InfoMetricFamily


class Families:
    """Metric families by name, in the order in which they were first added."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def counter(self, name: str, help_text: str, value: float, **labels: str) -> None:
        """Add a sample of a counter; `name` is without `_total`."""
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = CounterMetricFamily(name, help_text, labels=[*labels])
        assert isinstance(family, CounterMetricFamily)
        family.add_metric([*labels.values()], value)

    def gauge(self, name: str, help_text: str, value: float, **labels: str) -> None:
        """Add a sample of a gauge."""
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = GaugeMetricFamily(name, help_text, labels=[*labels])
        assert isinstance(family, GaugeMetricFamily)
        family.add_metric([*labels.values()], value)

    def info(self, name: str, help_text: str, values: Mapping[str, str]) -> None:
        """Add what never changes while the process runs, as labels of a metric that is always 1."""
        family = InfoMetricFamily(name, help_text)
        family.add_metric([], dict(values))
        self._families[name] = family

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
        family = self._families.get(name)
        if family is None:
            family = HistogramMetricFamily(name, help_text, labels=[*labels])
            self._families[name] = family
        assert isinstance(family, HistogramMetricFamily)
        buckets: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
            so_far += count
            buckets.append((bound, so_far))
        family.add_metric([*labels.values()], buckets, total)

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families.values()


class _Collected(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def render(metrics: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """Return the text of metrics and its content type: OpenMetrics if the Accept header asks for it."""
    encode, content_type = choose_encoder(accept)
    return encode(_Collected(metrics)), content_type
