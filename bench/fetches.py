"""Sends single Fetch requests, and reports the exact size of each response.

A consumer cannot measure a single response, because it prefetches and combines several.
"""

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from bench import BenchError
from bench.target import TIMEOUT_SECONDS
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.client import ClientFrames, NoAnswerError
from lacuna.wire.messages import fetch as wire

VERSION = 12
READ_COMMITTED = 1
PARTITION_MAX_BYTES = 1 << 20
MAX_BYTES = 50 << 20
MAX_WAIT_MS = 500
CLIENT_ID = b"bench"
#: The size, the correlation id, and an empty list of tagged fields.
_ANSWER_HEADER_BYTES = 9
_BATCH_HEADER = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23


@dataclass(frozen=True, slots=True)
class Answer:
    """A Fetch response: its size on the wire, the next offset in each partition, and whether it reaches the end of each
    one.
    """

    wire_bytes: int
    next_offsets: dict[int, int]
    at_end: bool


class Fetcher:
    """A connection that sends Fetch requests, as a context manager."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_SECONDS)
        self._frames = ClientFrames(CLIENT_ID)

    def __enter__(self) -> "Fetcher":
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def fetch(self, topic: str, offsets: Mapping[int, int]) -> Answer:
        """Fetches from these offsets (by partition), with read_committed and default sizes. Raises BenchError."""
        partitions = [
            wire.FetchPartition(
                partition, fetch_offset=offset, partition_max_bytes=PARTITION_MAX_BYTES
            )
            for partition, offset in offsets.items()
        ]
        request = wire.FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=READ_COMMITTED,
            topics=[wire.FetchTopic(topic, partitions=partitions)],
        )
        frame = self._frames.request(wire.FETCH_REQUEST, VERSION, request, 2 * MAX_BYTES)
        self._socket.sendall(frame)
        try:
            while (body := self._frames.take(receive(self._socket, self._frames.missing))) is None:
                pass
        except NoAnswerError as error:
            raise BenchError(f"the server did not answer: {error}") from error
        response = wire.FETCH_RESPONSE.read(body, VERSION)
        return _answer(response, dict(offsets), len(body) + _ANSWER_HEADER_BYTES)


def receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise BenchError("the server closed a connection that it should have kept")
        data += more
    return bytes(data)


def _answer(response: wire.FetchResponse, offsets: dict[int, int], wire_bytes: int) -> Answer:
    ends = []
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.error_code:
                raise BenchError(f"Fetch returned {ErrorCode(partition.error_code).name}")
            index = partition.partition_index
            offsets[index] = max(offsets[index], _next_offset(partition))
            ends.append(offsets[index] >= partition.high_watermark)
    return Answer(wire_bytes, offsets, bool(ends) and all(ends))


def _next_offset(partition: wire.PartitionData) -> int:
    """Returns the offset after the last complete batch, or 0 if no batch is complete."""
    records = b"".join(partition.records or ())
    position, found = 0, 0
    while position + _BATCH_HEADER.size <= len(records):
        base_offset, length = _BATCH_HEADER.unpack_from(records, position)
        end = position + _BATCH_HEADER.size + length
        if end > len(records):
            break
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(records, position + _LAST_OFFSET_DELTA_AT)
        position, found = end, base_offset + delta + 1
    return found
