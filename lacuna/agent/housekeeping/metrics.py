"""What an agent's merging and collection have done."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class HousekeepingMetrics:
    """Counters, sizes in bytes, and the last failure: its text ("" without one) and when it was.

    `partitions_refused` are those whose extents had changed since the plan, and `partitions_failed` those of which an
    object could not be read or merged. `deletions_failed` counts objects, and leases with objects, that are left.
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
