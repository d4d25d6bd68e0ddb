"""Records of internal topics. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import (
    ZERO_UUID,
    Bytes,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
)


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""
    member_id: Annotated[String, In(until=0)] = ""


class TopicPartitions(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()
    assignment_epochs: Annotated[Sequence[Int32] | None, In(tag=0)] = None


class ConsumerGroupCurrentMemberAssignmentValue(NamedTuple):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: Sequence[TopicPartitions] = ()
    partitions_pending_revocation: Sequence[TopicPartitions] = ()


CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY: Final = Message(
    ConsumerGroupCurrentMemberAssignmentKey, api_key=8, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE: Final = Message(
    ConsumerGroupCurrentMemberAssignmentValue, api_key=8, versions=(0, 0), first_flexible=0
)


class ConsumerGroupMemberMetadataKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""
    member_id: Annotated[String, In(until=0)] = ""


class ClassicProtocol(NamedTuple):
    name: String = ""
    metadata: Bytes = b""


class ClassicMemberMetadata(NamedTuple):
    session_timeout_ms: Int32 = 0
    supported_protocols: Sequence[ClassicProtocol] = ()


class ConsumerGroupMemberMetadataValue(NamedTuple):
    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Sequence[String] = ()
    subscribed_topic_regex: String | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = ""
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, In(tag=0)] = None


CONSUMER_GROUP_MEMBER_METADATA_KEY: Final = Message(
    ConsumerGroupMemberMetadataKey, api_key=5, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_MEMBER_METADATA_VALUE: Final = Message(
    ConsumerGroupMemberMetadataValue, api_key=5, versions=(0, 0), first_flexible=0
)


class ConsumerGroupMetadataKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""


class ConsumerGroupMetadataValue(NamedTuple):
    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, In(tag=0)] = 0


CONSUMER_GROUP_METADATA_KEY: Final = Message(
    ConsumerGroupMetadataKey, api_key=3, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_METADATA_VALUE: Final = Message(
    ConsumerGroupMetadataValue, api_key=3, versions=(0, 0), first_flexible=0
)


class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""
    member_id: Annotated[String, In(until=0)] = ""


class TopicPartition(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()


class ConsumerGroupTargetAssignmentMemberValue(NamedTuple):
    topic_partitions: Sequence[TopicPartition] = ()


CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY: Final = Message(
    ConsumerGroupTargetAssignmentMemberKey, api_key=7, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE: Final = Message(
    ConsumerGroupTargetAssignmentMemberValue, api_key=7, versions=(0, 0), first_flexible=0
)


class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""


class ConsumerGroupTargetAssignmentMetadataValue(NamedTuple):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, In(tag=0)] = 0


CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY: Final = Message(
    ConsumerGroupTargetAssignmentMetadataKey, api_key=6, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE: Final = Message(
    ConsumerGroupTargetAssignmentMetadataValue, api_key=6, versions=(0, 0), first_flexible=0
)


class GroupMetadataKey(NamedTuple):
    group: Annotated[String, In(until=0)] = ""


class MemberMetadata(NamedTuple):
    member_id: String = ""
    group_instance_id: Annotated[String | None, In(since=3)] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, In(since=1)] = -1
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


class GroupMetadataValue(NamedTuple):
    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = ""
    leader: String | None = ""
    current_state_timestamp: Annotated[Int64, In(since=2)] = -1
    members: Sequence[MemberMetadata] = ()


GROUP_METADATA_KEY: Final = Message(
    GroupMetadataKey, api_key=2, versions=(0, 0), first_flexible=None
)

GROUP_METADATA_VALUE: Final = Message(
    GroupMetadataValue, api_key=2, versions=(0, 4), first_flexible=4
)


class OffsetCommitKey(NamedTuple):
    group: Annotated[String, In(until=0)] = ""
    topic: Annotated[String, In(until=0)] = ""
    partition: Annotated[Int32, In(until=0)] = 0


class OffsetCommitValue(NamedTuple):
    offset: Int64 = 0
    leader_epoch: Annotated[Int32, In(since=3)] = -1
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, In(since=1, until=1)] = -1
    topic_id: Annotated[Uuid, In(since=4, tag=0)] = ZERO_UUID


OFFSET_COMMIT_KEY: Final = Message(OffsetCommitKey, api_key=1, versions=(0, 0), first_flexible=None)

OFFSET_COMMIT_VALUE: Final = Message(
    OffsetCommitValue, api_key=1, versions=(0, 4), first_flexible=4
)


class TransactionLogKey(NamedTuple):
    transactional_id: Annotated[String, In(until=0)] = ""


class PartitionsSchema(NamedTuple):
    topic: String = ""
    partition_ids: Sequence[Int32] = ()


class TransactionLogValue(NamedTuple):
    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, In(tag=0)] = -1
    next_producer_id: Annotated[Int64, In(tag=1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, In(tag=3)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: Sequence[PartitionsSchema] | None = ()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, In(tag=2)] = 0


TRANSACTION_LOG_KEY: Final = Message(
    TransactionLogKey, api_key=0, versions=(0, 0), first_flexible=None
)

TRANSACTION_LOG_VALUE: Final = Message(
    TransactionLogValue, api_key=0, versions=(0, 1), first_flexible=1
)
