"""The kernel in both forms (every test that takes `kernel` runs once with each), and columns as rows, according only to
the rules of Arrow's layout.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from lacuna.logstore.records.column_layout import BinaryColumn, HeaderColumn, RecordColumns
from tests.forms import FORMS, compiled, interpreted

KERNEL = "lacuna.logstore.records.kernel"
PIECES = "lacuna.logstore.records.pieces"
READING = "lacuna.logstore.objects.reading"
REWRITING = "lacuna.logstore.records.rewriting"
COLUMNS = "lacuna.logstore.records.columns"
ENCODING = "lacuna.logstore.records.encoding"
LEGACY_KERNEL = "lacuna.logstore.records.legacy.kernel"


def each_form(module: str) -> Any:
    """Create a fixture that returns the module first interpreted and then compiled."""

    @pytest.fixture(scope="session", params=FORMS)
    def form(request: pytest.FixtureRequest) -> ModuleType:
        return interpreted(module) if request.param == "interpreted" else compiled(module)

    return form


def both_forms(module: str) -> Any:
    """Create a fixture that returns both the interpreted and the compiled module."""

    @pytest.fixture(scope="session")
    def forms() -> tuple[ModuleType, ModuleType]:
        return interpreted(module), compiled(module)

    return forms


kernel, both_kernels = each_form(KERNEL), both_forms(KERNEL)
pieces, both_pieces = each_form(PIECES), both_forms(PIECES)
reading = each_form(READING)
columns, both_columns = each_form(COLUMNS), both_forms(COLUMNS)
rewriting, both_rewritings = each_form(REWRITING), both_forms(REWRITING)
encoding, both_encodings = each_form(ENCODING), both_forms(ENCODING)
legacy_kernel, both_legacy_kernels = each_form(LEGACY_KERNEL), both_forms(LEGACY_KERNEL)


def is_valid(validity: memoryview | None, row: int) -> bool:
    return validity is None or bool(validity[row >> 3] >> (row & 7) & 1)


def binary_rows(column: BinaryColumn | None, count: int) -> list[bytes | None]:
    """Return the rows of a column, after checking that its buffers match `count`."""
    if column is None:
        return [None] * count
    validity = None if column.validity is None else memoryview(column.validity)
    offsets, data = memoryview(column.offsets), memoryview(column.data)
    assert (offsets.format, len(offsets), offsets[0]) == ("i", count + 1, 0)
    assert offsets[count] == len(data)
    rows: list[bytes | None] = []
    for row in range(count):
        value = bytes(data[offsets[row] : offsets[row + 1]])
        rows.append(value if is_valid(validity, row) else None)
        assert value == b"" or rows[-1] is not None
    if validity is not None:
        assert len(validity) == (count + 7) // 8
        assert None in rows
    return rows


def header_rows(column: HeaderColumn, count: int) -> list[tuple[tuple[bytes | None, ...], ...]]:
    lists = memoryview(column.list_offsets)
    assert (lists.format, len(lists), lists[0]) == ("i", count + 1, 0)
    keys = binary_rows(column.keys, lists[count])
    pairs = list(zip(keys, binary_rows(column.values, lists[count]), strict=True))
    return [tuple(pairs[lists[row] : lists[row + 1]]) for row in range(count)]


Row = tuple[int, int, int, bytes | None, bytes | None, object]


def rows_of(columns: RecordColumns) -> list[Row]:
    """Return (offset, timestamp, timestamp type, key, value, headers) for each record."""
    count = columns.count
    headers: Sequence[object] = [()] * count
    if columns.headers is not None:
        headers = header_rows(columns.headers, count)
    fixed = (columns.offsets, columns.timestamps, columns.timestamp_types)
    assert [column.format for column in fixed] == ["q", "q", "i"]
    return list(
        zip(
            *(column.tolist() for column in fixed),
            binary_rows(columns.keys, count),
            binary_rows(columns.values, count),
            headers,
            strict=True,
        )
    )


def binary_column(rows: Sequence[bytes | None]) -> BinaryColumn:
    """Return the column for `rows` as another Arrow writer would lay it out."""
    offsets, data = array("i", [0]), bytearray()
    validity = bytearray((len(rows) + 7) // 8)
    for index, row in enumerate(rows):
        if row is not None:
            validity[index >> 3] |= 1 << (index & 7)
            data += row
        offsets.append(len(data))
    return BinaryColumn(validity if None in rows else None, offsets, data)
