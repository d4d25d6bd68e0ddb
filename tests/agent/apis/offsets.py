"""A log with every kind of record, for tests of ListOffsets and OffsetForLeaderEpoch."""

from lacuna.agent.api import Call
from lacuna.agent.apis import k23_offset_for_leader_epoch as offset_for_leader_epoch
from lacuna.wire.messages.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.agent.fetch.log import TIME, Log, make_batch
from tests.agent.harness import anybody

PEER = anybody()


class Context:
    """The part of an agent's context that these handlers use."""

    def __init__(self, log: Log) -> None:
        self.control = log.control
        self.fetch = log.fetch_service


def call_of(log: Log, version: int) -> Call:
    """Return a client's call at that version."""
    return Call(Context(log), PEER, version)  # type: ignore[arg-type]


async def fill(log: Log) -> None:
    """Write offsets 0-1 plain, 2 aborted with the largest timestamp, 3 plain, and 4 open."""
    await log.create_topic("t")
    aborted, opened = await log.writer("a"), await log.writer("o")
    await log.produce(make_batch(b"0", b"1", timestamp=TIME))
    batch = make_batch(b"2", producer=aborted.producer, transactional=True, timestamp=TIME + 5000)
    assert (await log.produce(batch, transactional_id="a")).error_code == 0
    await log.produce(make_batch(b"3", timestamp=TIME + 100))
    await aborted.end(committed=False)
    await opened.send(b"4")


async def end_offset(
    log: Log, leader_epoch: int, *, version: int = 4, current: int = -1, partition: int = 0
) -> tuple[int, int, int]:
    """Return (error code, leader epoch, end offset)."""
    asked = OffsetForLeaderPartition(partition, current, leader_epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(log.topic, [asked])])
    response = await offset_for_leader_epoch.handle(call_of(log, version), request)
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset
