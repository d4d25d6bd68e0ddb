"""Reading past tagged fields that kio does not know.

A newer client may send tagged fields that a version did not have when its schema was written; they are
to be skipped (KIP-482). kio's native reader is an order faster and refuses them with a KeyError, so
it comes first and this one only then.
"""

from collections.abc import Callable
from dataclasses import Field, fields
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from kio._kio_native import get_field_reader
from kio.serial._introspect import EntityField, EntityTupleField, classify_field

from agent.wire import read_bytes, read_uvarint, skip_tags

#: Takes (body, position), gives a value and the position behind it.
_Read: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
_NULL: Final = 0xFF


def read_lenient(cls: Any, body: memoryview, at: int) -> tuple[Any, int]:
    """A value of a flexible kio class without tagged fields of its own, and the position behind it.

    Raises kio's SerialError or MalformedRequest.
    """
    values: dict[str, Any] = {}
    for field, read in _plan(cls):
        values[field.name], at = read(body, at)
    return cls(**values), skip_tags(body, at)


def _read_entity(cls: Any, body: memoryview, at: int) -> tuple[Any, int]:
    """One that may be null: it has a byte in front of it, which is -1 then."""
    marker, at = read_bytes(body, at, 1)
    return (None, at) if marker[0] == _NULL else read_lenient(cls, body, at)


def _read_entities(cls: Any, body: memoryview, at: int) -> tuple[tuple[Any, ...] | None, int]:
    count, at = read_uvarint(body, at)
    if count == 0:
        return None, at
    found = []
    for _ in range(count - 1):
        value, at = read_lenient(cls, body, at)
        found.append(value)
    return tuple(found), at


@lru_cache(maxsize=1024)
def _plan(cls: Any) -> tuple[tuple[Field[Any], _Read], ...]:
    """How each field is read: what is nested here, the rest by kio."""
    return tuple((field, _reader(cls, field)) for field in fields(cls))


def _reader(cls: Any, field: Field[Any]) -> _Read:
    kind = classify_field(field)
    if isinstance(kind, EntityTupleField):
        return partial(_read_entities, kind.type_)
    if isinstance(kind, EntityField):
        return partial(_read_entity, kind.type_)
    read = get_field_reader(cls, field, False, False)

    def read_primitive(body: memoryview, at: int) -> tuple[Any, int]:
        value, size = read(body, at)
        return value, at + size

    return read_primitive
