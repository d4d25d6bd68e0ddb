"""A small Kafka client on raw sockets that takes and returns plain dicts, and can log the frames.

It can send requests that a correct client never sends (a bad CRC, an old epoch, an unknown version) and returns
complete responses. Fields have Kafka's names in snake case, an id is a UUID, and `records` are plain bytes.
"""

from __future__ import annotations

import itertools
import socket
import struct
import uuid
from collections.abc import Mapping
from typing import Any

from lacuna.wire.kernel import BUFFERS, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Struct
from tests.golden.messages import API_NAMES
from tests.messages import REQUESTS, RESPONSES, make, read_exactly

API_KEYS: Mapping[str, int] = {name: key for key, name in API_NAMES.items()}
Fields = dict[str, Any]
_CLIENT_ID = b"probe"
_RENAMED = {"count": "count_", "index": "index_"}
_NUMBERS = itertools.count()


class ClosedError(Exception):
    """The peer closed the connection instead of answering."""


def _to_wire(struct: Struct, version: int, fields: Fields) -> Any:
    """Convert nested plain values to a message. Raises TypeError for a field that this version lacks."""
    by_name = dict(zip(struct.make._fields, struct.fields, strict=True))
    values = {_RENAMED.get(name, name): value for name, value in fields.items()}
    return make(
        struct,
        version,
        **{
            name: _value_to_wire(by_name[name], version, value) if name in by_name else value
            for name, value in values.items()
        },
    )


def _value_to_wire(field: Field, version: int, value: Any) -> Any:
    if field.is_array and value is not None:
        return tuple(_one_to_wire(field, version, each) for each in value)
    return _one_to_wire(field, version, value)


def _one_to_wire(field: Field, version: int, value: Any) -> Any:
    if value is None:
        return ZERO_UUID if field.kind == UUID and not field.is_array else None
    if isinstance(field.kind, Struct):
        return _to_wire(field.kind, version, value)
    return value.bytes if field.kind == UUID else value


def _plain(struct: Struct, version: int, value: Any) -> Fields:
    """Convert the fields that exist in this version back to plain values."""
    return {
        name.strip("_"): _plain_value(field, version, getattr(value, name))
        for name, field in zip(struct.make._fields, struct.fields, strict=True)
        if field.is_in(version)
    }


def _plain_value(field: Field, version: int, value: Any) -> Any:
    if field.is_array and value is not None:
        return [_plain_one(field, version, each) for each in value]
    return _plain_one(field, version, value)


def _plain_one(field: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(field.kind, Struct):
        return _plain(field.kind, version, value)
    if field.kind == BUFFERS:
        return b"".join(value)
    return uuid.UUID(bytes=value) if field.kind == UUID else value


def encode_request(api: str, version: int, correlation_id: int, fields: Fields) -> bytes:
    """Return a request frame without its length prefix."""
    message = REQUESTS[API_KEYS[api]]
    header = struct.pack(">hhih", API_KEYS[api], version, correlation_id, len(_CLIENT_ID))
    tags = b"\0" if message.is_flexible(version) else b""
    return (
        header + _CLIENT_ID + tags + message.write(_to_wire(message.body, version, fields), version)
    )


def decode_response(api: str, version: int, frame: bytes) -> Fields:
    """Return the body of a response frame (correlation id first) as plain values."""
    message = RESPONSES[API_KEYS[api]]
    start = 4 + (message.is_flexible(version) and api != "api_versions")
    return _plain(message.body, version, read_exactly(message, frame[start:], version))


class Connection:
    """A TCP connection to a broker. `log`, if given, collects (api, version, request frame, response frame).

    If `bootstrap` lists several addresses, each new connection uses the next one, which spreads them over the agents.
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
        self.peer: tuple[str, int] = (host, int(port))
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
        """Return the next response frame without its length prefix. Raises ClosedError if the peer disconnects."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def send(self, api: str, version: int, fields: Fields) -> int:
        """Send a request without waiting for the answer. Return the correlation id."""
        self.correlation_id += 1
        self.send_frame(encode_request(api, version, self.correlation_id, fields))
        return self.correlation_id

    def receive(self, api: str, version: int) -> Fields:
        return decode_response(api, version, self.receive_frame())

    def call(self, api: str, version: int, /, **fields: Any) -> Fields:
        """Send a request. Return its decoded answer."""
        self.correlation_id += 1
        request = encode_request(api, version, self.correlation_id, fields)
        self.send_frame(request)
        response = self.receive_frame()
        if self.log is not None:
            self.log.append((api, version, request, response))
        return decode_response(api, version, response)
