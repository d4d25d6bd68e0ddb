"""The lengths of a request's arrays and strings, checked before its reader sees them.

kio's native reader takes memory for as many elements as an array claims to have: a request of 30 bytes
could ask for 16 GiB and end the process. Here only lengths are looked at, as steps that are made from
kio's classes once; a request without arrays costs nothing.

A string is at most LONGEST_STRING bytes, also in flexible versions, which could say more: others have no room for it,
so that one group with a longer name would leave every older client without a list of groups.
"""

import struct
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveTupleField,
    classify_field,
)

from agent.wire import (
    INT16,
    INT32,
    LONGEST_STRING,
    MalformedRequest,
    check_string,
    read_count,
    read_uvarint,
    skip_tags,
)

#: Takes (body, position) and gives the position behind what it stands for.
Step = Callable[[memoryview, int], int]

_INT8: Final = struct.Struct(">b")
_NULL: Final = -1
_SIZES: Final = {
    "bool": 1,
    "float64": 8,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "timedelta_i64": 8,
    "uuid": 16,
}


def check_counts(cls: Any, body: memoryview) -> None:
    """Raises MalformedRequest where an array of a kio class is longer than what is left of `body`.

    So it does where a string is longer than LONGEST_STRING.
    """
    at = 0
    steps = _all_steps(cls) if len(body) > LONGEST_STRING else _steps_to_last_array(cls)
    try:
        for step in steps:
            at = step(body, at)
    except struct.error as error:
        raise MalformedRequest(f"the request ends early: {error}") from None


@lru_cache(maxsize=1024)
def _all_steps(cls: Any) -> tuple[Step, ...]:
    return tuple(_steps_of(cls))


@lru_cache(maxsize=1024)
def _steps_to_last_array(cls: Any) -> tuple[Step, ...]:
    steps = _steps_of(cls)
    while steps and not isinstance(steps[-1], _Array | _Nullable):
        steps.pop()
    return tuple(steps)


def _steps_of(cls: Any) -> list[Step]:
    """The steps over an entity; neighbours of fixed size are one."""
    steps: list[Step] = []
    for field in fields(cls):
        step = _step_of(cls, field)
        if isinstance(step, _Fixed) and steps and isinstance(steps[-1], _Fixed):
            steps[-1] = _Fixed(steps[-1].size + step.size)
        else:
            steps.append(step)
    if cls.__flexible__:
        steps.append(skip_tags)
    return steps


def _step_of(cls: Any, field: Any) -> Step:
    kind = classify_field(field)
    kafka_type = field.metadata.get("kafka_type")
    if "tag" in field.metadata:
        raise TypeError(
            f"{cls.__name__}.{field.name} is a tagged field, for which there is no step"
        )
    if isinstance(kind, EntityTupleField):
        return _Array(_steps_of(kind.type_), cls.__flexible__)
    if isinstance(kind, EntityField):
        return _Nullable(_steps_of(kind.type_))
    step = _plain_step(kafka_type, cls.__flexible__)
    return _Array([step], cls.__flexible__) if isinstance(kind, PrimitiveTupleField) else step


def _plain_step(kafka_type: str, is_flexible: bool) -> Step:
    if kafka_type in _SIZES:
        return _Fixed(_SIZES[kafka_type])
    if is_flexible:
        return _over_compact_string if kafka_type == "string" else _over_compact
    return {"string": _over_string, "bytes": _over_bytes}[kafka_type]


def _over_string(body: memoryview, at: int) -> int:
    size: int = INT16.unpack_from(body, at)[0]
    return at + 2 + max(size, 0)


def _over_bytes(body: memoryview, at: int) -> int:
    size: int = INT32.unpack_from(body, at)[0]
    return at + 4 + max(size, 0)


def _over_compact(body: memoryview, at: int) -> int:
    size, at = read_uvarint(body, at)
    return at + max(size - 1, 0)


def _over_compact_string(body: memoryview, at: int) -> int:
    size, at = read_uvarint(body, at)
    check_string(size - 1)
    return at + max(size - 1, 0)


class _Fixed:
    """So many bytes."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, _body: memoryview, at: int) -> int:
        return at + self.size


class _Nullable:
    """An entity, or the byte -1 in its place."""

    __slots__ = ("steps",)

    def __init__(self, steps: list[Step]) -> None:
        self.steps = tuple(steps)

    def __call__(self, body: memoryview, at: int) -> int:
        marker: int = _INT8.unpack_from(body, at)[0]
        at += _INT8.size
        for step in self.steps if marker != _NULL else ():
            at = step(body, at)
        return at


class _Array:
    """A length, and that many elements of at least one byte each."""

    __slots__ = ("element", "is_flexible")

    def __init__(self, element: list[Step], is_flexible: bool) -> None:
        self.element = tuple(element)
        self.is_flexible = is_flexible

    def __call__(self, body: memoryview, at: int) -> int:
        count, at = read_count(body, at, self.is_flexible)
        only = self.element[0] if len(self.element) == 1 else None
        if isinstance(only, _Fixed):
            end = at + count * only.size
            if end > len(body):
                raise MalformedRequest(f"{count} elements do not fit the request")
            return end
        for _ in range(count):
            for step in self.element:
                at = step(body, at)
        return at
