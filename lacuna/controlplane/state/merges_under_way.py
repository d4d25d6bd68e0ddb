"""The partitions that agents are merging now, so that no two agents merge the same one. Volatile, since the swap is
fenced anyway.
"""

from collections.abc import Container
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey

#: An agent that has not swapped by then has given up, or lost its plan.
_LIFETIME_MS: Final = 30_000


class MergesUnderWay:
    """The partitions of plans that have not been swapped yet, in the order of their plans."""

    def __init__(self) -> None:
        self._kept: dict[PartitionKey, tuple[int, int]] = {}

    def forget_old(self, now_ms: int) -> None:
        """Drop plans that are too old. Called before each plan, so only recent plans remain."""
        for key, (_, ends_ms) in list(self._kept.items()):
            if ends_ms > now_ms:
                break
            del self._kept[key]

    def is_of_another(self, key: PartitionKey, lease_id: int, leases: Container[int]) -> bool:
        """Whether an agent with another live lease is merging a partition."""
        other = self._kept.get(key, (lease_id, 0))[0]
        return other != lease_id and other in leases

    def begin(self, key: PartitionKey, lease_id: int, now_ms: int) -> None:
        """Record that a partition was planned for an agent."""
        self.end(key)
        self._kept[key] = (lease_id, now_ms + _LIFETIME_MS)

    def end(self, key: PartitionKey) -> None:
        """Record that a partition's extents were swapped, or that the swap was rejected."""
        self._kept.pop(key, None)
