"""PlanMerge: runs of small or dead extents that are worth one larger object."""

from collections.abc import Iterator

from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.state.partition import Partition
from controlplane.state.settings import MERGE_PARTITIONS, MERGE_SCAN, MERGE_WINDOW
from controlplane.state.state import State
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.log_pb2 import MergePlan, MergePlanPartition, PlanMerge


def plan_merge(state: State, command: PlanMerge, context: Context) -> Decision:
    """A plan over the partitions in turn.

    It changes nothing durable: the swap is fenced by the extents themselves.
    """
    if command.lease_id not in state.leases:
        return Decision(reply=Reply(merge_plan=MergePlan(error_code=ErrorCode.LEASE_EXPIRED)))
    min_age_ms, now_ms = command.min_age_ms, context.now_ms
    horizons = state.merge_horizons
    horizons.move(state.partitions.values(), min_age_ms, now_ms)
    planned: list[MergePlanPartition] = []
    bytes_left, extents_left = command.max_bytes, MERGE_SCAN
    for partition in _in_turn(state):
        if bytes_left <= 0 or extents_left <= 0 or len(planned) >= MERGE_PARTITIONS:
            break
        state.merge_cursor += 1
        extents_left -= 1 + min(len(partition.extents), MERGE_WINDOW)
        end_offset = partition.last_stable_offset
        if min_age_ms > 0:
            end_offset = horizons.stable_for(partition.key, min_age_ms, now_ms)
        run = _find_run(partition, command, bytes_left, end_offset)
        if run is not None:
            plan = _plan(partition, *run)
            planned.append(plan)
            bytes_left -= sum(plan.extents.sizes)
    return Decision(reply=Reply(merge_plan=MergePlan(partitions=planned)))


def _in_turn(state: State) -> Iterator[Partition]:
    """All partitions once, from where the last plan stopped."""
    partitions = list(state.partitions.values())
    if not partitions:
        return iter(())
    state.merge_cursor %= len(partitions)
    return iter(partitions[state.merge_cursor :] + partitions[: state.merge_cursor])


def _find_run(
    partition: Partition, command: PlanMerge, max_bytes: int, end_offset: int
) -> tuple[int, int] | None:
    """Indexes [start, stop) of the first run of enough candidates below `end_offset`, within max_bytes.

    Only the newest MERGE_WINDOW extents are looked at: what is older was looked at before, and
    comes back into the window as the newer ones become fewer.
    """
    extents = partition.extents
    end = extents.first_ending_after(end_offset)
    least = max(1, command.min_extents)
    start = max(0, end - MERGE_WINDOW)
    if end - start < least and not len(partition.dead):
        return None
    run_start, run_bytes, has_dead = start, 0, False
    for index in range(start, end):
        size = extents.sizes[index]
        is_dead = _is_dead(partition, index)
        is_candidate = is_dead or size < command.small_bytes
        added = 0 if is_dead else size
        if is_candidate and run_bytes + added <= max_bytes:
            run_bytes += added
            has_dead = has_dead or is_dead
            continue
        if index - run_start >= least or has_dead:
            return run_start, index
        run_start, run_bytes, has_dead = index + 1, 0, False
    return (run_start, end) if end - run_start >= least or has_dead else None


def _is_dead(partition: Partition, index: int) -> bool:
    """Whether nothing in the extent is to be read; it is of one transaction, so all of it is dead
    or none.
    """
    if not partition.extents.transactions[index] or not len(partition.dead):
        return False
    return (
        partition.dead.skip(partition.extents.base_offsets[index])
        >= (partition.extents.next_offsets[index])
    )


def _plan(partition: Partition, start: int, stop: int) -> MergePlanPartition:
    extents = partition.extents
    first_offset, end_offset = extents.base_offsets[start], extents.next_offsets[stop - 1]
    dead = partition.dead.between(first_offset, end_offset)
    topic_id, index = partition.key
    return MergePlanPartition(
        partition=TopicPartition(topic_id=topic_id, partition=index),
        first_offset=first_offset,
        end_offset=end_offset,
        extents=extents.slice(start, stop),
        dead_first_offsets=[max(first, first_offset) for first, _ in dead],
        dead_end_offsets=[min(end, end_offset) for _, end in dead],
    )
