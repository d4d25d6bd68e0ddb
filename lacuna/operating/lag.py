"""The lag of a consumer group, computed from the control plane's data and exact despite transactions and holes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lacuna.base.errors import UserError
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.behind import Behind, behind
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset
from lacuna.operating import questions


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """A group's committed offset in a partition, the partition's ends, and the number of records left to read."""

    topic: str
    partition: int
    committed: int
    last_stable_offset: int
    high_watermark: int
    left: Behind


async def lag_of_group(control: ControlClient, group_id: str) -> Sequence[PartitionLag]:
    """Return a group's lags in the partitions with committed offsets, sorted by topic and partition.

    Raises UserError if there are no committed offsets, and ControlPlaneUnavailable.
    """
    await questions.current(control)
    (fetched,) = await questions.offsets_of(control, [group_id])
    if fetched.error_code != ErrorCode.NONE or not fetched.offsets:
        raise UserError(
            f"group {group_id} has not committed any offsets; `lacuna groups list` lists the groups"
        )
    return await lag_of_offsets(control, fetched.offsets)


async def lag_of_offsets(
    control: ControlClient, offsets: Iterable[CommittedOffset]
) -> Sequence[PartitionLag]:
    """Return the lags of a group with these committed offsets. Raises ControlPlaneUnavailable."""
    lags: list[PartitionLag] = []
    for each in offsets:
        topic = control.cluster.topics_by_id.get(each.partition.topic_id)
        if topic is None:
            continue  # the topic was deleted in the meantime, with its offsets
        view = control.partition(topic.topic_id, each.partition.partition)
        await view.ready()
        lags.append(
            PartitionLag(
                topic=topic.name,
                partition=each.partition.partition,
                committed=each.offset,
                last_stable_offset=view.last_stable_offset,
                high_watermark=view.high_watermark,
                left=behind(view, each.offset),
            )
        )
    return sorted(lags, key=lambda lag: (lag.topic, lag.partition))
