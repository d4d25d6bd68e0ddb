from collections.abc import Sequence

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition

def decide_slices(
    state: State,
    slices: bytes,
    lease_id: int,
    sequence: int,
    object_size: int,
    transactional_ids: Sequence[str],
) -> tuple[bytes, bytes, dict[int, int], dict[int, dict[PartitionKey, TopicPartition]]]: ...
def replay_slices(state: State, slices: bytes, now_ms: int) -> tuple[int, bytes]: ...
