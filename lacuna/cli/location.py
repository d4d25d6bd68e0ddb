"""Finds the cluster that a job works on from --data, --control and --store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lacuna.operating.control import DEFAULT_DATA

if TYPE_CHECKING:
    from lacuna.controlplane.client import ControlPlace
    from lacuna.pipeline.location import ClusterLocation


def locate(
    data: Path | None,
    control: ControlPlace | None,
    store: str | None,
    keys: Path | None,
    *,
    needs_control: bool = True,
) -> ClusterLocation:
    """The cluster that the options name, or the one on ./data if they name none; `keys` is the file with its keys.

    With `needs_control` the location must include a control plane. Raises PipelineError, which says what to write
    instead.
    """
    from lacuna.pipeline.location import find_cluster

    folder = data if data or control or store else DEFAULT_DATA
    return find_cluster(
        data=str(folder) if folder else None,
        control=control.address if control else None,
        store=store,
        tls=control.tls.by_key() if control else {},
        keys=str(keys) if keys else None,
        needs_control=needs_control,
    )
