"""Request and response bodies by tables, for the versions of an API that kio's schemas do not have.

An `Entity` lists its fields in the order of the wire, and `make` takes their values by name: the class of
kio's lowest version, so that the handler of that version serves the older ones too, or a tuple of ours.
`reader` and `writer` turn one table a version into an Api's `decode` and `encode`. None of these versions
is flexible.

    _PARTITION = Entity(FetchPartition, ("partition", INT32), ("fetch_offset", INT64), current_leader_epoch=-1)
    _TOPIC = Entity(FetchTopic, ("name", STRING), ("partitions", Array(_PARTITION)), topic_id=b"")

Keywords are what the version lacks; a field of the wire that nobody looks at has no name. Elements are made as they
are read, so that a count that lies costs nothing.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Protocol

from agent import wire
from agent.wire import Buffer, MalformedRequest, read_bytes, read_name, read_string, write_string

_MILLISECOND: Final = timedelta(milliseconds=1)
# Smaller buffers of an answer are copied together, larger ones leave as they are.
_SMALL: Final = 4096


class Kind(Protocol):
    """A type of the wire."""

    def read(self, body: memoryview, at: int) -> tuple[Any, int]:
        """The value and the position behind it. Raises MalformedRequest or struct.error."""
        ...

    def write(self, out: list[Buffer], value: Any) -> None:
        """Add the value's bytes."""
        ...


class Number:
    """A number or a bool, as `struct` has it."""

    def __init__(self, code: str) -> None:
        self._struct = struct.Struct(">" + code)

    def read(self, body: memoryview, at: int) -> tuple[Any, int]:
        """See Kind."""
        return self._struct.unpack_from(body, at)[0], at + self._struct.size

    def write(self, out: list[Buffer], value: Any) -> None:
        """See Kind."""
        out.append(self._struct.pack(value))


class Milliseconds:
    """An int32 on the wire, kio's timedelta here."""

    def read(self, body: memoryview, at: int) -> tuple[timedelta, int]:
        """See Kind."""
        return wire.INT32.unpack_from(body, at)[0] * _MILLISECOND, at + wire.INT32.size

    def write(self, out: list[Buffer], value: timedelta) -> None:
        """See Kind."""
        out.append(wire.INT32.pack(value // _MILLISECOND))


class String:
    """Text, which may be null where `nullable`."""

    def __init__(self, nullable: bool = False) -> None:
        self._read = read_string if nullable else read_name

    def read(self, body: memoryview, at: int) -> tuple[str | None, int]:
        """See Kind."""
        return self._read(body, at, False)

    def write(self, out: list[Buffer], value: str | None) -> None:
        """See Kind."""
        out.append(write_string(value, False))


class Records:
    """A message set with its size: a view of the request or None for null; written from buffers."""

    def read(self, body: memoryview, at: int) -> tuple[memoryview | None, int]:
        """See Kind."""
        (size,) = wire.INT32.unpack_from(body, at)
        at += wire.INT32.size
        return (None, at) if size < 0 else read_bytes(body, at, size)

    def write(self, out: list[Buffer], value: Sequence[Buffer]) -> None:
        """See Kind."""
        out.append(wire.INT32.pack(sum(map(len, value))))
        out.extend(value)


class Zero:
    """An int32 that is always 0: throttle_time_ms in answers that have no such value."""

    def read(self, body: memoryview, at: int) -> tuple[Any, int]:
        """Passed over."""
        return INT32.read(body, at)

    def write(self, out: list[Buffer], value: Any) -> None:  # noqa: ARG002 - see Kind
        """See Kind."""
        out.append(bytes(4))


class Array:
    """A tuple of elements; null is None where `nullable`."""

    def __init__(self, element: Kind, nullable: bool = False) -> None:
        self._element = element
        self._nullable = nullable

    def read(self, body: memoryview, at: int) -> tuple[tuple[Any, ...] | None, int]:
        """See Kind."""
        (count,) = wire.INT32.unpack_from(body, at)
        at += wire.INT32.size
        if count < 0:
            if not self._nullable:
                raise MalformedRequest("an array that cannot be null is null")
            return None, at
        if count > len(body) - at:
            raise MalformedRequest(f"{count} elements do not fit the request")
        values = []
        for _ in range(count):
            value, at = self._element.read(body, at)
            values.append(value)
        return tuple(values), at

    def write(self, out: list[Buffer], value: Sequence[Any]) -> None:
        """See Kind."""
        out.append(wire.INT32.pack(len(value)))
        for each in value:
            self._element.write(out, each)


class Entity:
    """Fields in the order of the wire; see the module's text."""

    def __init__(
        self, make: Callable[..., Any], /, *fields: tuple[str | None, Kind], **absent: Any
    ) -> None:
        self._make = make
        self._fields = fields
        self._absent = absent

    def read(self, body: memoryview, at: int) -> tuple[Any, int]:
        """See Kind."""
        values = dict(self._absent)
        for name, kind in self._fields:
            value, at = kind.read(body, at)
            if name is not None:
                values[name] = value
        return self._make(**values), at

    def write(self, out: list[Buffer], value: Any) -> None:
        """See Kind."""
        for name, kind in self._fields:
            kind.write(out, None if name is None else getattr(value, name))


INT8: Final = Number("b")
INT16: Final = Number("h")
INT32: Final = Number("i")
INT64: Final = Number("q")
BOOL: Final = Number("?")
#: Kafka's error codes are enumerations in kio, plain numbers elsewhere.
ERROR_CODE: Final = INT16
MILLISECONDS: Final = Milliseconds()
STRING: Final = String()
NULLABLE_STRING: Final = String(nullable=True)
RECORDS: Final = Records()
THROTTLE: Final = Zero()


def reader(
    tables: Mapping[int, Entity], *, is_exact: bool = False
) -> Callable[[memoryview, int], Any]:
    """An Api's `decode` of the versions in `tables`. `is_exact`: nothing may follow the body."""

    def decode(body: memoryview, version: int) -> Any:
        try:
            request, at = tables[version].read(body, 0)
        except struct.error as error:
            raise MalformedRequest(f"the request (v{version}) ends early: {error}") from None
        if is_exact and at != len(body):
            raise MalformedRequest(f"{len(body) - at} bytes follow the end (v{version})")
        return request

    return decode


def writer(tables: Mapping[int, Entity]) -> Callable[[Any, int], Sequence[Buffer]]:
    """An Api's `encode` of the versions in `tables`."""

    def encode(response: Any, version: int) -> Sequence[Buffer]:
        out: list[Buffer] = []
        tables[version].write(out, response)
        return _join_small(out)

    return encode


def _join_small(buffers: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes in few buffers."""
    joined: list[Buffer] = []
    small = bytearray()
    for buffer in buffers:
        if len(buffer) < _SMALL:
            small += buffer
            continue
        if small:
            joined.append(small)
            small = bytearray()
        joined.append(buffer)
    if small:
        joined.append(small)
    return joined
