"""Tests that old Java clients read the message sets that lacuna.logstore.records.legacy writes (S22, S24)."""

from __future__ import annotations

import itertools
import pathlib

import pytest

from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy import from_batches
from tests.golden import old_clients

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TIME = 1_480_000_000_000
# Key and value by offset delta.
PAYLOADS: dict[int, tuple[bytes | None, bytes | None]] = {
    0: (b"k", b"v"),
    1: (None, b"x" * 3000),
    4: (b"gone", None),
    5: (b"", b""),
    9: (b"z", b"y" * 70_000),
}


def _batch(base_offset: int, codec: Codec, timestamp_type: TimestampType) -> bytes:
    """Return five records with a hole, null and empty keys and values, and headers that must be dropped."""
    records = tuple(
        NewRecord(offset_delta=d, timestamp=TIME - d, key=k, value=v, headers=((b"h", b"1"),))
        for d, (k, v) in PAYLOADS.items()
    )
    return BatchToWrite(
        records=records,
        base_offset=base_offset,
        codec=codec,
        timestamp_type=timestamp_type,
        max_timestamp=TIME + 9,
    ).encode()


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the folder of the clients' jars and classes."""
    return tmp_path_factory.mktemp("old_clients")


@pytest.mark.parametrize("version", old_clients.VERSIONS)
def test_reads_converted_batches(version: str, jars: pathlib.Path) -> None:
    """S24: every codec (zstd as gzip) and timestamp type. The client checks the CRC-32s."""
    magic = 0 if version == "0.9.0.1" else 1
    magics = (0,) if magic == 0 else (0, 1)
    cases = list(itertools.product(magics, Codec, TimestampType))
    sets = [
        from_batches(
            [_batch(0, codec, kind), _batch(2**33, codec, kind)], magic=magic, first_offset=0
        )
        for magic, codec, kind in cases
    ]
    answers = old_clients.answers(jars, version, [f"read {data.hex()}" for data in sets])
    for (magic, codec, kind), answer in zip(cases, answers, strict=True):
        got = old_clients.rows(answer)
        assert got == _expected(magic, kind), (magic, codec, kind)


def _expected(magic: int, kind: TimestampType) -> list[old_clients.Row]:
    expected: list[old_clients.Row] = []
    for base, (delta, (key, value)) in itertools.product((0, 2**33), PAYLOADS.items()):
        time = TIME + 9 if kind is TimestampType.LOG_APPEND_TIME else TIME - delta
        expected.append((base + delta, time if magic else -1, key, value))
    return expected
