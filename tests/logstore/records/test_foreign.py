"""Tests that we read other clients' batches and that they read ours, in every codec."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from kafka.codec import has_snappy
from kafka.record import default_records as kafka_python_records

from lacuna.logstore.records.batch import BatchHeader, BatchToWrite, NewRecord, read_batches
from lacuna.logstore.records.control import filler
from lacuna.logstore.records.encoding import encode_batches
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.records.rewriting import Rewriter
from lacuna.logstore.records.validate import ProduceRules, validate_produced
from tests.logstore.records.conftest import binary_column

CLIENTS = {"aiokafka": aiokafka_records, "kafka-python": kafka_python_records}
ROWS: tuple[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]], ...] = (
    (1_700_000_000_000, b"key", b"value", []),
    (1_700_000_000_005, None, b"x" * 3000, [("h", b"1"), ("h", b"2")]),
    (1_699_999_999_999, b"", None, [("ü", b"")]),
)


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Any:
    return CLIENTS[request.param]


@pytest.fixture(params=Codec, ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest, client: Any) -> Codec:
    chosen: Codec = request.param
    if chosen is Codec.SNAPPY and client is kafka_python_records and not has_snappy():
        pytest.skip("kafka-python reads snappy only with the package python-snappy")
    return chosen


def test_theirs_is_read_by_ours(client: Any, codec: Codec) -> None:
    builder = client.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=17,
        producer_epoch=3,
        base_sequence=5,
        batch_size=100_000,
    )
    for offset, (timestamp, key, value, headers) in enumerate(ROWS):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    data = bytes(builder.build())
    summary = validate_produced(data, ProduceRules(max_message_bytes=len(data)), 0)
    assert (summary.producer_id, summary.producer_epoch, summary.base_sequence) == (17, 3, 5)
    assert summary.max_timestamp == summary.declared_max_timestamp == ROWS[1][0]
    assert summary.codec is codec
    (batch,) = read_batches(data)
    rows = [
        (r.timestamp, r.key, r.value, [(k.decode(), v) for k, v in r.headers])
        for r in batch.records()
    ]
    assert tuple(rows) == ROWS


def test_ours_is_read_by_theirs(client: Any, codec: Codec) -> None:
    """There are holes at offsets 40, 43 and 46."""
    records = tuple(
        NewRecord(
            offset_delta=3 * i,
            timestamp=timestamp,
            key=key,
            value=value,
            headers=tuple((k.encode(), v) for k, v in headers),
        )
        for i, (timestamp, key, value, headers) in enumerate(ROWS)
    )
    ours = BatchToWrite(records=records, base_offset=40, last_offset_delta=9, codec=codec)
    theirs = client.DefaultRecordBatch(bytearray(ours.encode()))
    assert theirs.validate_crc()
    assert theirs.next_offset == 50
    read = list(theirs)
    assert [record.offset for record in read] == [40, 43, 46]
    rows = [(r.timestamp, r.key, r.value, [tuple(h) for h in r.headers]) for r in read]
    assert tuple(rows) == ROWS


def test_kip_534_a_rewritten_batch_is_read_by_theirs(client: Any, codec: Codec) -> None:
    """Its base_timestamp is a delete horizon, and the record at offset 41 is missing."""
    horizon = 1_800_000_000_000
    rewriter = Rewriter(codec=codec, keeps_horizons=True, delete_horizon=horizon)
    for offset, row in ((40, ROWS[2]), (41, ROWS[0]), (43, ROWS[1])):
        timestamp, key, value, _ = row
        record = NewRecord(offset_delta=0, timestamp=timestamp, key=key, value=value)
        rewriter.add(BatchToWrite(records=(record,), base_offset=offset).encode(), array("q", [41]))
    rewriter.end_batch()
    (rewritten,) = rewriter.take()
    assert BatchHeader.parse(rewritten).base_timestamp == horizon
    theirs = client.DefaultRecordBatch(bytearray(rewritten))
    assert theirs.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value) for r in theirs]
    assert read == [(40, *ROWS[2][:3]), (43, *ROWS[1][:3])]


def test_encoded_columns_are_read_by_theirs(client: Any, codec: Codec) -> None:
    (encoded,) = encode_batches(
        binary_column([row[1] for row in ROWS]),
        binary_column([row[2] for row in ROWS]),
        None,
        array("q", (row[0] for row in ROWS)),
        array("q", [2, 0, 1]),
        codec,
    )
    theirs = client.DefaultRecordBatch(bytearray(encoded))
    assert theirs.validate_crc()
    assert [record.offset for record in theirs] == [0, 1, 2]
    theirs = client.DefaultRecordBatch(bytearray(encoded))
    read = [(record.timestamp, record.key, record.value) for record in theirs]
    assert read == [ROWS[i][:3] for i in (2, 0, 1)]


def test_s17_the_filler_is_a_control_batch_to_them(client: Any) -> None:
    theirs = client.DefaultRecordBatch(bytearray(filler(3, 11)))
    assert theirs.validate_crc()
    assert theirs.is_control_batch
    assert theirs.next_offset == 11
    (record,) = theirs
    assert record.offset == 10
    assert record.key == bytes.fromhex("00000001")
