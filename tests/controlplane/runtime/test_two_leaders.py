"""Tests an earlier leader that does not know it was replaced, because a lease or a clock was set wrongly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from lacuna.controlplane.client import ControlClient, ControlPlaneUnavailable, InProcessClient
from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.tenure import LeasedTenure
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.groups_pb2 import OffsetFetch, OffsetFetchGroup
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn, EndTxn
from lacuna.logstore.objects import MemoryStore
from tests.controlplane.runtime.rig import created, heartbeat, read
from tests.controlplane.verbs.cluster import init_of
from tests.doubles.clock import ManualClock

FETCH = Command(offset_fetch=OffsetFetch(groups=[OffsetFetchGroup(group_id="g")]))


class Two:
    """Leaders of one bucket journal. Each takes over from the previous one immediately."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.store = MemoryStore()
        self._ids = iter(range(1, 1000))

    async def lead(self) -> ControlClient:
        """Return a client of a new leader."""
        clock = ManualClock()
        tenure = LeasedTenure(clock, 60.0)
        tenure.renewed(clock.passed_ms())
        journal = BucketJournal(self.store, lambda: "made")
        runtime = Runtime(
            journal,
            clock,
            lambda: next(self._ids).to_bytes(16, "big"),
            RuntimeSettings(),
            tenure=tenure,
            confirm=journal.confirm,
            on_fatal=lambda _: None,
        )
        await runtime.start()
        self._stack.push_async_callback(runtime.abort)
        client = InProcessClient(runtime)
        self._stack.push_async_callback(client.close)
        await client.cluster.ready()
        return client


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    async with AsyncExitStack() as stack:
        yield Two(stack)


class Producer:
    """A transactional producer with the first protocol, whose epoch stays the same."""

    def __init__(self, topic_id: bytes) -> None:
        self._partition = TopicPartition(topic_id=topic_id)
        self._ids: dict[str, Any] = {}

    async def init(self, client: ControlClient) -> None:
        reply = await client.call(Command(init_producer_id=init_of("id")))
        made = reply.producer_id_initialized
        ids = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        self._ids = {"transactional_id": "id", **ids}

    async def begin(self, client: ControlClient) -> None:
        add = AddPartitionsToTxn(partitions=[self._partition], **self._ids)
        reply = await client.call(Command(add_partitions_to_txn=add))
        assert reply.partitions_added_to_txn.error_code == 0

    async def commit(self, client: ControlClient) -> Reply:
        return await client.call(Command(end_txn=EndTxn(committed=True, **self._ids)))


async def test_an_earlier_leader_does_not_take_a_commit_for_the_one_before(two: Two) -> None:
    """It only knows that the previous transaction, under the same epoch, was committed."""
    earlier = await two.lead()
    producer = Producer(await created(earlier))
    await producer.init(earlier)
    await producer.begin(earlier)
    assert (await producer.commit(earlier)).txn_ended.error_code == 0
    assert (await producer.commit(earlier)).txn_ended.error_code == 0  # its answer was lost
    later = await two.lead()
    await producer.begin(later)
    with pytest.raises(ControlPlaneUnavailable, match="another control plane has taken over"):
        await producer.commit(earlier)
    assert (await producer.commit(later)).txn_ended.error_code == 0


async def test_an_earlier_leader_lets_others_look(two: Two) -> None:
    """It may answer reads for the duration of a lease, without any request to its journal."""
    earlier = await two.lead()
    topic_id = await created(earlier)
    await two.lead()
    answers = await asyncio.gather(earlier.call(heartbeat()), earlier.call(read(topic_id)))
    assert answers[1].partitions_read.partitions[0].error_code == 0


async def test_reads_append_nothing_and_share_a_confirmation(two: Two) -> None:
    """A consumer that fetches its offsets causes neither a PUT nor a snapshot."""
    leader = await two.lead()
    await created(leader)
    position, puts, gets = leader.journal_position, two.store.metrics.puts, two.store.metrics.gets
    for _ in range(10):
        await asyncio.gather(*(leader.call(FETCH) for _ in range(30)))
    assert leader.journal_position == position
    assert two.store.metrics.puts == puts
    assert 10 <= two.store.metrics.gets - gets <= 20


async def test_an_earlier_leader_does_not_read_offsets(two: Two) -> None:
    earlier = await two.lead()
    await two.lead()
    with pytest.raises(ControlPlaneUnavailable, match="another control plane has taken over"):
        await earlier.call(FETCH)


async def test_what_is_appended_proves_reads_beside_it(two: Two) -> None:
    leader = await two.lead()
    topic_id = await created(leader)
    producer = Producer(topic_id)
    await producer.init(leader)
    gets = two.store.metrics.gets
    await asyncio.gather(producer.begin(leader), leader.call(FETCH))
    assert two.store.metrics.gets == gets
