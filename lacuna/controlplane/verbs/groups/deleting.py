"""OffsetDelete: an operator deletes committed and pending offsets (KIP-496)."""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.state.groups.streams import StreamsGroup
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import Outcomes, TopicPartition
from lacuna.controlplane.v1.consumer_groups_pb2 import DeleteOffsets
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord, OffsetsExpired
from lacuna.controlplane.verbs.groups.consumer import embedded
from lacuna.controlplane.verbs.groups.consumer.converting import CONSUMER_PROTOCOL_TYPE
from lacuna.controlplane.verbs.groups.consumer.operators import is_subscribed
from lacuna.controlplane.verbs.groups.dropping import of_one_group
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


@of_one_group
def delete_offsets(turn: Turn, command: DeleteOffsets) -> Reply:
    """Delete offsets, except those of topics that a member subscribes to (GROUP_SUBSCRIBED_TO_TOPIC).

    Pending offsets are deleted as well, so that no transaction restores them. If the group's members are not consumers,
    there is no way to know which topics they read, so nothing is deleted (NON_EMPTY_GROUP).
    """
    if not command.group_id:
        return _refuse(ErrorCode.INVALID_GROUP_ID)
    if not turn.groups.exists(command.group_id):
        return _refuse(ErrorCode.GROUP_ID_NOT_FOUND)
    group = turn.groups.find(command.group_id, turn.now_ms)
    has_members = group is not None and group.state is not GroupState.EMPTY
    if group is not None and has_members and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return _refuse(ErrorCode.NON_EMPTY_GROUP)
    offsets = turn.groups.offsets
    named = {partition.topic_id for partition in command.partitions}
    read = _read_of(turn, command.group_id, group, named)
    error_codes = []
    deleted: dict[tuple[bytes, int], TopicPartition] = {}
    for partition in command.partitions:
        if partition.topic_id in read:
            error_codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        error_codes.append(ErrorCode.NONE)
        if offsets.has(command.group_id, key_of(partition)):
            deleted[key_of(partition)] = partition
    if deleted:
        record = OffsetsExpired(group_id=command.group_id, partitions=deleted.values())
        turn.journal_group(GroupRecord(offsets_expired=record))
        if group is not None and offsets.has_no_others(command.group_id, deleted.keys()):
            group.is_emptied = True
    return Reply(offsets_deleted=Outcomes(error_codes=error_codes))


def _read_of(turn: Turn, group_id: str, group: LiveGroup | None, named: set[bytes]) -> set[bytes]:
    """Return the named topics that any member subscribes to."""
    consumer = turn.groups.consumers.get(group_id)
    if consumer is not None:
        return {each for each in named if is_subscribed(turn, consumer, each)}
    streams = turn.groups.streams.get(group_id)
    if streams is not None:
        return {each for each in named if is_source(turn, streams, each)}
    if group is None or group.state is GroupState.EMPTY:
        return set()
    topics = subscribed_topics(group)
    # A subscription that cannot be read may include any topic.
    return {each for each in named if topics is None or turn.topics.name_of(each) in topics}


def is_source(turn: Turn, group: StreamsGroup, topic_id: bytes) -> bool:
    """Whether members of a streams group read this topic."""
    return bool(group.members) and turn.topics.name_of(topic_id) in group.sources


def _refuse(error_code: ErrorCode) -> Reply:
    return Reply(offsets_deleted=Outcomes(error_code=error_code))


def replay_offsets_expired(state: State, record: OffsetsExpired, now_ms: int) -> None:
    offsets = state.groups.offsets
    offsets.expire(record.group_id, record.partitions, state.topic_name, now_ms)


def subscribed_topics(group: LiveGroup) -> set[str] | None:
    """Return the topics that any member subscribes to, or None if the metadata cannot be read."""
    topics: set[str] = set()
    try:
        for member in group.members.values():
            for _, metadata in member.protocols:
                topics.update(embedded.read_subscription(metadata).topic_names)
    except embedded.MalformedProtocolError:
        return None
    return topics


VERBS: Final = (Verb(delete_offsets),)
REPLAYS: Final = (replay_offsets_expired,)
