"""Requests of any API and version, built by hypothesis from kio's schemas."""

import dataclasses
import datetime
import types
import typing
import uuid
from functools import cache
from typing import Any

from hypothesis import strategies as st

from agent.apis.schema import request_class
from tests.clients.batch import batch

_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_NAMES = st.one_of(
    st.sampled_from(["t", "", "a/b", "nope", "1", "x" * 250]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
_RECORDS = [
    batch([b"a", b"b"]),
    batch(crc_xor=1),
    batch(producer_id=7, producer_epoch=0, base_sequence=0),
    batch(attributes=16, producer_id=7, producer_epoch=0, base_sequence=0),
    batch() + batch(),
    batch(count=2**31 - 1),
    batch(length_add=2**30),
]
_UUIDS = st.one_of(st.none(), st.sampled_from([uuid.UUID(int=1), uuid.UUID(int=2)]), st.uuids())


def _integers(bits: int) -> st.SearchStrategy[int]:
    top = (1 << (bits - 1)) - 1
    return st.one_of(
        st.integers(-1, 4), st.sampled_from([top, -top - 1]), st.integers(-top - 1, top)
    )


def _primitive(kafka_type: str) -> st.SearchStrategy[Any]:
    if kafka_type in _INTEGERS:
        return _integers(_INTEGERS[kafka_type])
    if kafka_type == "uint16":
        return st.integers(0, 65_535)
    by_type: dict[str, st.SearchStrategy[Any]] = {
        "string": _NAMES,
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": _UUIDS,
        "bytes": st.binary(max_size=20),
        "records": st.one_of(st.binary(max_size=80), st.sampled_from(_RECORDS)),
        "timedelta_i32": _integers(32).map(lambda ms: datetime.timedelta(milliseconds=ms)),
        "timedelta_i64": st.integers(-1, 1 << 40).map(
            lambda ms: datetime.timedelta(milliseconds=ms)
        ),
    }
    return by_type[kafka_type]


def _of_field(field: dataclasses.Field[Any], hint: Any) -> st.SearchStrategy[Any]:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    plain = next(option for option in options if option is not type(None))
    is_tuple = typing.get_origin(plain) is tuple
    inner = typing.get_args(plain)[0] if is_tuple else plain
    kafka_type = field.metadata.get("kafka_type")
    made = _of_class(inner) if kafka_type is None else _primitive(kafka_type)
    if is_tuple:
        made = st.lists(made, max_size=3).map(tuple)
    return st.one_of(st.none(), made) if type(None) in options else made


@cache
def _of_class(cls: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.fixed_dictionaries(
        {field.name: _of_field(field, hints[field.name]) for field in dataclasses.fields(cls)}
    ).map(lambda values: cls(**values))


def requests(api_key: int, version: int) -> st.SearchStrategy[Any]:
    """Any request of that API and version."""
    return _of_class(request_class(api_key, version))
