"""Frames read whole, byte by byte, with a tail, or into one buffer shared by many; and the frames that are rejected."""

import itertools
import struct
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.connection import (
    FIRST_BYTES,
    FrameError,
    FrameReader,
    RequestFrame,
    answer_buffers,
)
from lacuna.agent.connection_states import (
    LIFE,
    READING,
    SERVING,
    Action,
    Event,
    Flow,
    IllegalEvent,
    Reading,
    Room,
    State,
    step,
)
from lacuna.wire import kernel
from tests.agent.harness import encode_request

LIMIT = 1 << 20


def make_reader(limit: int = LIMIT, scratch_bytes: int = 64) -> FrameReader:
    return FrameReader(limit, memoryview(bytearray(scratch_bytes)), lambda key, version: True)


def feed(reader: FrameReader, data: bytes, step: int) -> list[RequestFrame]:
    frames: list[RequestFrame] = []
    while data:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data), step)
        buffer[:count] = data[:count]
        frames += reader.received(count)
        data = data[count:]
    return frames


bodies = st.lists(st.binary(max_size=300), min_size=1, max_size=6)


@given(bodies=bodies, step=st.integers(1, 400))
def test_frames_come_whole_however_the_bytes_are_cut(bodies: list[bytes], step: int) -> None:
    """Each stream is read all at once, byte by byte and in steps in between. The start of a frame is not a frame."""
    data = b"".join(encode_request(18, 0, body, i, "c") for i, body in enumerate(bodies))
    for size in (1, step, len(data)):
        reader = make_reader()
        frames = feed(reader, data + b"\0\0", size)
        assert [bytes(frame.body) for frame in frames] == bodies
        assert [frame.correlation_id for frame in frames] == list(range(len(bodies)))
        assert all(frame.client_id == "c" and frame.body.readonly for frame in frames)


@given(bodies=bodies)
def test_a_shared_scratch_keeps_nothing(bodies: list[bytes]) -> None:
    scratch = memoryview(bytearray(50))
    data = b"".join(encode_request(18, 0, body) for body in bodies)
    readers = [FrameReader(LIMIT, scratch, lambda key, version: True) for _ in range(3)]
    found: list[list[bytes]] = [[], [], []]
    positions = [0, 0, 0]
    while any(position < len(data) for position in positions):
        for i, reader in enumerate(readers):
            buffer = reader.get_buffer()
            part = data[positions[i] : positions[i] + min(len(buffer), 7 + i)]
            buffer[: len(part)] = part
            positions[i] += len(part)
            found[i] += [bytes(frame.body) for frame in reader.received(len(part))]
    assert found == [bodies] * 3


def test_a_large_frame_lands_in_its_own_buffer() -> None:
    """Only bytes that came with the size are copied; the rest is received directly into the frame's buffer."""
    data = encode_request(0, 8, bytes(range(256)) * 50)
    reader = make_reader()
    first = reader.get_buffer()
    first[:64] = data[:64]
    assert not reader.received(64)
    assert reader.arrived_bytes == 60
    rest = reader.get_buffer()
    assert len(rest) == len(data) - 64
    rest[:] = data[64:]
    (frame,) = reader.received(len(rest))
    assert bytes(frame.body) == bytes(range(256)) * 50
    assert frame.body.obj is rest.obj
    assert reader.arrived_bytes == 0


def test_a_size_alone_takes_little_memory() -> None:
    """The buffer of a very large frame grows as it fills, and holds the whole frame at the end."""
    body = bytes(range(256)) * (48 << 10)
    data = encode_request(0, 8, body)
    reader = make_reader(limit=len(data))
    buffer, at = reader.get_buffer(), 0
    while True:
        part = data[at : at + min(len(buffer), 1 << 20)]
        buffer[: len(part)] = part
        at += len(part)
        if frames := reader.received(len(part)):
            break
        buffer = reader.get_buffer()
        assert at - 4 + len(buffer) <= max(FIRST_BYTES, 4 * at)
        assert reader.arrived_bytes == at - 4
    assert bytes(frames[0].body) == body


def test_header_versions_and_tagged_fields() -> None:
    header = struct.pack(">hhih", 3, 9, 5, -1) + b"\2\0\3abc\x81\1\1x"
    reader = make_reader()
    (frame,) = feed(reader, struct.pack(">i", len(header) + 2) + header + b"ok", 1000)
    assert (frame.header_version, frame.client_id, bytes(frame.body)) == (2, "", b"ok")


@pytest.mark.parametrize("count", [kernel.MOST_TAGS, kernel.MOST_TAGS + 1])
def test_a_header_has_so_many_tagged_fields(count: int) -> None:
    """As in Kafka, since reading more of them would delay other clients."""
    varint = bytes([count & 0x7F | 0x80, count >> 7])
    header = struct.pack(">hhih", 3, 9, 5, -1) + varint + b"\1\0" * count
    data = struct.pack(">i", len(header) + 2) + header + b"ok"
    reader = make_reader()
    if count > kernel.MOST_TAGS:
        with pytest.raises(
            FrameError, match=f"invalid request header: it has {count} tagged fields"
        ):
            feed(reader, data, len(data))
    else:
        assert [bytes(frame.body) for frame in feed(reader, data, len(data))] == [b"ok"]


BAD = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303"),
    "negative size": struct.pack(">i", -1),
    "size 0": struct.pack(">i", 0),
    "too small for a header": struct.pack(">i", 8) + b"\0\3\0\1\0\0\0\0",
    "exceeds the limit": struct.pack(">i", LIMIT + 1),
    "client id passes the end": struct.pack(">ihhih", 12, 3, 1, 0, 9) + b"ab",
    "client id of size -2": struct.pack(">ihhih", 10, 3, 1, 0, -2),
    "tags pass the end": struct.pack(">ihhih", 12, 3, 9, 0, -1) + b"\1\0",
    "a varint without end": struct.pack(">ihhih", 17, 3, 9, 0, -1) + b"\xff" * 7,
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("step", [1, 1000])
def test_what_is_no_request_is_a_typed_error(name: str, step: int) -> None:
    with pytest.raises(FrameError):
        feed(make_reader(), BAD[name], step)


@pytest.mark.parametrize(
    ("beginning", "who"),
    [
        (bytes.fromhex("16030100c8010000c40303"), "this is a TLS client"),
        (b"POST /topics HTTP/1.1\r\n", "this is an HTTP client"),
        (b"PRI * HTTP/2.0\r\n\r\n", "this is an HTTP/2 or gRPC client"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "this is an SSH client"),
    ],
)
def test_other_protocols_are_named(beginning: bytes, who: str) -> None:
    with pytest.raises(FrameError, match=who):
        feed(make_reader(), beginning, 1)


@pytest.mark.parametrize("known", [{}, {3 << 16 | 9: 2}])
def test_a_client_id_that_is_not_utf_8_is_replaced(known: dict[int, int]) -> None:
    reader = FrameReader(LIMIT, memoryview(bytearray(64)), lambda key, _: key == 3, known)
    (frame,) = feed(reader, struct.pack(">ihhih", 13, 3, 9, 0, 2) + b"a\xff\0", 100)
    assert frame.client_id == "a\ufffd"


def test_unknown_apis_are_refused_before_their_header_is_read() -> None:
    reader = FrameReader(LIMIT, memoryview(bytearray(64)), lambda key, version: key == 3)
    with pytest.raises(FrameError, match="API 999 version 0"):
        feed(reader, struct.pack(">ihhih", 10, 999, 0, 0, -1), 100)


@given(
    requests=st.lists(
        st.tuples(st.sampled_from([(0, 8), (0, 9), (3, 9), (18, 9)]), st.binary(max_size=40))
    ),
    edits=st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=3)), max_size=2),
    step=st.integers(1, 400),
)
def test_what_is_read_faster_is_the_same(
    requests: list[tuple[tuple[int, int], bytes]], edits: list[tuple[int, bytes]], step: int
) -> None:
    """Requests with known header versions, some with modified bytes, give the same frames or the same error."""
    data = bytearray(b"".join(encode_request(*api, body, 7, "me") for api, body in requests))
    for at, edit in edits:
        data[at : at + len(edit)] = edit
    outcomes: list[object] = []
    for known in ({}, {0 << 16 | 8: 1, 0 << 16 | 9: 2, 3 << 16 | 9: 2}):
        scratch = memoryview(bytearray(400))
        reader = FrameReader(300, scratch, lambda key, _: key in (0, 3, 18), known)
        try:
            outcomes.append(feed(reader, bytes(data), step))
        except FrameError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@given(data=st.binary(max_size=400), step=st.integers(1, 50))
def test_any_bytes_are_frames_or_a_typed_error(data: bytes, step: int) -> None:
    reader = make_reader(limit=4096)
    try:
        frames = feed(reader, data, step)
    except FrameError:
        return
    assert sum(frame.size + 4 for frame in frames) <= len(data)


def test_answers_keep_the_buffers_of_their_body() -> None:
    payload = memoryview(b"payload")
    assert answer_buffers(9, 0, [payload])[1] is payload
    assert b"".join(answer_buffers(9, 0, [payload, b"x"])) == b"\0\0\0\x0c\0\0\0\x09payloadx"
    assert b"".join(answer_buffers(9, 1, [b"x"])) == b"\0\0\0\x06\0\0\0\x09\0x"


TABLES: list[tuple[Any, type[StrEnum], type[StrEnum]]] = [
    (LIFE, State, Event),
    (READING, Reading, Room),
]
REFUSED = {
    *itertools.product([State.NEW], set(Event) - {Event.ADMIT, Event.REFUSE}),
    *itertools.product(set(State) - {State.NEW}, [Event.ADMIT, Event.REFUSE]),
    (State.OPEN, Event.ALL_ANSWERED),  # not sent while there may be more
    *itertools.product([State.CLOSING, State.CLOSED], [Event.SHUT_DOWN]),
    *itertools.product([State.ABANDONED, State.CLOSED], [Event.LOSE]),  # a transport is lost once
    *itertools.product(set(Reading) - {Reading.QUEUED}, [Room.CALLED]),
}


@pytest.mark.parametrize(("table", "states", "events"), TABLES)
def test_every_pair_is_listed_or_refused(table: Any, states: Any, events: Any) -> None:
    for state, event in itertools.product(states, events):
        if (state, event) in REFUSED:
            with pytest.raises(IllegalEvent, match="cannot happen"):
                step(table, state, event)
        else:
            after, _ = step(table, state, event)
            assert after in states


def test_every_state_and_action_is_used() -> None:
    for table, states, _ in TABLES:
        targets = {target for events in table.values() for target, _ in events.values()}
        assert targets | {next(iter(states))} == set(states)
    for table, actions in ((LIFE, Action), (READING, Flow)):
        done = [each for events in table.values() for _, acts in events.values() for each in acts]
        assert set(done) == set(actions)


@pytest.mark.parametrize("state", list(State)[1:])
def test_nothing_is_served_again_after_it_was_not(state: State) -> None:
    for target, _ in LIFE[state].values():
        assert state in SERVING or target not in SERVING


def test_reading_is_paused_and_resumed_in_turns_and_queues_in_turns() -> None:
    """Reading is never paused twice. Between calls, a connection is in the queue exactly while its state is QUEUED."""
    for state, events in READING.items():
        for event, (target, actions) in events.items():
            assert (Flow.RESUME in actions) == (state is not Reading.ON and target is Reading.ON)
            paused = state is Reading.ON and target is not Reading.ON and event is not Room.END
            assert (Flow.PAUSE in actions) == paused
            assert (Flow.QUEUE in actions) == (Reading.QUEUED is target and target is not state)
            left = state is Reading.QUEUED and target is not state and event is not Room.CALLED
            assert (Flow.LEAVE_QUEUE in actions) == left
