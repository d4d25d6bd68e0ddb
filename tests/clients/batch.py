"""Encodes record batches of magic 2 by hand, with correct or wrong values in any field.

It is deliberately independent of logstore, so that tests do not share a bug with the code under test. Source: Kafka's
documentation, "Record Batch"; KIP-98.
"""

from __future__ import annotations

import dataclasses
import gzip
import struct
from collections.abc import Sequence

import cramjam
import lz4.frame
from crc32c import crc32c

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TRANSACTIONAL, CONTROL, LOG_APPEND_TIME, DELETE_HORIZON = 0x10, 0x20, 0x08, 0x40
TIMESTAMP = 1_760_000_000_000


def varint(value: int) -> bytes:
    """A zigzag varint; varlongs have the same form."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rec:
    """One record to write. Its offset delta defaults to its place in the batch, its timestamp delta to 0 ms."""

    key: bytes | None = None
    value: bytes | None = b"v"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    offset_delta: int | None = None
    timestamp_delta: int = 0


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record_bytes(record: Rec, position: int) -> bytes:
    """Return a record as bytes, preceded by its length as a varint."""
    delta = position if record.offset_delta is None else record.offset_delta
    body = b"\0" + varint(record.timestamp_delta) + varint(delta)
    body += _sized(record.key) + _sized(record.value) + varint(len(record.headers))
    for name, value in record.headers:
        body += _sized(name) + _sized(value)
    return varint(len(body)) + body


def compress(codec: int, data: bytes) -> bytes:
    """`data` compressed with the codec of this number; unchanged for an unknown codec."""
    if codec == CODECS["gzip"]:
        return gzip.compress(data, mtime=0)
    if codec == CODECS["snappy"]:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == CODECS["lz4"]:
        return bytes(lz4.frame.compress(data))
    if codec == CODECS["zstd"]:
        return bytes(cramjam.zstd.compress(data))
    return data


def batch(
    records: Sequence[Rec | bytes] = (b"v",),
    *,
    codec: int = 0,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    magic: int = 2,
    base_timestamp: int = TIMESTAMP,
    max_timestamp: int | None = None,
    count: int | None = None,
    last_offset_delta: int | None = None,
    payload: bytes | None = None,
    crc_xor: int = 0,
    length_add: int = 0,
) -> bytes:
    """A batch as bytes. Every field can be given a wrong value; the CRC is correct unless `crc_xor` is given."""
    rows = [Rec(value=item) if isinstance(item, bytes) else item for item in records]
    plain = b"".join(record_bytes(row, index) for index, row in enumerate(rows))
    body = compress(codec, plain) if payload is None else payload
    if max_timestamp is None:
        max_timestamp = base_timestamp + max((row.timestamp_delta for row in rows), default=0)
    covered = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        len(rows) - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(rows) if count is None else count,
    )
    covered += body
    crc = crc32c(covered) ^ crc_xor
    tail = struct.pack(">ibI", partition_leader_epoch, magic, crc) + covered
    return struct.pack(">qi", base_offset, len(tail) + length_add) + tail


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The header of a served batch; `size` includes the 12 bytes of base offset and length."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    attributes: int
    count: int
    partition_leader_epoch: int
    base_timestamp: int
    max_timestamp: int
    position: int
    size: int

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def headers_of(records: bytes) -> list[Seen]:
    """The headers of all complete batches in a record set; a truncated last batch is left out."""
    found = []
    position = 0
    while position + 61 <= len(records):
        base_offset, length, leader_epoch = struct.unpack_from(">qii", records, position)
        if position + 12 + length > len(records):
            break
        fields = struct.unpack_from(">hiqqqhii", records, position + 21)
        attributes, last_delta, base_ts, max_ts, pid, epoch, sequence, count = fields
        found.append(
            Seen(
                base_offset=base_offset,
                last_offset=base_offset + last_delta,
                producer_id=pid,
                producer_epoch=epoch,
                base_sequence=sequence,
                attributes=attributes,
                count=count,
                partition_leader_epoch=leader_epoch,
                base_timestamp=base_ts,
                max_timestamp=max_ts,
                position=position,
                size=12 + length,
            )
        )
        position += 12 + length
    return found
