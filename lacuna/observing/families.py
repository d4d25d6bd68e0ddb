"""Collects samples into metric families, and renders them as Prometheus or OpenMetrics text.

Rendering ten thousand samples takes a tenth of a second, so a thread does it; the event loop only collects them.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import prometheus_client
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from lacuna.observing.metric import Metric, S

#: After this many samples, other tasks in the event loop get their turn.
_AT_A_TIME: Final = 256


class Families:
    """Metric families by name, in the order in which they were first added."""

    def __init__(self) -> None:
        self._noted: dict[str, tuple[Metric[Any], list[tuple[Any, ...]]]] = {}

    async def add(self, metrics: Iterable[Metric[S]], source: S) -> None:
        """Add the current metrics of `source`. If there are many samples, other tasks run in between."""
        count = 0
        for metric in metrics:
            if samples := metric.read(source):
                _, noted = self._noted.setdefault(metric.name, (metric, []))
                noted += samples
            count += len(samples)
            if count >= _AT_A_TIME:
                count = 0
                await asyncio.sleep(0)

    def collect(self) -> list[prometheus_client.Metric]:
        """Return the families. Any thread may call this once no more samples are added."""
        families: list[prometheus_client.Metric] = []
        for metric, samples in self._noted.values():
            family = metric.family(metric.name, metric.help_text, labels=metric.labels)
            for sample in samples:
                family.add_metric(*sample)
            families.append(family)
        return families


class _Collected(Collector):
    def __init__(self, metrics: Iterable[prometheus_client.Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[prometheus_client.Metric]:
        return self._metrics


def render(metrics: Iterable[prometheus_client.Metric], accept: str) -> tuple[bytes, str]:
    """Return the metrics as text with its content type: OpenMetrics if the Accept header allows it."""
    encode, content_type = choose_encoder(accept)
    return encode(_Collected(metrics)), content_type
