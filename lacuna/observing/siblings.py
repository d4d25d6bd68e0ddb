"""The metrics of several workers that share a port, where any of them returns the metrics of all.

For this purpose, each worker also serves its own metrics on a socket in the supervisor's folder.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

_SECONDS: Final = 2.0
_SUFFIX: Final = ".sock"


class Siblings:
    """The workers whose sockets are in `folder`. `own` is the name of this worker."""

    def __init__(self, folder: Path, own: str) -> None:
        self._folder = folder
        self.own = own

    @property
    def socket(self) -> Path:
        return self._folder / f"{self.own}{_SUFFIX}"

    async def texts(self) -> dict[str, str]:
        """Return the metrics of the other workers by name, omitting workers that take longer than two seconds to
        respond.
        """
        names = sorted(path.stem for path in self._folder.glob(f"*{_SUFFIX}"))
        others = [name for name in names if name != self.own]
        return dict(zip(others, await asyncio.gather(*map(self._ask, others)), strict=True))

    def merged(self, own: Iterable[Metric], texts: Mapping[str, str]) -> list[Metric]:
        """Return the metrics of all workers, each sample labelled with its worker's name. `own` contains those of this
        worker.
        """
        merged: dict[str, Metric] = {}
        _merge(merged, own, self.own)
        for name, text in texts.items():
            _merge(merged, _parsed(text), name)
        return list(merged.values())

    async def _ask(self, name: str) -> str:
        path = str(self._folder / f"{name}{_SUFFIX}")
        try:
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    writer.write(b"GET /metrics HTTP/1.1\r\nHost: worker\r\n\r\n")
                    answer = await reader.read()
                finally:
                    writer.close()
        except (TimeoutError, OSError):
            return (
                ""  # the worker has ended or is too busy, but the others' metrics are still useful
            )
        return answer.partition(b"\r\n\r\n")[2].decode()


def _parsed(text: str) -> Iterable[Metric]:
    metrics: Iterable[Metric] = text_string_to_metric_families(text)
    return metrics


def _merge(merged: dict[str, Metric], metrics: Iterable[Metric], worker: str) -> None:
    for metric in metrics:
        known = merged.setdefault(
            metric.name, Metric(metric.name, metric.documentation, metric.type)
        )
        for sample in metric.samples:
            known.add_sample(sample.name, {**sample.labels, "worker": worker}, sample.value)
