from collections.abc import Sequence

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition

def decide_slices(
    state: State,
    slices: bytes,
    batches: bytes,
    lease_id: int,
    sequence: int,
    object_size: int,
    transactional_ids: Sequence[str],
) -> tuple[
    bytes, bytes, bytes, bytes, bytes, dict[int, int], dict[int, dict[PartitionKey, TopicPartition]]
]: ...
def replay_slices(
    state: State, slices: bytes, extents: bytes, batches: bytes, now_ms: int
) -> int: ...
