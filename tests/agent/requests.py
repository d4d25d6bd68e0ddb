"""Requests of any API and version, which hypothesis builds from the layouts of lacuna.wire."""

from typing import Any

from hypothesis import strategies as st

from lacuna.wire import kernel
from lacuna.wire.layout import ZERO_UUID
from tests.clients.batch import batch
from tests.messages import REQUESTS
from tests.wire.samples import BITS, any_of_kind, bounds, of_struct

_NAMES = st.one_of(
    st.sampled_from(["t", "", "a/b", "nope", "1", "x" * 250, "__consumer_offsets"]),
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
_ID_SIZE = len(ZERO_UUID)
_LIKELY: dict[int, st.SearchStrategy[Any]] = {
    kernel.STRING: _NAMES,
    kernel.UUID: st.one_of(
        st.sampled_from([bytes(15) + b"\1", bytes(15) + b"\2", ZERO_UUID]),
        st.binary(min_size=_ID_SIZE, max_size=_ID_SIZE),
    ),
    kernel.BYTES: st.binary(max_size=20),
    kernel.RECORDS: st.one_of(st.binary(max_size=80), st.sampled_from(_RECORDS)).map(memoryview),
}


def _of_kind(kind: int) -> st.SearchStrategy[Any]:
    """Values that reach deep into the agent: small numbers, existing names, batches."""
    if kind not in BITS:
        return _LIKELY[kind] if kind in _LIKELY else any_of_kind(kind)
    least, most = bounds(kind)
    return st.one_of(
        st.integers(max(-1, least), 4), st.sampled_from([most, least]), st.integers(least, most)
    )


def requests(api_key: int, version: int) -> st.SearchStrategy[Any]:
    """A strategy for arbitrary requests of this API and version."""
    return of_struct(REQUESTS[api_key].body, version, _of_kind)
