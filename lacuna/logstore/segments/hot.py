"""Hot segments: small segments whose bytes the journal keeps, in the append of their commit (adr/0071).

An agent writes its hot segments under its lease too, but with this bit set in the id, so that every reference to a
segment says where its bytes are. Sequences are shared: an agent gives each number once, to a segment of either kind.
"""

from typing import Final

#: Set in the lease id of a hot segment's id.
HOT: Final = 1 << 62

#: The most bytes of one hot segment, whatever the agents' settings say.
MOST_HOT_BYTES: Final = 1 << 20


def is_hot(lease_id: int) -> bool:
    """Whether a segment with this lease id is hot."""
    return lease_id & HOT != 0


def hot_lease(lease_id: int) -> int:
    """Return the lease id of the hot segments that are written under a lease."""
    return lease_id | HOT


def lease_of(lease_id: int) -> int:
    """Return the lease under which a segment was written, from the lease id of the segment."""
    return lease_id & ~HOT


def show_segment(lease_id: int, sequence: int) -> str:
    """Return the id of a segment for display. That of a hot segment has the lease's own id: hot:1f-2a."""
    kind = "hot:" if is_hot(lease_id) else ""
    return f"{kind}{lease_of(lease_id):x}-{sequence:x}"
