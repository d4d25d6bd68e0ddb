"""Tests reading a pack's contents after a crash or disk damage."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.objects import pack_format
from lacuna.logstore.objects.pack_format import BLOCK, NewerFormatError, Packed
from lacuna.logstore.records.crc import crc32c

SIZE = 64 * BLOCK
PAYLOAD = bytes(range(256)) * 5
ID = 7

ROWS = st.lists(
    st.tuples(
        st.from_regex(r"[abc]{1,20}(/[abc]{1,20})?", fullmatch=True), st.binary(max_size=2000)
    ),
    max_size=8,
)


@dataclass
class Written:
    """A pack in progress, as a store writes it."""

    content: bytearray
    end: int = BLOCK

    def add(self, key: str, data: bytes, *, durable: int = 0, pack_id: int = ID) -> int:
        """Append a record and return its position."""
        at, name = self.end, key.encode()
        head = pack_format.record_head(
            name, data, pack_id=pack_id, position=at, durable=durable, modified_ms=at * 3
        )
        self.content[at : at + len(head) + len(data)] = head + data
        self.end += pack_format.record_space(len(name), len(data))
        return at

    def damage(self, position: int) -> None:
        self.content[position] ^= 1

    def read(self) -> pack_format.PackContent:
        return pack_format.read_all(bytes(self.content), ID)

    def keys(self) -> list[str]:
        return [each.key for each in self.read().objects]

    def bytes_of(self, packed: Packed) -> bytes:
        return bytes(self.content[packed.position : packed.position + packed.size])


def empty() -> Written:
    content = bytearray(SIZE)
    begin = pack_format.header(ID)
    content[: len(begin)] = begin
    return Written(content)


@given(ROWS)
def test_what_was_written_is_read(rows: list[tuple[str, bytes]]) -> None:
    """Both a reader of the whole pack and a reader of its new part see it."""
    written = empty()
    positions = [written.add(key, data) for key, data in rows]
    found = written.read()
    assert [(each.key, written.bytes_of(each)) for each in found.objects] == rows
    assert [each.modified_ms for each in found.objects] == [at * 3 for at in positions]
    assert (found.end, found.damaged) == (written.end, ())
    tail = memoryview(bytes(written.content))[BLOCK:]
    assert pack_format.read_next(tail, BLOCK, ID) == (list(found.objects), written.end)


def test_what_is_appended_is_read_record_by_record() -> None:
    written = empty()
    written.add("a", PAYLOAD)
    at = written.add("b", PAYLOAD)
    tail = memoryview(bytes(written.content))
    for cut in range(at, at + len(PAYLOAD), 100):
        objects, end = pack_format.read_next(tail[at:cut], at, ID)
        assert (objects, end) == ([], at)
    assert [each.key for each in pack_format.read_next(tail[at:], at, ID)[0]] == ["b"]


@given(ROWS)
def test_an_index_says_where_the_objects_are(rows: list[tuple[str, bytes]]) -> None:
    written = empty()
    for key, data in rows:
        written.add(key, data)
    objects = list(written.read().objects)
    sealed = bytes(written.content[: written.end]) + pack_format.index(objects, written.end)
    trailer = pack_format.read_trailer(sealed[-pack_format.TRAILER_SIZE :])
    assert trailer is not None
    position, size, crc = trailer
    entries = sealed[position : position + size]
    assert crc == crc32c(entries)
    assert pack_format.read_index(entries) == objects
    assert position + size + pack_format.TRAILER_SIZE == len(sealed)


def test_a_trailer_with_a_wrong_byte_is_none() -> None:
    trailer = pack_format.index([], BLOCK)
    for at in range(len(trailer)):
        wrong = trailer[:at] + bytes([trailer[at] ^ 1]) + trailer[at + 1 :]
        assert pack_format.read_trailer(wrong) is None
    assert pack_format.read_trailer(bytes(len(trailer))) is None
    assert pack_format.read_trailer(b"") is None


def test_a_header_says_the_format_and_the_id() -> None:
    begin = pack_format.header(ID)
    assert pack_format.read_header(begin + bytes(400)) == ID
    for at in range(len(begin)):
        wrong = begin[:at] + bytes([begin[at] ^ 1]) + begin[at + 1 :]
        assert pack_format.read_header(wrong) is None
    assert pack_format.read_header(bytes(BLOCK)) is None
    assert pack_format.read_header(begin[:-1]) is None


def test_a_newer_format_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_format, "FORMAT", 2)
    begin = pack_format.header(ID)
    monkeypatch.setattr(pack_format, "FORMAT", 1)
    with pytest.raises(NewerFormatError, match="2"):
        pack_format.read_header(begin)


def test_records_of_another_pack_or_another_place_do_not_count() -> None:
    written = empty()
    written.add("other", PAYLOAD, pack_id=ID + 1)
    assert written.keys() == []
    moved = empty()
    moved.add("k", PAYLOAD)
    moved.content[5 * BLOCK : 10 * BLOCK] = moved.content[BLOCK : 6 * BLOCK]
    moved.content[BLOCK : 2 * BLOCK] = bytes(BLOCK)
    assert moved.keys() == []


def test_without_a_header_records_of_any_pack_count() -> None:
    written = empty()
    written.add("k", PAYLOAD)
    assert [each.key for each in pack_format.read_all(bytes(written.content), None).objects] == [
        "k"
    ]


@pytest.mark.parametrize("at", [0, 5, 10, 40, 60, 700])
def test_a_torn_end_is_no_damage(at: int) -> None:
    """It was not durable, so it was never acknowledged."""
    written = empty()
    second = written.add("a", PAYLOAD), written.add("b", PAYLOAD)
    written.damage(second[1] + at)
    found = written.read()
    assert [each.key for each in found.objects] == ["a"]
    assert (found.end, found.damaged) == (second[1], ())


def test_a_record_behind_a_torn_one_counts() -> None:
    """Of two records written at once, the disk may have kept only the second."""
    written = empty()
    torn = written.add("a", PAYLOAD)
    written.add("b", PAYLOAD)
    written.damage(torn + 70)
    found = written.read()
    assert [each.key for each in found.objects] == ["b"]
    assert (found.end, found.damaged) == (written.end, ())


def with_damage(at: int) -> tuple[Written, int, int]:
    """Four objects. The second has a wrong byte, and its record begins and ends at these positions."""
    written = empty()
    written.add("a", PAYLOAD)
    bad = written.add("b", PAYLOAD, durable=written.end)
    end = written.add("c", PAYLOAD, durable=written.end)
    written.add("d", PAYLOAD, durable=written.end)
    written.damage(bad + at)
    return written, bad, end


@pytest.mark.parametrize("at", [0, 3, 4, 20, 50])
def test_a_record_that_was_durable_and_does_not_count_is_damage(at: int) -> None:
    written, bad, end = with_damage(at)
    assert written.keys() == ["a", "c", "d"]
    assert written.read().damaged == ((bad, end),)


@pytest.mark.parametrize("at", [60, 700, 1330])
def test_an_object_of_which_bytes_are_damaged_is_there_as_it_is(at: int) -> None:
    """A reader finds the damaged part. The other parts are valid."""
    written, bad, end = with_damage(at)
    assert written.keys() == ["a", "b", "c", "d"]
    assert written.read().damaged == ((bad, end),)
    assert written.bytes_of(written.read().objects[1]) != PAYLOAD


@pytest.mark.parametrize("name", [b"\xff", b"../b", b""])
def test_a_record_with_an_impossible_key_is_damage(name: bytes) -> None:
    written = empty()
    written.add("a", PAYLOAD)
    at = written.end
    head = pack_format.record_head(
        name, PAYLOAD, pack_id=ID, position=at, durable=at, modified_ms=0
    )
    written.content[at : at + len(head) + len(PAYLOAD)] = head + PAYLOAD
    written.end += pack_format.record_space(len(name), len(PAYLOAD))
    end = written.end
    written.add("c", PAYLOAD, durable=end)
    assert written.keys() == ["a", "c"]
    assert written.read().damaged == ((at, end),)


@given(st.binary(max_size=4 * BLOCK), st.integers(BLOCK, 40 * BLOCK))
def test_any_bytes_are_read_without_an_error(noise: bytes, at: int) -> None:
    written = empty()
    for key in "abcde":
        written.add(key, PAYLOAD)
    written.content[at : at + len(noise)] = noise
    for packed in written.read().objects:
        assert written.bytes_of(packed) == PAYLOAD


def test_deletions_are_read_up_to_the_first_that_is_torn() -> None:
    rows = [("c/a", 600), ("c/b", 1200), ("c/c", 5000)]
    entries = [pack_format.deletion(key, position) for key, position in rows]
    content = b"".join(entries)
    assert pack_format.read_deletions(content) == (rows, len(content))
    assert pack_format.read_deletions(content + bytes(50)) == (rows, len(content))
    second = len(entries[0])
    for at in range(second, second + len(entries[1])):
        wrong = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        assert pack_format.read_deletions(wrong) == (rows[:1], second)
        assert pack_format.read_deletions(content[:at]) == (rows[:1], second)
