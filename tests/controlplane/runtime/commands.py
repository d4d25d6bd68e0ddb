"""Commands as short functions."""

from controlplane.client import ControlClient
from controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, TopicPartition
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.groups_pb2 import DeleteGroups, Heartbeat, JoinGroup, LeaveGroup
from controlplane.v1.log_pb2 import CommitSegment, ReadPartitions, SegmentId, SegmentSlice
from controlplane.v1.transactions_pb2 import AddPartitionsToTxn


def create_topic(name: str, partition_count: int = 1) -> Command:
    topic = CreateTopic(name=name, partition_count=partition_count)
    return Command(create_topics=CreateTopics(topics=[topic]))


async def created(client: ControlClient, name: str = "a", partition_count: int = 1) -> bytes:
    """Creates a topic; its id."""
    reply = await client.call(create_topic(name, partition_count))
    return reply.topics_created.topics[0].topic_id


def commit(topic_id: bytes, *partitions: int, sequence: int = 0) -> Command:
    """One record (of the fake machine) to each partition; to 0 where none is named."""
    slices = [
        SegmentSlice(partition=TopicPartition(topic_id=topic_id, partition=partition))
        for partition in partitions or (0,)
    ]
    segment = SegmentId(lease_id=1, sequence=sequence)
    return Command(commit_segment=CommitSegment(segment=segment, slices=slices))


def base_offset(reply: Reply) -> int:
    """Of the first batch of a commit."""
    return reply.segment_committed.slices[0].base_offsets[0]


def read(topic_id: bytes, partition: int = 0) -> Command:
    key = TopicPartition(topic_id=topic_id, partition=partition)
    return Command(read_partitions=ReadPartitions(partitions=[key]))


def heartbeat() -> Command:
    return Command(heartbeat=Heartbeat())


def refused() -> Command:
    """The fake machine takes no such command."""
    return Command(delete_groups=DeleteGroups())


def join(group_id: str = "g") -> Command:
    """Parked by the fake machine until somebody leaves."""
    return Command(join_group=JoinGroup(group_id=group_id))


def leave(group_id: str = "g") -> Command:
    return Command(leave_group=LeaveGroup(group_id=group_id))


def add_partitions(producer_id: int = 1, *, verify_only: bool = False) -> Command:
    return Command(
        add_partitions_to_txn=AddPartitionsToTxn(
            producer_id=producer_id, partitions=[TopicPartition()], verify_only=verify_only
        )
    )
