"""A small Kafka client on raw sockets: plain dicts in, plain dicts out, and the frames as they were.

It exists to say things that no proper client says (a bad CRC, an old epoch, an unknown version) and to
see answers whole. Requests and answers are built with kio's schemas; `records` are plain bytes.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import io
import itertools
import socket
import struct
import types
import typing
import uuid
from collections.abc import Mapping
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import uuid_zero

API_KEYS: Mapping[str, int] = {name: key for key, name in api_key_map.items()}
Fields = dict[str, Any]
_MILLISECOND = datetime.timedelta(milliseconds=1)
_NUMBERS = itertools.count()
_UNIX_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class ClosedError(Exception):
    """The peer closed the connection instead of answering."""


@functools.cache
def _hints(schema: type) -> dict[str, Any]:
    return typing.get_type_hints(schema)


def _to_wire(hint: Any, value: Any) -> Any:
    """A plain value as kio wants it: dicts to entities, lists to tuples, milliseconds to timedeltas."""
    if value is None:
        return None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(arm for arm in typing.get_args(hint) if arm is not type(None))
    if typing.get_origin(hint) is tuple:
        return tuple(_to_wire(typing.get_args(hint)[0], item) for item in value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return entity(hint, value)
    if isinstance(hint, type) and issubclass(hint, datetime.timedelta):
        return datetime.timedelta(milliseconds=value)
    if isinstance(hint, type) and issubclass(hint, datetime.datetime):
        return None if value == -1 else _UNIX_EPOCH + datetime.timedelta(milliseconds=value)
    return value


def entity(schema: type, fields: Fields) -> Any:
    """An instance of a kio schema class from nested plain values; an unknown field is a TypeError."""
    hints = _hints(schema)
    return schema(**{name: _to_wire(hints.get(name), value) for name, value in fields.items()})


def plain(value: Any) -> Any:
    """The reverse of `entity`: what kio read, as dicts, lists, ints, strings and bytes."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, enum.IntEnum):
        return int(value)
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - _UNIX_EPOCH) // _MILLISECOND
    return value


def topic_id(value: Any) -> uuid.UUID:
    """A topic id as a UUID; kio gives None for the zero id."""
    return uuid_zero if value is None else value


def encode_request(api: str, version: int, correlation_id: int, fields: Fields) -> bytes:
    """A request frame without its length prefix."""
    schema = load_request_schema(API_KEYS[api], version)
    header_schema: Any = schema.__header_schema__
    header = {
        "request_api_key": API_KEYS[api],
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": "probe",
    }
    names = {f.name for f in dataclasses.fields(header_schema)}
    out = io.BytesIO()
    kept = {name: value for name, value in header.items() if name in names}
    entity_writer(header_schema)(out, header_schema(**kept))
    entity_writer(schema)(out, entity(schema, fields))
    return out.getvalue()


def _unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _compact_string(data: bytes, position: int) -> tuple[str, int]:
    size, position = _unsigned_varint(data, position)
    return data[position : position + size - 1].decode(), position + size - 1


def _describe_transactions(data: bytes) -> Fields:
    """DescribeTransactions v0 by hand: kio refuses a transaction_start_time of -1, which means none."""
    count, position = _unsigned_varint(data, 9)
    states = []
    for _ in range(count - 1):
        (code,) = struct.unpack_from(">h", data, position)
        name, position = _compact_string(data, position + 2)
        state, position = _compact_string(data, position)
        timeout, start, producer_id, epoch = struct.unpack_from(">iqqh", data, position)
        topic_count, position = _unsigned_varint(data, position + 22)
        topics = []
        for _ in range(topic_count - 1):
            topic, position = _compact_string(data, position)
            size, position = _unsigned_varint(data, position)
            partitions = list(struct.unpack_from(f">{size - 1}i", data, position))
            position += 4 * (size - 1) + 1
            topics.append({"topic": topic, "partitions": partitions})
        position += 1
        states.append(
            {
                "error_code": code,
                "transactional_id": name,
                "transaction_state": state,
                "transaction_timeout": timeout,
                "transaction_start_time": start,
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "topics": topics,
            }
        )
    return {"throttle_time": struct.unpack_from(">i", data, 5)[0], "transaction_states": states}


def decode_response(api: str, version: int, frame: bytes) -> Fields:
    """The body of a response frame (correlation id first) as plain values."""
    if api == "describe_transactions":
        return _describe_transactions(frame)
    schema = load_response_schema(API_KEYS[api], version)
    header_schema: Any = schema.__header_schema__
    _, position = entity_reader(header_schema)(frame, 0)
    body, size = entity_reader(schema)(frame, position)
    if position + size != len(frame):
        raise ValueError(f"{api} v{version}: {len(frame) - position - size} bytes after the answer")
    result = plain(body)
    assert isinstance(result, dict)
    return result


class Connection:
    """One TCP connection; `log`, when given, collects (api, version, request frame, response frame).

    Of several addresses in `bootstrap` each connection takes the next one: every agent has its share.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout: float = 60.0,
        log: list[tuple[str, int, bytes, bytes]] | None = None,
    ) -> None:
        addresses = bootstrap.split(",")
        host, port = addresses[next(_NUMBERS) % len(addresses)].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0
        self.log = log

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send_frame(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            try:
                part = self.socket.recv(min(count, 1 << 20))
            except ConnectionError as error:
                raise ClosedError(str(error)) from error
            if not part:
                raise ClosedError("end of stream")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def receive_frame(self) -> bytes:
        """The next response frame without its length; ClosedError when the peer hangs up."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def send(self, api: str, version: int, fields: Fields) -> int:
        """Send without awaiting the answer; returns the correlation id."""
        self.correlation_id += 1
        self.send_frame(encode_request(api, version, self.correlation_id, fields))
        return self.correlation_id

    def receive(self, api: str, version: int) -> Fields:
        return decode_response(api, version, self.receive_frame())

    def call(self, api: str, version: int, /, **fields: Any) -> Fields:
        """One request, its answer decoded."""
        self.correlation_id += 1
        request = encode_request(api, version, self.correlation_id, fields)
        self.send_frame(request)
        response = self.receive_frame()
        if self.log is not None:
            self.log.append((api, version, request, response))
        return decode_response(api, version, response)
