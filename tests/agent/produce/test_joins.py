"""S9: a partition joins the transaction before its batch is rejected. The cases were recorded on Apache Kafka 4.1."""

from collections.abc import Callable

import pytest

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.transactions_pb2 import DescribeTransactions
from lacuna.logstore.records.layout import Codec
from tests.agent.fetch.log import Log, Writer, make_batch, open_log, produce_request

CORRUPT, NOT_LEADER, TOO_LARGE, UNKNOWN = 2, 6, 10, 3
OUT_OF_ORDER, FENCED, NO_MAPPING, INVALID_RECORD = 45, 47, 49, 87

TOO_LONG = b"x" * 3000


def wrong_crc(batch: bytes) -> bytes:
    return batch[:17] + bytes((batch[17] ^ 1,)) + batch[18:]


async def partitions_of(log: Log) -> list[int]:
    """Return the partitions in the transaction of "tx"."""
    asked = Command(describe_transactions=DescribeTransactions(transactional_ids=["tx"]))
    (described,) = (await log.control.call(asked)).transactions_described.transactions
    return sorted(each.partition for each in described.partitions)


Made = Callable[[Writer], bytes]
REFUSED: dict[str, tuple[Made, int, list[int]]] = {
    "too large": (lambda writer: writer.batch(TOO_LONG), TOO_LARGE, [0]),
    "wrong crc": (lambda writer: wrong_crc(writer.batch(b"a")), CORRUPT, [0]),
    "a gap": (
        lambda writer: make_batch(
            b"a", producer=writer.producer, base_sequence=7, transactional=True
        ),
        OUT_OF_ORDER,
        [0],
    ),
    "two batches": (
        lambda writer: writer.batch(b"a") + writer.batch(b"b"),
        INVALID_RECORD,
        [],
    ),
    "cut off": (lambda writer: writer.batch(b"abc")[:-2], INVALID_RECORD, []),
    "less than a header": (lambda writer: writer.batch(b"abc")[:40], INVALID_RECORD, []),
    "not transactional": (
        lambda writer: make_batch(TOO_LONG, producer=writer.producer),
        TOO_LARGE,
        [],
    ),
    "another epoch": (
        lambda writer: make_batch(TOO_LONG, producer=(writer.producer[0], 7), transactional=True),
        FENCED,
        [],
    ),
    "another producer": (
        lambda writer: make_batch(TOO_LONG, producer=(99, 0), transactional=True),
        NO_MAPPING,
        [],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_s9_what_joins_although_it_is_refused(name: str) -> None:
    make, error_code, joined = REFUSED[name]
    async with open_log() as log:
        await log.create_topic("t", max_message_bytes="1000")
        writer = await log.writer("tx")
        answer = await log.produce(make(writer), transactional_id="tx")
        assert answer.error_code == error_code
        assert await partitions_of(log) == joined


async def test_s9_what_grows_too_large_joins_too_unless_its_producer_is_fenced() -> None:
    async with open_log() as log:
        await log.create_topic("t", compression_type="uncompressed", max_message_bytes="1000")
        writer = await log.writer("tx")
        assert (await writer.send(TOO_LONG, codec=Codec.GZIP)).error_code == TOO_LARGE
        assert await partitions_of(log) == [0]
        await log.writer("tx")
        assert (await writer.send(TOO_LONG, codec=Codec.GZIP)).error_code == FENCED


async def test_s9_a_transaction_of_which_all_was_refused_is_committed() -> None:
    async with open_log() as log:
        await log.create_topic("t", 2, max_message_bytes="1000")
        writer = await log.writer("tx")
        for partition in range(2):
            assert (await writer.send(TOO_LONG, partition=partition)).error_code == TOO_LARGE
        await writer.end(committed=True)


async def test_s9_what_is_refused_joins_beside_what_is_taken() -> None:
    async with open_log() as log:
        await log.create_topic("t", 4, max_message_bytes="1000")
        writer = await log.writer("tx")
        batches = {
            ("t", partition): writer.batch(value, partition=partition)
            for partition, value in enumerate((b"a", TOO_LONG, b"b", TOO_LONG))
        }
        answer = await log.send(produce_request(batches | {("t", 9): b""}, "tx"))
        codes = [topic.partition_responses[0].error_code for topic in answer.responses]
        assert codes == [0, TOO_LARGE, 0, TOO_LARGE, UNKNOWN]
        assert await partitions_of(log) == [0, 1, 2, 3]


async def test_before_v12_nothing_joins() -> None:
    async with open_log() as log:
        await log.create_topic("t", max_message_bytes="1000")
        writer = await log.writer("tx")
        answer = await log.produce(writer.batch(TOO_LONG), transactional_id="tx", version=11)
        assert answer.error_code == TOO_LARGE
        assert await partitions_of(log) == []


async def test_batches_of_two_producers_do_not_join_one_transaction() -> None:
    async with open_log() as log:
        await log.create_topic("t", 2, max_message_bytes="1000")
        one, other = await log.writer("tx"), await log.writer("other")
        batches = {("t", 0): one.batch(TOO_LONG), ("t", 1): other.batch(TOO_LONG)}
        answer = await log.send(produce_request(batches, "tx"))
        codes = [topic.partition_responses[0].error_code for topic in answer.responses]
        assert codes == [NO_MAPPING, NO_MAPPING]
        assert await partitions_of(log) == []


async def test_without_a_control_plane_the_batch_is_to_be_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_log() as log:
        await log.create_topic("t", max_message_bytes="1000")
        writer = await log.writer("tx")

        async def away(_: Command) -> Reply:
            raise ControlPlaneUnavailable("the test says so")

        with monkeypatch.context() as patch:
            patch.setattr(log.control, "call", away)
            assert (await writer.send(TOO_LONG)).error_code == NOT_LEADER
        assert await partitions_of(log) == []
