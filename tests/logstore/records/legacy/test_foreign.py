"""Tests that kafka-python and aiokafka read our message sets, and that we read theirs (S22)."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy.reading import read_messages
from lacuna.logstore.records.legacy.writing import NewMessage, write_message_set

ROWS: list[tuple[int, bytes | None, bytes | None]] = [
    (1000, b"k", b"v"),
    (2000, None, b"x" * 5000),
    (500, b"gone", None),
]
# Both need the package xxhash for LZ4 in magic 0, which tests/golden/legacy covers with bytes from Java.
FORMS = [
    (magic, codec)
    for magic in (0, 1)
    for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
    if (magic, codec) != (0, Codec.LZ4)
]


@pytest.mark.parametrize("reader", [AiokafkaRecords, KafkaPythonRecords])
@pytest.mark.parametrize("kind", TimestampType)
@pytest.mark.parametrize(("magic", "codec"), FORMS)
def test_they_read(reader: Any, kind: TimestampType, magic: int, codec: Codec) -> None:
    """Offsets (with a hole), timestamps and payloads match. Both clients check the CRC-32."""
    kind = kind if magic else TimestampType.CREATE_TIME
    offsets = (70, 71, 75)
    messages = [NewMessage(o, *row) for o, row in zip(offsets, ROWS, strict=True)]
    message_set = write_message_set(
        messages, magic=magic, codec=codec, timestamp_type=kind, append_time=9999
    )
    records, got = reader(message_set), []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        got += [(r.offset, r.timestamp, r.key, r.value) for r in batch]
    appended = kind is TimestampType.LOG_APPEND_TIME
    assert got == [
        (offset, (9999 if appended else time) if magic else None, key, value)
        for offset, (time, key, value) in zip(offsets, ROWS, strict=True)
    ]


@pytest.mark.parametrize("builder", [AiokafkaBuilder, KafkaPythonBuilder])
@pytest.mark.parametrize(("magic", "codec"), FORMS)
def test_they_write(builder: Any, magic: int, codec: Codec) -> None:
    """Their producers number offsets from 0."""
    built = builder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for offset, (time, key, value) in enumerate(ROWS):
        built.append(offset, timestamp=time, key=key, value=value)
    got = read_messages(bytes(built.build()), max_bytes=1 << 20)
    assert [(m.offset, m.timestamp, m.key, m.value) for m in got] == [
        (offset, time if magic else -1, key, value)
        for offset, (time, key, value) in enumerate(ROWS)
    ]
