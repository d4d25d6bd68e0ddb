"""Metrics of an agent's merging and collection."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class HousekeepingMetrics:
    """Counters, sizes in bytes, and the last failure: its text ("" without one) and its time.

    `partitions_refused` counts partitions whose extents had changed since the plan, and `partitions_failed` those with
    an object that could not be read or merged. `deletions_failed` counts objects, and leases with objects, that remain.
    """

    merges: int = 0
    merges_failed: int = 0
    partitions_merged: int = 0
    partitions_refused: int = 0
    partitions_failed: int = 0
    extents_before: int = 0
    extents_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    collections_failed: int = 0
    deletions_failed: int = 0
    objects_deleted: int = 0
    uncommitted_deleted: int = 0
    last_failure: str = ""
    last_failure_ms: int = 0
