"""From --data, --control and --store to the cluster that a job works on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lacuna.control import DEFAULT_DATA

if TYPE_CHECKING:
    from pipeline.location import ClusterLocation


def locate(
    data: Path | None, control: str | None, store: str | None, *, needs_control: bool = True
) -> ClusterLocation:
    """The cluster that the options name; that on ./data where they name none.

    Raises PipelineError with what to say instead.
    """
    from pipeline.location import find_cluster

    folder = data if data or control or store else DEFAULT_DATA
    return find_cluster(
        data=str(folder) if folder else None,
        control=control,
        store=store,
        needs_control=needs_control,
    )
