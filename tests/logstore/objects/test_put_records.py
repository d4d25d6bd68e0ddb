"""What stands in a put log, read back from whatever a crash or a bad disk left of it."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.objects.put_records import (
    BLOCK,
    Kind,
    half_header,
    read_half,
    record_head,
    record_space,
)

START = 1 << 20
SIZE = 64 * BLOCK
PAYLOAD = bytes(range(256)) * 5


@dataclass
class Written:
    """A half in the making, as a store writes it."""

    half: bytearray
    generation: int
    position: int = START + BLOCK

    def add(self, key: str, data: bytes, *, durable: int = 0, kind: Kind = Kind.PUT) -> int:
        at, name = self.position, key.encode()
        head = record_head(
            kind,
            name,
            data,
            generation=self.generation,
            position=at,
            durable=durable,
            inode=7,
        )
        self.half[at - START : at - START + len(head) + len(data)] = head + data
        self.position += record_space(name, len(data))
        return at


def empty(generation: int = 3, *, is_suspect: bool = False) -> Written:
    half = bytearray(SIZE)
    header = half_header(generation, is_suspect=is_suspect)
    half[: len(header)] = header
    return Written(half, generation)


def keys(half: bytearray) -> list[str]:
    return [record.key for record in read_half(bytes(half), START).records]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(Kind),
            st.from_regex(r"[abc]{1,20}(/[abc]{1,20})?", fullmatch=True),
            st.binary(max_size=2000),
        ),
        max_size=8,
    )
)
def test_what_was_written_is_read(rows: list[tuple[Kind, str, bytes]]) -> None:
    written = empty()
    positions = [written.add(key, data, kind=kind) for kind, key, data in rows]
    content = read_half(bytes(written.half), START)
    assert [(record.kind, record.key, record.data) for record in content.records] == rows
    assert [record.position for record in content.records] == positions
    assert all(record.inode == 7 and record.position % BLOCK == 0 for record in content.records)
    assert (content.damaged, content.is_suspect) == ((), False)


def test_a_half_may_be_suspect() -> None:
    assert read_half(bytes(empty(is_suspect=True).half), START).is_suspect


def test_a_half_that_was_never_finished_is_empty() -> None:
    for half in (b"", bytes(10), bytes(SIZE)):
        assert read_half(half, START) == read_half(b"", START)


def test_records_of_another_generation_or_another_place_do_not_count() -> None:
    written = empty(generation=2)
    written.add("old", PAYLOAD)
    written.add("old2", PAYLOAD)
    reused = Written(written.half, 3)
    reused.half[: len(half_header(3))] = half_header(3)
    reused.add("new", PAYLOAD)
    assert keys(reused.half) == ["new"]
    moved = empty()
    moved.add("k", PAYLOAD)
    moved.half[5 * BLOCK : 10 * BLOCK] = moved.half[BLOCK : 6 * BLOCK]
    moved.half[BLOCK : 2 * BLOCK] = bytes(BLOCK)
    assert keys(moved.half) == []


@pytest.mark.parametrize("at", [0, 5, 10, 40, 60, 700])
def test_a_torn_end_is_no_damage(at: int) -> None:
    """Nobody was told of it: it was not durable."""
    written = empty()
    second = written.add("a", PAYLOAD), written.add("b", PAYLOAD)
    written.half[second[1] - START + at] ^= 1
    content = read_half(bytes(written.half), START)
    assert [record.key for record in content.records] == ["a"]
    assert content.damaged == ()


def test_a_record_behind_a_torn_one_counts() -> None:
    """Of two that were written at once the disk may have kept the second."""
    written = empty()
    torn = written.add("a", PAYLOAD)
    written.add("b", PAYLOAD)
    written.half[torn - START + 60] ^= 1
    content = read_half(bytes(written.half), START)
    assert [record.key for record in content.records] == ["b"]
    assert content.damaged == ()


def test_what_was_durable_and_does_not_count_is_damage() -> None:
    written = empty()
    first = written.add("a", PAYLOAD)
    bad = written.add("b", PAYLOAD, durable=written.position)
    end = written.add("c", PAYLOAD, durable=written.position)
    written.add("d", PAYLOAD, durable=written.position)
    for at in (0, 3, 20, 60, 1000):
        half = bytearray(written.half)
        half[bad - START + at] ^= 1
        content = read_half(bytes(half), START)
        assert [record.key for record in content.records] == ["a", "c", "d"]
        assert content.damaged == ((bad, end),)
    assert first == START + BLOCK


@pytest.mark.parametrize(("kind", "name"), [(3, b"b"), (1, b"\xff"), (1, b"../b"), (2, b"")])
def test_a_record_that_only_another_version_could_mean_is_damage(kind: int, name: bytes) -> None:
    """Its checksum is right: the log is set aside, and what else stands in it is recovered."""
    written = empty()
    written.add("a", PAYLOAD)
    at = written.position
    head = record_head(
        kind, name, PAYLOAD, generation=3, position=at, durable=written.position, inode=7
    )
    written.half[at - START : at - START + len(head) + len(PAYLOAD)] = head + PAYLOAD
    written.position += record_space(name, len(PAYLOAD))
    written.add("c", PAYLOAD, durable=written.position)
    content = read_half(bytes(written.half), START)
    assert [record.key for record in content.records] == ["a", "c"]
    assert content.damaged == ((at, at + record_space(name, len(PAYLOAD))),)


def test_with_a_damaged_header_the_last_generation_counts() -> None:
    written = empty(generation=2)
    for key in "abc":
        written.add(key, PAYLOAD)
    reused = Written(written.half, 3)
    reused.half[: len(half_header(3))] = half_header(3)
    reused.add("new", PAYLOAD)
    reused.half[9] ^= 1
    content = read_half(bytes(reused.half), START)
    assert [record.key for record in content.records] == ["new"]
    assert content.damaged == ((START, START + BLOCK),)
    assert content.is_suspect


@given(st.binary(max_size=4 * BLOCK), st.integers(0, 40 * BLOCK))
def test_any_bytes_are_read_without_an_error(noise: bytes, at: int) -> None:
    written = empty()
    for key in "abcde":
        written.add(key, PAYLOAD)
    written.half[at : at + len(noise)] = noise
    for record in read_half(bytes(written.half), START).records:
        assert record.data == PAYLOAD
