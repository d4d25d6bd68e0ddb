"""Fetch requests by hand: one answer at a time, and exactly how many bytes it has.

A consumer fetches ahead and joins answers; where a single answer is the point, this asks for it itself.
"""

import io
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v12.response import FetchResponse, PartitionData
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from bench.errors import BenchError
from bench.topics import TIMEOUT_SECONDS

FETCH = 1
VERSION = 12
READ_COMMITTED = 1
PARTITION_MAX_BYTES = 1 << 20
MAX_BYTES = 50 << 20
MAX_WAIT_MS = 500
_BATCH_HEADER = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23


@dataclass(frozen=True, slots=True)
class Answer:
    """One Fetch answer: its size on the wire, where to read on, and whether that is the end, by partition."""

    wire_bytes: int
    next_offsets: dict[int, int]
    at_end: bool


class Fetcher:
    """One connection; a context manager."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_SECONDS)
        self._correlation = 0

    def __enter__(self) -> "Fetcher":
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def fetch(self, topic: str, offsets: Mapping[int, int]) -> Answer:
        """read_committed, with the sizes that consumers ask for by default. Raises BenchError."""
        partitions = tuple(
            FetchPartition(
                partition=i32(partition),
                fetch_offset=i64(offset),
                partition_max_bytes=i32(PARTITION_MAX_BYTES),
            )
            for partition, offset in offsets.items()
        )
        request = FetchRequest(
            max_wait=i32Timedelta.parse(timedelta(milliseconds=MAX_WAIT_MS)),
            min_bytes=i32(1),
            max_bytes=i32(MAX_BYTES),
            isolation_level=i8(READ_COMMITTED),
            topics=(FetchTopic(topic=TopicName(topic), partitions=partitions),),
            forgotten_topics_data=(),
        )
        frame = self._exchange(request)
        _, position = entity_reader(ResponseHeader)(frame, 0)
        response, _ = entity_reader(FetchResponse)(frame, position)
        return _answer(response, dict(offsets), len(frame) + 4)

    def _exchange(self, request: FetchRequest) -> bytes:
        self._correlation += 1
        header = RequestHeader(
            request_api_key=i16(FETCH),
            request_api_version=i16(VERSION),
            correlation_id=i32(self._correlation),
            client_id="bench",
        )
        out = io.BytesIO()
        entity_writer(RequestHeader)(out, header)
        entity_writer(FetchRequest)(out, request)
        self._socket.sendall(len(out.getvalue()).to_bytes(4, "big") + out.getvalue())
        return self._receive(int.from_bytes(self._receive(4), "big"))

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise BenchError("the server closed the connection in the middle of an answer")
            data += more
        return bytes(data)


def _answer(response: FetchResponse, offsets: dict[int, int], wire_bytes: int) -> Answer:
    ends = []
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.error_code is not ErrorCode.none:
                raise BenchError(f"Fetch answered {partition.error_code.name}")
            index = int(partition.partition_index)
            offsets[index] = max(offsets[index], _next_offset(partition))
            ends.append(offsets[index] >= partition.high_watermark)
    return Answer(wire_bytes, offsets, bool(ends) and all(ends))


def _next_offset(partition: PartitionData) -> int:
    """Behind the last whole batch; 0 where there is none."""
    records = partition.records or b""
    position, found = 0, 0
    while position + _BATCH_HEADER.size <= len(records):
        base_offset, length = _BATCH_HEADER.unpack_from(records, position)
        end = position + _BATCH_HEADER.size + length
        if end > len(records):
            break
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(records, position + _LAST_OFFSET_DELTA_AT)
        position, found = end, base_offset + delta + 1
    return found
