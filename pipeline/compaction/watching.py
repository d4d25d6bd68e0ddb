"""Compaction that goes on: a run, a pause, a run."""

import time
from collections.abc import Callable, Iterator, Sequence

from controlplane.client import ControlPlaneUnavailable
from pipeline.compaction.job import Compaction
from pipeline.compaction.report import CompactionReport
from pipeline.errors import StaleMetadataError


def watch(
    compaction: Compaction,
    topics: Sequence[str],
    interval: float,
    on_outage: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[CompactionReport]:
    """The report of each run, `interval` seconds between the end of one and the beginning of the next.

    A control plane that is away behind the first run, be it for longer than a run keeps its lease, is told
    to `on_outage`, and the next run begins after the pause; everything else is raised as by `Compaction.run`.
    """
    yield compaction.run(topics)
    while True:
        sleep(interval)
        try:
            report = compaction.run(topics)
        except (ControlPlaneUnavailable, StaleMetadataError) as error:
            on_outage(str(error))
            continue
        yield report
