"""Reading past tagged fields that kio does not know.

A newer client may send tagged fields that a version did not have when its schema was written; they are
to be skipped (KIP-482). kio's native reader is an order faster and refuses them with a KeyError, so
it comes first and this one only then.
"""

from dataclasses import Field, fields
from functools import lru_cache
from typing import Any

from kio._kio_native import get_field_reader
from kio.serial._introspect import EntityTupleField, classify_field

from agent.wire import read_uvarint, skip_tags


def read_lenient(cls: Any, body: memoryview, at: int) -> tuple[Any, int]:
    """A value of a flexible kio class without tagged fields of its own, and the position behind it.

    Raises kio's SerialError or MalformedRequest.
    """
    values: dict[str, Any] = {}
    for field, nested, read in _plan(cls):
        if nested is not None:
            values[field.name], at = _read_entities(nested, body, at)
        else:
            values[field.name], size = read(body, at)
            at += size
    return cls(**values), skip_tags(body, at)


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
def _plan(cls: Any) -> tuple[tuple[Field[Any], Any, Any], ...]:
    """Of each field: the class of its entities if it is an array of such, else kio's reader."""
    steps: list[tuple[Field[Any], Any, Any]] = []
    for field in fields(cls):
        kind = classify_field(field)
        if isinstance(kind, EntityTupleField):
            steps.append((field, kind.type_, None))
        else:
            steps.append((field, None, get_field_reader(cls, field, False, False)))
    return tuple(steps)
