"""The CPU time to parse a request and to serialize its response, for every API that agents serve.

Messages are generated from their schemas, in the newest version that agents serve. A figure is the minimum of many
repetitions, because other load on the machine can only increase it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any, Final

from bench.figures import Better, Figure, Row, Run
from bench.rounds import Bench
from lacuna.agent.api import Api
from lacuna.agent.apis import discover
from lacuna.wire import kernel
from lacuna.wire.layout import Field, Struct

READ = Figure("read µs", Better.LESS)
WRITE = Figure("write µs", Better.LESS)
#: How long each figure is measured.
SECONDS: Final = {"smoke": 0.002, "quick": 0.02, "full": 0.2}
CALLS: Final = 200

#: The lengths of a message's arrays, of the arrays in their elements, and so on.
Sizes = tuple[int, int, int]
USUAL: Final[Sizes] = (2, 2, 2)
#: By API key: the size's name, and the lengths.
SIZES: Final[Mapping[int, Mapping[str, Sizes]]] = {
    0: {", 1 partition": (1, 1, 0), ", 100 partitions": (1, 100, 0)},
    1: {", 1 partition": (1, 1, 0), ", 100 partitions": (1, 100, 0)},
    3: {", 10 topics of 16 partitions": (10, 16, 3)},
    8: {", 16 partitions": (1, 16, 0)},
    24: {", 8 partitions": (1, 8, 0)},
}
#: The last version of AddPartitionsToTxn that clients send; later ones are for brokers.
LAST_OF_CLIENTS: Final = {24: 3}
VALUES: Final[Mapping[int, object]] = {
    kernel.BOOL: True,
    kernel.INT8: 0,
    kernel.INT16: 0,
    kernel.UINT16: 9092,
    kernel.INT32: 1_000,
    kernel.UINT32: 1_000,
    kernel.INT64: 1_000_000,
    kernel.FLOAT64: 1.5,
    kernel.UUID: bytes(range(16)),
    kernel.STRING: "a-name-of-20-letters",
    kernel.BYTES: bytes(32),
    kernel.RECORDS: memoryview(bytes(1024)),
    kernel.BUFFERS: (bytes(1024),),
}


def messages(bench: Bench) -> Iterator[Row]:
    """Yields a row for each API and size."""
    seconds = SECONDS[bench.size.name]
    for api in sorted(discover().apis(), key=lambda api: api.key):
        version = LAST_OF_CLIENTS.get(api.key, api.max_version)
        name = api.request.body.make.__name__.removesuffix("Request")
        for size, lengths in SIZES.get(api.key, {"": USUAL}).items():
            yield Row(f"{name} v{version}{size}", "lacuna", [_run(api, version, lengths, seconds)])


def _run(api: Api[Any, Any], version: int, lengths: Sizes, seconds: float) -> Run:
    request = api.request.write(made_up(api.request.body, version, lengths), version)
    response = made_up(api.response.body, version, lengths)
    return {
        READ: _microseconds(api.request.read, memoryview(request), version, seconds),
        WRITE: _microseconds(api.response.buffers, response, version, seconds),
    }


def made_up(struct: Struct, version: int, lengths: Sizes) -> Any:
    """Returns a value for a struct, with arrays of these lengths and default values for tagged fields."""
    fields = zip(struct.make._fields, struct.fields, strict=True)
    return struct.make(
        **{
            name: _value(field, version, lengths)
            for name, field in fields
            if field.is_in(version) and field.tag is None
        }
    )


def _value(field: Field, version: int, lengths: Sizes) -> object:
    if field.is_array:
        element = replace(field, is_array=False)
        return [_value(element, version, (*lengths[1:], 0)) for _ in range(lengths[0])]
    if isinstance(field.kind, Struct):
        return made_up(field.kind, version, lengths)
    return VALUES[field.kind]


def _microseconds(
    call: Callable[[Any, int], object], message: object, version: int, seconds: float
) -> float:
    end = time.monotonic() + seconds
    least = float("inf")
    while time.monotonic() < end or least == float("inf"):
        started = time.process_time_ns()
        for _ in repeat(None, CALLS):
            call(message, version)
        least = min(least, time.process_time_ns() - started)
    return least / CALLS / 1000
