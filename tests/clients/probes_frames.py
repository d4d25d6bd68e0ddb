"""Probes of malformed frames."""

from __future__ import annotations

import struct

from .probing import Outcome, Target, error_of, fetched, probe
from .wire import API_KEYS, ClosedError, decode_response, encode_request


def _answer(t: Target, data: bytes, seconds: float = 60.0, most: int = 24) -> str:
    """The answer to raw bytes: its first bytes in hex, or "closed", or "no answer"."""
    with t.connect(timeout=seconds) as connection:
        try:
            connection.send_bytes(data)
            return connection.receive_frame()[:most].hex()
        except (ClosedError, ConnectionError):
            return "closed"
        except TimeoutError:
            return "no answer"


def _framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def _header(key: int, version: int, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", key, version, 7, 1) + b"p" + (b"\0" if flexible else b"")


@probe("frames")
def unknown_api_or_version(t: Target) -> Outcome:
    cases = {
        "api key 999": _header(999, 0),
        "api key -1": _header(-1, 0),
        "LeaderAndIsr (4), gone in 4.0": _header(4, 0),
        "SaslHandshake v0 without SASL": _header(17, 0) + b"\0\5PLAIN",
        "Fetch v3": _header(API_KEYS["fetch"], 3),
        "Fetch v99": _header(API_KEYS["fetch"], 99, True),
        "Produce v99": _header(API_KEYS["produce"], 99, True),
        "Metadata v99": _header(API_KEYS["metadata"], 99, True),
        "CreateTopics v1": _header(API_KEYS["create_topics"], 1),
        "JoinGroup v-1": _header(API_KEYS["join_group"], -1),
        "ListOffsets v0": _header(API_KEYS["list_offsets"], 0),
        "OffsetCommit v1": _header(API_KEYS["offset_commit"], 1),
        "OffsetFetch v0": _header(API_KEYS["offset_fetch"], 0),
        "Vote, for controllers": _header(52, 0, True),
    }
    return {name: _answer(t, _framed(frame)) for name, frame in cases.items()}


@probe("frames")
def api_versions(t: Target) -> Outcome:
    out = {}
    for version in (5, 99, 32767, -1):
        got = _answer(t, _framed(_header(18, version, version > 2)))
        out[f"v{version}"] = got
    bad = t.call("api_versions", 3, client_software_name="", client_software_version="1")
    spaced = t.call("api_versions", 3, client_software_name="a b", client_software_version="1")
    out["empty software name"] = error_of(bad)
    out["software name with a space"] = error_of(spaced)
    return out


@probe("frames")
def not_kafka(t: Target) -> Outcome:
    return {
        "http": _answer(t, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        "tls hello": _answer(t, bytes.fromhex("16030100c8010000c40303") + b"\0" * 50),
        "length beyond socket.request.max.bytes": _answer(t, struct.pack(">i", 104_857_601)),
        "length 2^31 - 1": _answer(t, struct.pack(">i", 2**31 - 1)),
        "negative length": _answer(t, struct.pack(">i", -1)),
        "length 0": _answer(t, struct.pack(">i", 0)),
        "two bytes in a frame": _answer(t, _framed(b"\0\0")),
        "header cut short": _answer(t, _framed(b"\0\3\0\1\0\0")),
        "body cut short": _answer(t, _framed(_header(API_KEYS["metadata"], 1) + b"\0\0")),
        "array of 2^31 - 1 entries": _answer(
            t, _framed(_header(API_KEYS["metadata"], 1) + b"\x7f\xff\xff\xff")
        ),
        "name that is not UTF-8": _answer(
            t,
            _framed(_header(API_KEYS["metadata"], 4) + b"\0\0\0\1\0\2\xff\xfe\0"),
            most=8,  # the number of brokers follows
        ),
        "random": _answer(t, bytes(range(1, 200)), seconds=2.0),  # never answered
    }


@probe("frames")
def bytes_after_the_body(t: Target) -> Outcome:
    frame = encode_request("api_versions", 0, 7, {})
    return {"ApiVersions v0 with 5 more bytes": _answer(t, _framed(frame + b"extra"))[:12]}


@probe("frames")
def answers_keep_their_order(t: Target) -> Outcome:
    topic = t.topic()
    topics = [{"topic": topic, "partitions": [fetched(0, most_bytes=1000)]}]
    slow = {"max_wait_ms": 400, "min_bytes": 1, "max_bytes": 1000, "topics": topics}
    with t.connect() as connection:
        connection.send("fetch", 12, slow)
        connection.send("api_versions", 0, {})
        first, second = connection.receive_frame(), connection.receive_frame()
    answer = decode_response("fetch", 12, first)
    return [
        struct.unpack_from(">i", first)[0],
        struct.unpack_from(">i", second)[0],
        error_of(answer),
        decode_response("api_versions", 0, second)["error_code"],
    ]


@probe("frames")
def byte_by_byte(t: Target) -> Outcome:
    with t.connect() as connection:
        for byte in _framed(encode_request("api_versions", 0, 9, {})):
            connection.send_bytes(bytes([byte]))
        return decode_response("api_versions", 0, connection.receive_frame())["error_code"]
