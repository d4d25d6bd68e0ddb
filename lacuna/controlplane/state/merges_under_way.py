"""Which partitions agents are merging now, so that no two merge the same. Volatile: the swap is fenced by itself."""

from collections.abc import Container
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey

#: An agent that has not swapped by then has given up, or lost its plan.
_LIFETIME_MS: Final = 30_000


class MergesUnderWay:
    """The partitions of plans that have not been swapped yet, those planned last at the end."""

    def __init__(self) -> None:
        self._kept: dict[PartitionKey, tuple[int, int]] = {}

    def forget_old(self, now_ms: int) -> None:
        """Forget plans that are too old. Called before each plan, so there are as many as were planned lately."""
        for key, (_, ends_ms) in list(self._kept.items()):
            if ends_ms > now_ms:
                break
            del self._kept[key]

    def is_of_another(self, key: PartitionKey, lease_id: int, leases: Container[int]) -> bool:
        """Whether an agent with another lease, which still has it, is merging a partition."""
        other = self._kept.get(key, (lease_id, 0))[0]
        return other != lease_id and other in leases

    def begin(self, key: PartitionKey, lease_id: int, now_ms: int) -> None:
        """Note that a partition was planned for an agent."""
        self.end(key)
        self._kept[key] = (lease_id, now_ms + _LIFETIME_MS)

    def end(self, key: PartitionKey) -> None:
        """Note that a partition's extents were swapped, or that this was refused."""
        self._kept.pop(key, None)
