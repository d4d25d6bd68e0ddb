"""Repeated compaction, with a pause between runs."""

import time
from collections.abc import Callable, Iterator, Sequence

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.pipeline.compaction.job import Compaction
from lacuna.pipeline.compaction.report import CompactionReport
from lacuna.pipeline.errors import StaleMetadataError


def watch(
    compaction: Compaction,
    topics: Sequence[str],
    interval: float,
    on_outage: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[CompactionReport]:
    """Runs a compaction repeatedly and yields each report, with a pause of `interval` seconds between two runs.

    If the control plane is unreachable in a later run, even for so long that the run loses its lease, `on_outage` gets
    the message and the next run begins after the pause. Errors of the first run, and all others, are raised as by
    `Compaction.run`.
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
