"""The grouping of reads, their places in the buffer, and the effects of a failed read (S18)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.fetch.loading import (
    ExtentCorruptError,
    ExtentGoneError,
    ExtentUnavailableError,
    LoadPlan,
    Run,
    load,
    plan_loads,
)
from lacuna.agent.fetch.stretch import Stretch
from lacuna.controlplane.shared.log.pieces import Piece, Pieces
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import ObjectNotFoundError
from lacuna.logstore.records.batch import read_batches
from lacuna.testing.faults import Fault, FaultKind, FaultyStore
from tests.agent.fetch.log import make_batch


def key_of(lease_id: int, sequence: int) -> str:
    return f"{lease_id}/{sequence}"


def plan(
    runs: list[list[Piece]], gap: int = 0, max_read_bytes: int = 1 << 30, load_bytes: int = 1 << 30
) -> list[LoadPlan]:
    return plan_loads(
        [Run((b"t", number), Pieces.of(run)) for number, run in enumerate(runs)],
        key_of,
        read_gap=gap,
        max_read_bytes=max_read_bytes,
        load_bytes=load_bytes,
    )


@pytest.mark.parametrize(
    ("gap", "limit", "expected"),
    [
        (0, 10_000, [[0, 1], [2], [3]]),
        (50, 10_000, [[0, 1, 2], [3]]),
        (50, 200, [[0, 1], [2], [3]]),
        (10**6, 10**6, [[0, 1, 2], [3]]),
    ],
)
def test_s18_reads_join_neighbours_of_one_object_within_the_gap(
    gap: int, limit: int, expected: list[list[int]]
) -> None:
    pieces = [
        Piece(1, 1, 0, 100, 0, 1, 0),
        Piece(1, 1, 100, 100, 1, 2, 0),
        Piece(1, 1, 250, 100, 5, 6, 0),
        Piece(1, 2, 350, 100, 6, 7, 0),
    ]
    (made,) = plan([pieces], gap, limit)
    assert [list(made.source(at)) for at in range(len(made.reads))] == expected
    assert [read.key for read in made.reads] == ["1/1"] * (len(expected) - 1) + ["1/2"]
    assert [read.position for read in made.reads] == [
        pieces[indexes[0]].position for indexes in expected
    ]


def test_slices_of_two_partitions_are_one_read_and_stand_apart_in_memory() -> None:
    first = [Piece(1, n, 0, 10, n, n + 1, 0) for n in range(3)]
    second = [Piece(1, n, 10, 7, n, n + 1, 0) for n in range(3)]
    (made,) = plan([first, second])
    assert [len(read.parts) for read in made.reads] == [2, 2, 2]
    assert list(made.pieces) == first + second
    assert list(made.bounds) == [0, 3, 6]
    assert list(made.starts) == [0, 10, 20, 30, 37, 44, 51]
    assert made.reads[1].parts == [(0, 10, 10), (10, 7, 37)]


runs_of_pieces = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 5)), max_size=8),
    max_size=4,
)


@given(shape=runs_of_pieces, gap=st.integers(0, 6), load_bytes=st.integers(1, 40))
def test_every_piece_is_read_once_to_a_place_of_its_own(
    shape: list[list[tuple[int, int, int]]], gap: int, load_bytes: int
) -> None:
    """A stretch contains consecutive pieces of a run."""
    ends: dict[int, int] = {}
    runs = []
    for run in shape:
        pieces: list[Piece] = []
        for sequence, size, space in run:
            position = ends.get(sequence, 0) + space
            ends[sequence] = position + size
            pieces.append(Piece(1, sequence, position, size, len(pieces), len(pieces) + 1, 0))
        runs.append(pieces)
    seen: list[Piece] = []
    for made in plan(runs, gap, 20, load_bytes):
        parts = {
            (read.key, position): (size, start)
            for read in made.reads
            for position, size, start in read.parts
        }
        assert sum(len(read.parts) for read in made.reads) == len(made.pieces)
        for read in made.reads:
            end = max(position + size for position, size, _ in read.parts)
            assert (read.parts[0][0], end) == (read.position, read.position + read.size)
        for index, piece in enumerate(made.pieces):
            assert parts[key_of(piece.lease_id, piece.sequence), piece.position] == (
                piece.size,
                made.starts[index],
            )
            assert made.starts[index + 1] == made.starts[index] + piece.size
        for (_, number), stretch in made.runs():
            whole = runs[number]
            assert any(whole[at : at + len(stretch)] == [*stretch] for at in range(len(whole)))
        seen += made.pieces
    assert sorted(seen) == sorted(piece for run in runs for piece in run)


def filled(count: int) -> tuple[FaultyStore, list[Piece]]:
    """Return objects of two batches each, and their pieces in order."""
    store = MemoryStore()
    pieces: list[Piece] = []
    for number in range(count):
        batches = [make_batch(b"%d-%d" % (number, index)) for index in range(2)]
        store.put(f"1/{number}", batches)
        pieces += [
            Piece(1, number, index * len(batches[0]), len(batches[0]), at, at + 1, 0)
            for index, at in enumerate((2 * number, 2 * number + 1))
        ]
    return FaultyStore(store), pieces


def spans(stretches: list[Stretch]) -> list[list[int]]:
    return [[piece.base_offset for piece in stretch.pieces] for stretch in stretches]


def values(stretch: Stretch) -> list[bytes | None]:
    """Return the values of the records in all served pieces, down to the last byte."""
    span = stretch.part(0, len(stretch.pieces))
    assert span is not None
    return [record.value for batch in read_batches(span.view) for record in batch.records()]


def test_what_failed_is_in_no_stretch_and_says_why() -> None:
    store, pieces = filled(4)
    changed = store.inner.get_all("1/2")
    changed[-1] ^= 1
    store.inner.delete(["1/1", "1/2"])
    store.inner.put("1/2", [changed])
    store.fail(Fault("get", FaultKind.ERROR, "1/3"))
    (made,) = plan([pieces])
    before = store.metrics.bytes_read
    loaded = load(made, store, bytearray(made.starts[-1]))
    assert spans(loaded.stretches) == [[0, 1], [4]]
    kinds = {piece.base_offset: type(error) for piece, error in loaded.errors}
    assert kinds.pop(2) is kinds.pop(3) is ExtentGoneError
    assert kinds.pop(6) is kinds.pop(7) is ExtentUnavailableError
    assert kinds == {5: ExtentCorruptError}
    assert all("segment 1-" in str(error) for _, error in loaded.errors)
    assert loaded.bytes_read == store.metrics.bytes_read - before
    assert [values(stretch) for stretch in loaded.stretches] == [[b"0-0", b"0-1"], [b"2-0"]]


def test_bytes_that_a_failed_read_left_are_never_taken_for_its_own() -> None:
    """The buffer may hold an old batch there with a correct checksum."""
    store, pieces = filled(2)
    (made,) = plan([pieces])
    buffer = bytearray(made.starts[-1])
    assert spans(load(made, store, buffer).stretches) == [[0, 1, 2, 3]]
    store.fail(Fault("get", FaultKind.ERROR, "1/0"))
    assert spans(load(made, store, buffer).stretches) == [[2, 3]]


def brought(made: LoadPlan, store: FaultyStore) -> bytearray:
    """Return a buffer that contains the data of the whole plan."""
    buffer = bytearray(made.starts[-1])
    assert store.inner.get_into(made.reads, buffer) == [None] * len(made.reads)
    return buffer


def flip(buffer: bytearray, made: LoadPlan, piece: int) -> None:
    """Damage the last byte of a piece, which a checksum covers."""
    buffer[made.starts[piece + 1] - 1] ^= 1


def test_what_was_brought_is_not_read_and_what_failed_is_not_tried_again() -> None:
    store, pieces = filled(3)
    (made,) = plan([pieces])
    buffer, before = brought(made, store), store.metrics.gets
    failure = ObjectNotFoundError("1/1")
    loaded = load(made, store, buffer, {0: None, 1: failure})
    assert spans(loaded.stretches) == [[0, 1], [4, 5]]
    assert {type(error) for _, error in loaded.errors} == {ExtentGoneError}
    assert store.metrics.gets - before == loaded.reads == 1
    assert loaded.bytes_read == made.reads[2].size


def test_only_what_was_brought_damaged_is_read_again() -> None:
    store, pieces = filled(4)
    (made,) = plan([pieces])
    buffer = brought(made, store)
    flip(buffer, made, 3)
    before = store.metrics.gets
    loaded = load(made, store, buffer, dict.fromkeys(range(3)))
    assert spans(loaded.stretches) == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert loaded.mended == [1]
    assert store.metrics.gets - before == loaded.reads == 2
    assert loaded.bytes_read == made.reads[1].size + made.reads[3].size
    (stretch,) = loaded.stretches
    assert values(stretch) == [b"%d-%d" % (at // 2, at % 2) for at in range(8)]


def test_what_is_damaged_in_the_store_too_was_not_damaged_on_its_way() -> None:
    store, pieces = filled(3)
    changed = store.inner.get_all("1/0")
    changed[-1] ^= 1
    store.inner.delete(["1/0"])
    store.inner.put("1/0", [changed])
    (made,) = plan([pieces])
    buffer = brought(made, store)
    flip(buffer, made, 3)
    store.fail(Fault("get", FaultKind.ERROR, "1/1"))
    loaded = load(made, store, buffer, dict.fromkeys(range(3)))
    kinds = {piece.base_offset: type(error) for piece, error in loaded.errors}
    assert kinds == {1: ExtentCorruptError, 2: ExtentUnavailableError, 3: ExtentUnavailableError}
    assert loaded.mended == []
    assert loaded.reads == 2
