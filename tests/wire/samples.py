"""Arbitrary values of each message of lacuna.wire."""

from __future__ import annotations

import dataclasses
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from lacuna.wire import kernel, peers
from lacuna.wire.layout import Field, Struct
from tests.messages import MESSAGES

OfKind = Callable[[int], st.SearchStrategy[Any]]
#: Those that Kafka has.
KAFKAS = {name: each for name, each in MESSAGES.items() if each.api_key not in peers.OWN_KEYS}
#: Of the kinds that are integers: how many bits, and whether they have a sign.
BITS = {
    kernel.INT8: (8, True),
    kernel.INT16: (16, True),
    kernel.UINT16: (16, False),
    kernel.INT32: (32, True),
    kernel.UINT32: (32, False),
    kernel.INT64: (64, True),
}


def bounds(kind: int) -> tuple[int, int]:
    """Return the smallest and the largest number of a kind in BITS."""
    bits, is_signed = BITS[kind]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)


@cache
def any_of_kind(kind: int) -> st.SearchStrategy[Any]:
    """Draw any value of one of the kernel's kinds."""
    if kind in BITS:
        least, most = bounds(kind)
        return st.one_of(st.sampled_from([least, 0, most]), st.integers(least, most))
    plain: dict[int, st.SearchStrategy[Any]] = {
        kernel.BOOL: st.booleans(),
        kernel.FLOAT64: st.floats(allow_nan=False),
        kernel.BYTES: st.binary(max_size=200),
        kernel.RECORDS: st.binary(max_size=200).map(memoryview),
        kernel.BUFFERS: st.binary(max_size=200).map(
            lambda data: (memoryview(data),) if data else ()
        ),
        kernel.UUID: st.binary(min_size=16, max_size=16),
        kernel.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    }
    return plain[kind]


def _of_field(
    field: Field, default: object, version: int, of_kind: OfKind
) -> st.SearchStrategy[Any]:
    if not field.is_in(version):
        return st.just(default)
    kind = field.kind
    values = of_struct(kind, version, of_kind) if isinstance(kind, Struct) else of_kind(kind)
    if field.is_array:
        values = st.lists(values, max_size=3).map(tuple)
    may_be_null = field.null_since is not None and version >= field.null_since
    return st.one_of(st.none(), values) if may_be_null else values


@cache
def of_struct(
    struct: Struct, version: int, of_kind: OfKind = any_of_kind
) -> st.SearchStrategy[Any]:
    """Draw any value, with defaults for the fields that the version lacks."""
    made: Any = struct.make
    names: Sequence[str] = made._fields
    return st.tuples(
        *(
            _of_field(field, made._field_defaults[name], version, of_kind)
            for name, field in zip(names, struct.fields, strict=True)
        )
    ).map(lambda values: made(*values))


def in_kafkas_json(struct: Struct, value: Any, version: int) -> dict[str, Any]:
    """Return the message in the form of Kafka's JSON converters."""
    found: dict[str, Any] = {}
    for name, field in zip(struct.make._fields, struct.fields, strict=True):
        part = getattr(value, name)
        is_left_out = field.tag is not None and part == struct.make._field_defaults[name]
        if field.is_in(version) and not is_left_out:
            of_records = field.kind in (kernel.RECORDS, kernel.BUFFERS) and part is not None
            found[_camel_case(name) + of_records * "SizeInBytes"] = _in_json(field, part, version)
    return found


def _camel_case(name: str) -> str:
    first, *rest = name.strip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def _in_json(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        one = dataclasses.replace(field, is_array=False)
        return [_in_json(one, each, version) for each in value]
    if isinstance(field.kind, Struct):
        return in_kafkas_json(field.kind, value, version)
    if field.kind == kernel.RECORDS:
        return len(value)
    if field.kind == kernel.BUFFERS:
        return sum(map(len, value))
    if field.kind == kernel.UUID:
        return urlsafe_b64encode(value).decode().rstrip("=")
    return b64encode(value).decode() if field.kind == kernel.BYTES else value
