"""Tests that many pieces in one call, in both forms, give the same results as the kernel's walks piece by piece."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.batch import BatchHeader, BatchToWrite, NewRecord
from lacuna.logstore.records.errors import CorruptBatchError, RecordsError
from lacuna.logstore.records.kernel import walk_and_patch, walk_stored
from lacuna.logstore.records.layout import WalkedBatches, WalkedPieces
from tests.logstore.records.test_kernel import edited, edits


def batch(count: int, size: int = 3, base_offset: int = 0) -> bytes:
    records = tuple(
        NewRecord(offset_delta=delta, timestamp=5 + delta, value=b"v" * size)
        for delta in range(count)
    )
    return BatchToWrite(records=records, base_offset=base_offset).encode()


def walk(
    module: ModuleType,
    data: bytearray,
    pieces: list[tuple[int, int, int, int]],
    verify: bool = True,
) -> WalkedPieces:
    """`pieces` contains (size, base_offset, next_offset, has_true_offsets)."""
    starts = [0]
    for size, *_ in pieces:
        starts.append(starts[-1] + size)
    columns = (array("q", column) for column in zip(*(piece[1:] for piece in pieces), strict=True))
    walked = module.walk_pieces(data, array("q", starts), *columns, verify)
    assert isinstance(walked, WalkedPieces)
    return walked


def test_s20_pieces_get_their_own_offsets_and_columns(pieces: ModuleType) -> None:
    parts = [batch(3), batch(1), batch(2), batch(5, base_offset=70)]
    data = bytearray(b"".join(parts))
    sizes = [len(part) for part in parts]
    walked = walk(
        pieces,
        data,
        [(sizes[0] + sizes[1], 100, 104, 0), (sizes[2], 200, 202, 0), (sizes[3], 60, 90, 1)],
    )
    assert list(walked.firsts) == [0, 2, 3, 4]
    assert list(walked.base_offsets) == [100, 103, 200, 70]
    assert list(walked.last_offsets) == [102, 103, 201, 74]
    assert list(walked.max_timestamps) == [7, 5, 6, 9]
    assert list(walked.positions) == [0, *(sum(sizes[: i + 1]) for i in range(4))]
    assert walked.errors == {}
    for position, base_offset in zip(walked.positions, walked.base_offsets, strict=False):
        header = BatchHeader.parse(data, position)
        assert (header.base_offset, header.partition_leader_epoch) == (base_offset, 0)


def test_a_bad_piece_is_an_error_of_its_own_and_the_others_are_there(pieces: ModuleType) -> None:
    parts = [batch(3), batch(1), batch(2), batch(1)]
    data = bytearray(b"".join(parts))
    data[len(parts[0]) + 65] ^= 1
    bounds = [(100, 103), (103, 104), (104, 105), (200, 201)]
    walked = walk(
        pieces,
        data,
        [(len(part), *bound, 0) for part, bound in zip(parts, bounds, strict=True)],
    )
    assert set(walked.errors) == {1, 2}
    assert "CRC-32C" in str(walked.errors[1])
    assert "do not end at its last offset" in str(walked.errors[2])
    assert [walked.base_offsets[walked.firsts[i]] for i in (0, 3)] == [100, 200]
    with pytest.raises(ValueError, match="piece 0 lies outside the buffer"):
        pieces.walk_pieces(data, array("q", (0, 2**40)), *[array("q", (0,))] * 3, True)
    with pytest.raises(ValueError, match="different lengths"):
        pieces.walk_pieces(data, array("q", (0,)), *[array("q", (0,))] * 3, True)


BAD: dict[str, Callable[[bytes], bytes]] = {
    "nothing was read": lambda piece: bytes(len(piece)),
    "half of it": lambda piece: piece[: len(piece) // 2] + bytes(len(piece) - len(piece) // 2),
    "another checksum in front": lambda piece: piece[:30] + bytes((piece[30] ^ 1,)) + piece[31:],
    "another checksum": lambda piece: piece[:-1] + bytes((piece[-1] ^ 1,)),
    "no whole header": lambda piece: piece[:7],
    "nothing": lambda piece: b"",
}


@pytest.mark.parametrize("name", BAD)
def test_a_sound_piece_ends_where_the_bad_one_behind_it_begins(
    pieces: ModuleType, name: str
) -> None:
    """Otherwise, what is served would contain rejected bytes, or would be empty."""
    sound = [batch(2) + batch(1), batch(3)]
    bad = BAD[name](batch(1) + batch(1))
    parts = [sound[0], bad, bad, sound[1], bad]
    data = bytearray(b"".join(parts))
    walked = walk(
        pieces, data, [(len(part), 10 * at, 10 * at + 3, 0) for at, part in enumerate(parts)]
    )
    assert set(walked.errors) == {1, 2, 4}
    begin = 0
    for at, part in enumerate(parts):
        assert walked.positions[walked.firsts[at]] == begin
        begin += len(part)
    assert walked.positions[walked.firsts[len(parts)]] == begin


@pytest.mark.parametrize(
    ("next_offset", "has_true_offsets", "is_bad"),
    [(104, 0, True), (103, 0, False), (102, 0, True), (104, 1, False), (102, 1, True)],
)
def test_s16_a_piece_ends_where_its_extent_does(
    pieces: ModuleType, next_offset: int, has_true_offsets: int, is_bad: bool
) -> None:
    """This exposes different batches of the same size. Only merged ones may have a hole after them."""
    data = bytearray(batch(3, base_offset=100))
    walked = walk(pieces, data, [(len(data), 100, next_offset, has_true_offsets)])
    assert [str(error) for error in walked.errors.values()] == [
        "corrupt batch at byte 0: its batches do not end at its last offset"
    ] * is_bad


@pytest.mark.parametrize(
    "size", [1, 7, 8, *range(460, 475), 713, 1000, 3071, 3072, 3073, 7000, 100_000]
)
def test_the_checksum_is_crc32c_at_every_size(pieces: ModuleType, size: int) -> None:
    """The compiled form has its own implementation, which sums blocks in parallel: three, or 16 of at least 512 bytes
    in total.
    """
    value = b"".join(zlib.crc32(b"%d" % i).to_bytes(4, "big") for i in range(size // 4 + 1))[:size]
    data = bytearray(BatchToWrite(records=(NewRecord(offset_delta=0, value=value),)).encode())
    assert int.from_bytes(data[17:21], "big") == crc32c(data[21:])
    assert not walk(pieces, bytearray(data), [(len(data), 0, 1, 0)]).errors
    for changed in {21, 27, len(data) // 2, len(data) - 17, len(data) - 1}:
        damaged = bytearray(data)
        damaged[changed] ^= 0x80
        assert walk(pieces, damaged, [(len(data), 0, 1, 0)]).errors
    assert not walk(pieces, damaged, [(len(data), 0, 1, 0)], verify=False).errors


LOG = b"".join(batch(count, 10 * count, 10 * count) for count in range(1, 5))


def walked_or_error(
    piece: bytearray, base_offset: int, verify: bool, true_offsets: int
) -> WalkedBatches | RecordsError:
    """Return the result of the kernel's walk. A piece without batches is invalid."""
    try:
        walked = (walk_stored if true_offsets else walk_and_patch)(piece, base_offset, verify)
    except RecordsError as error:
        return error
    return (
        walked if len(walked) else CorruptBatchError("its batches do not end at its last offset", 0)
    )


@given(
    changes=edits,
    cuts=st.lists(st.integers(0, len(LOG)), max_size=3),
    base_offset=st.integers(0, 2**62),
    verify=st.booleans(),
    true_offsets=st.integers(0, 1),
)
def test_both_forms_find_what_the_walks_find(
    both_pieces: tuple[ModuleType, ModuleType],
    changes: list[tuple[int, bytes]],
    cuts: list[int],
    base_offset: int,
    verify: bool,
    true_offsets: int,
) -> None:
    data = edited(LOG, changes, len(LOG))
    bounds = [0, *sorted(cuts), len(data)]
    shape = []
    for begin, end in pairwise(bounds):
        walked = walked_or_error(bytearray(data[begin:end]), base_offset, verify, true_offsets)
        next_offset = 2**63 - 1
        if not true_offsets and not isinstance(walked, RecordsError):
            next_offset = walked.last_offsets[-1] + 1
        shape.append((end - begin, base_offset, next_offset, true_offsets))
    buffers = [bytearray(data) for _ in both_pieces]
    found = [
        walk(module, buffer, shape, verify)
        for module, buffer in zip(both_pieces, buffers, strict=True)
    ]
    assert [str(error) for error in found[0].errors.values()] == [
        str(error) for error in found[1].errors.values()
    ]
    assert found[0].errors.keys() == found[1].errors.keys()
    for index, (begin, end) in enumerate(pairwise(bounds)):
        piece = bytearray(data[begin:end])
        walked = walked_or_error(piece, base_offset, verify, true_offsets)
        if isinstance(walked, RecordsError):
            assert str(found[0].errors[index]) == str(walked)
            continue
        for module, buffer in zip(found, buffers, strict=True):
            first, stop = module.firsts[index], module.firsts[index + 1]
            assert module.base_offsets[first:stop] == walked.base_offsets
            assert module.last_offsets[first:stop] == walked.last_offsets
            assert module.max_timestamps[first:stop] == walked.max_timestamps
            assert [at - begin for at in module.positions[first:stop]] == list(
                walked.positions[:-1]
            )
            assert buffer[begin:end] == piece


def test_files_are_read_alike(reading: ModuleType, tmp_path: object) -> None:
    for name, content in (("a", b"abcdef"), ("b", b"0123")):
        with open(f"{tmp_path}/{name}", "wb") as file:
            file.write(content)
    columns = [array("q", column) for column in ((0, 2, 3, 4), (1, 5, 0, 2), (2, 3, 1, 2))]
    starts = array("q", (4, 0, 3, 6))
    buffer = bytearray(8)
    paths = [f"{tmp_path}/{name}" for name in ("a", "none", "b")]
    assert list(reading.read_files(paths, *columns, starts, buffer)) == [2, 1, -2, 2]
    assert buffer == b"f\0\0\0bc23"
    with pytest.raises(ValueError, match="range 3 does not fit"):
        reading.read_files(paths, *columns, array("q", (4, 0, 3, 7)), buffer)
    with pytest.raises(ValueError, match="different lengths"):
        reading.read_files(paths[:2], *columns, starts, buffer)
    assert list(reading.read_files([], array("q", (0,)), *[array("q")] * 3, buffer)) == []


def test_ranges_that_follow_each_other_are_read_alike_at_once(
    reading: ModuleType, tmp_path: object
) -> None:
    """There are more ranges than one system call accepts, for places in any order, including beyond the end of the
    file.
    """
    content = bytes(range(250)) * 2
    with open(f"{tmp_path}/a", "wb") as file:
        file.write(content)
    sizes = array("q", [3] * 166 + [5])
    positions = array("q", range(0, 3 * 167, 3))
    starts = array("q", [*range(495, -1, -3), 500])
    buffer = bytearray(b"?" * 505)
    counts = reading.read_files(
        [f"{tmp_path}/a"], array("q", (0, 167)), positions, sizes, starts, buffer
    )
    assert list(counts) == [3] * 166 + [2]
    for position, size, start in zip(positions, counts, starts, strict=True):
        assert buffer[start : start + size] == content[position : position + size]


def test_ranges_are_grouped_alike(reading: ModuleType) -> None:
    columns = [
        array("q", column)
        for column in (
            (1, 1, 1, 1, 2, 2),
            (7, 7, 7, 8, 8, 8),
            (0, 10, 25, 0, 10, 5),
            (10, 10, 5, 10, 10, 5),
            (100, 110, 120, 130, 140, 150),
        )
    ]
    order = array("q", (0, 1, 2, 3, 4, 5))
    grouped = [list(column) for column in reading.group_ranges(*columns, order, 5, 30)]
    assert grouped == [[0, 3, 4, 5, 6], [30, 10, 10, 5], *map(list, columns[2:])]
    grouped = [list(column) for column in reading.group_ranges(*columns, order, 4, 30)]
    assert grouped[:2] == [[0, 2, 3, 4, 5, 6], [20, 5, 10, 10, 5]]
    grouped = [list(column) for column in reading.group_ranges(*columns, order, 5, 19)]
    assert grouped[:2] == [[0, 1, 2, 3, 4, 5, 6], [10, 10, 5, 10, 10, 5]]
    grouped = [list(column) for column in reading.group_ranges(*columns, order, 5, 30, 20)]
    assert grouped[:2] == [[0, 2, 3, 4, 5, 6], [20, 5, 10, 10, 5]]
    backwards = [list(column) for column in reading.group_ranges(*columns, order[::-1], 5, 30)]
    assert backwards[0] == [0, 2, 3, 4, 5, 6]
    assert backwards[4] == [150, 140, 130, 120, 110, 100]
    nothing = array("q")
    assert list(map(list, reading.group_ranges(*columns, nothing, 0, 1))) == [[0], [], [], [], []]
    for wrong in (-1, 6):
        with pytest.raises(ValueError, match=f"there is no range {wrong}"):
            reading.group_ranges(*columns, array("q", (wrong,)), 0, 1)
    with pytest.raises(ValueError, match="different lengths"):
        reading.group_ranges(columns[0][:5], *columns[1:], order, 0, 1)


columns_of_ranges = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 9)), max_size=40
)


@given(ranges=columns_of_ranges, data=st.data())
def test_ranges_are_put_in_order_and_divided_alike(
    reading: ModuleType, ranges: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """Python's own sort gives the expected order."""
    columns = [array("q", [each[column] for each in ranges]) for column in range(3)]
    expected = sorted(range(len(ranges)), key=ranges.__getitem__)
    cuts = data.draw(st.lists(st.integers(0, len(ranges)), max_size=4).map(sorted))
    heads = array("q", [0, *cuts, len(ranges)])
    begin = data.draw(st.integers(0, len(ranges)))
    part = expected[begin : data.draw(st.integers(begin, len(ranges)))]
    ordered = sorted(part)
    bounds = [
        at
        for at, index in enumerate(ordered)
        if not at or index in heads or ordered[at - 1] != index - 1
    ]
    assert list(reading.sort_ranges(*columns)) == expected
    divided = [list(each) for each in reading.divide_runs(array("q", part), heads)]
    assert divided == [ordered, [ordered.index(each) for each in part], [*bounds, len(part)]]
    indexes = array("q", part)
    assert list(reading.take(columns[2], indexes)) == [ranges[index][2] for index in part]
    flags = reading.take(array("B", columns[2]), indexes)
    assert (flags.typecode, list(flags)) == ("B", [ranges[index][2] for index in part])


def test_what_is_no_order_is_refused_alike(reading: ModuleType) -> None:
    with pytest.raises(ValueError, match="different lengths"):
        reading.sort_ranges(array("q"), array("q", (1,)), array("q", (1,)))
    for heads in ((), (1, 2), (0, 3, 2)):
        with pytest.raises(ValueError, match="the runs do not begin at 0, or are not in order"):
            reading.divide_runs(array("q"), array("q", heads))
    for part in ((2,), (-1,), (0, 0)):
        with pytest.raises(ValueError, match=f"index {part[0]} is in no run, or appears twice"):
            reading.divide_runs(array("q", part), array("q", (0, 2)))
    for index in (-1, 1):
        with pytest.raises(IndexError, match=f"there is no value {index}"):
            reading.take(array("q", (5,)), array("q", (index,)))
