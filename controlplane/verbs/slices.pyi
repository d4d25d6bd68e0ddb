from collections.abc import Sequence

from lacuna.controlplane.state.state import State

def decide_slices(
    state: State,
    slices: bytes,
    lease_id: int,
    sequence: int,
    object_size: int,
    transactional_ids: Sequence[str],
) -> tuple[bytes, bytes, dict[int, int]]: ...
def replay_slices(state: State, slices: bytes, now_ms: int) -> tuple[int, bytes]: ...
