"""Hot segments: small segments whose bytes the journal keeps, in the append of their commit (adr/0071).

An agent numbers all of its segments in one sequence, and writes all of them under its lease. The id of a hot segment
has the bit HOT set in its lease id, so that every reference to a segment shows where its bytes are.
"""

from typing import Final

#: The bit that is set in the lease id of a hot segment.
HOT: Final = 1 << 62

#: The maximum size of a hot segment in bytes, whatever the agents' settings say.
MOST_HOT_BYTES: Final = 1 << 20


def is_hot(lease_id: int) -> bool:
    return lease_id & HOT != 0


def hot_lease(lease_id: int) -> int:
    """Return the lease id to use in the ids of a lease's hot segments."""
    return lease_id | HOT


def lease_of(lease_id: int) -> int:
    """Return the lease under which a segment was written, given the lease id in the segment's id."""
    return lease_id & ~HOT


def show_segment(lease_id: int, sequence: int) -> str:
    """Return the id of a segment for display, such as 1f-2a, or hot:1f-2a for a hot segment of the same lease."""
    kind = "hot:" if is_hot(lease_id) else ""
    return f"{kind}{lease_of(lease_id):x}-{sequence:x}"
