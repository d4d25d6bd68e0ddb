"""Valid, unusual and invalid message sets for Produce v0 to v2, to compare our answers with Kafka's.

`python -m tests.golden.legacy_cases DIR` queries an Apache Kafka 3.9, the last version that serves them (its jars go to
DIR), and stores the error codes in legacy/answers_kafka_3_9.json.
"""

from __future__ import annotations

import json
import pathlib
import socket
import struct
import sys
import time
import zlib

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.logstore.records.compression import compress
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.records.legacy import to_batch
from lacuna.logstore.records.legacy.writing import NewMessage, write_message_set
from tests.golden.broker import kafka
from tests.golden.old_clients import HERE
from tests.logstore.records.legacy.naive import Rec, entry, message, plain, wrapper

ANSWERS = HERE / "answers_kafka_3_9.json"
KAFKA = "3.9.1"
# UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
_NOT_YET = (3, 6)
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def _set(codec: Codec, magic: int = 1, count: int = 2) -> bytes:
    messages = [NewMessage(n, -1, b"k", b"v") for n in range(count)]
    return write_message_set(messages, magic=magic, codec=codec)


def _damaged(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


def _with_right_checksum(body: bytes) -> bytes:
    return entry(0, struct.pack(">I", zlib.crc32(body)) + body)


def _wrapped(codec: Codec, value: bytes) -> bytes:
    return entry(1, message(1, codec, 0, None, value))


def _halved(codec: Codec) -> bytes:
    """Return an inner set compressed in two consecutive parts."""
    middle = len(_INNER) // 2
    return compress(codec, _INNER[:middle]) + compress(codec, _INNER[middle:])


_ONE = plain(1, [Rec(0, -1, b"k", b"v")])
_INNER = plain(1, [Rec(0, -1, b"k", b"v"), Rec(1, -1, b"k", b"v")])
_KEYLESS = plain(1, [Rec(0, -1, None, b"v")])

CASES: dict[str, bytes] = {
    **{f"magic {m}, {c.name.lower()}": _set(c, m) for m in (0, 1) for c in CODECS},
    "two wrappers": _set(Codec.GZIP) * 2,
    "a message beside a wrapper": _ONE + _set(Codec.GZIP),
    "two magics": _set(Codec.NONE, 0) + _ONE,
    "no bytes": b"",
    "a cut-off message": _ONE[:-1],
    "a cut-off message behind a whole one": _ONE + _ONE[:-1],
    "a cut-off message in a wrapper": wrapper(1, 1, _INNER[:-1]),
    "a wrong CRC-32": _damaged(_ONE),
    "a wrong CRC-32 in a wrapper": wrapper(1, 1, _damaged(_INNER)),
    "a wrapper in a wrapper": wrapper(1, 0, wrapper(1, 0, _INNER)),
    "a wrapper without a value": entry(0, message(1, 1, 0, None, None)),
    "a wrapper of nothing": wrapper(1, 1, b""),
    "another magic in a wrapper": wrapper(1, 1, plain(0, [Rec(0, 0, None, b"v")])),
    "zstd": entry(0, message(1, 4, 0, None, b"v")),
    "codec 5": entry(0, message(1, 5, 0, None, b"v")),
    "two gzip members": _wrapped(Codec.GZIP, _halved(Codec.GZIP)),
    "padding behind gzip": _wrapped(Codec.GZIP, compress(Codec.GZIP, _INNER) + bytes(8)),
    "two xerial streams": _wrapped(Codec.SNAPPY, _halved(Codec.SNAPPY)),
    "garbage under gzip": entry(0, message(1, 1, 0, None, b"garbage")),
    "LogAppendTime without a time": plain(1, [Rec(0, -1, None, b"v")], 8),
    "LogAppendTime": plain(1, [Rec(0, 1, None, b"v")], 8),
    "a wrapper's offset 0": wrapper(1, 0, _INNER),
    "a wrapper's offset -1": wrapper(1, -1, _INNER),
    "inner offsets all 0": wrapper(1, 1, _ONE + _ONE),
    "a size of 3": struct.pack(">qi", 0, 3) + bytes(20),
    "bytes behind the value": _with_right_checksum(b"\0\0" + struct.pack(">ii", -1, -1) + b"more"),
    "a key beyond the message": _with_right_checksum(b"\0\0" + struct.pack(">ii", 50, -1)),
    "no key, compacted": _KEYLESS,
    "no key in a wrapper, compacted": wrapper(1, 0, _KEYLESS),
    "larger than max.message.bytes": plain(1, [Rec(0, -1, None, bytes(1 << 21))]),
    "a batch of magic 2": to_batch(_ONE, max_bytes=1000),
}


def is_compacted(name: str) -> bool:
    """Return whether the case is for a compacted topic."""
    return name.endswith("compacted")


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError("the broker closed the connection")
        data += more
    return data


def _error_code(address: tuple[str, int], version: int, topic: str, message_set: bytes) -> int:
    """Return the error code of Produce `version` for partition 0."""
    frame = struct.pack(">hhih", 0, version, 1, -1) + struct.pack(">hii", -1, 5000, 1)
    frame += _string(topic) + struct.pack(">iii", 1, 0, len(message_set)) + message_set
    with socket.create_connection(address, 20) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", _read(connection, 4))
        answer = _read(connection, size)
    # Correlation id, topics, topic name, partitions, partition index.
    (code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    return int(code)


def _answer(address: tuple[str, int], version: int, topic: str, message_set: bytes) -> int:
    """Return the error code once the new topic has a leader."""
    deadline = time.monotonic() + 60
    while True:
        code = _error_code(address, version, topic, message_set)
        if code not in _NOT_YET or time.monotonic() > deadline:
            return code
        time.sleep(0.1)


def main() -> None:
    with kafka(pathlib.Path(sys.argv[1]), heap="512m", version=KAFKA) as bootstrap:
        host, port = bootstrap.split(":")
        compacted = NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"})
        admin = AdminClient({"bootstrap.servers": bootstrap})
        created = admin.create_topics([NewTopic("plain", 1, 1), compacted])
        for future in created.values():
            future.result()
        codes = {
            name: [
                _answer((host, int(port)), v, "compacted" if is_compacted(name) else "plain", data)
                for v in range(3)
            ]
            for name, data in CASES.items()
        }
    ANSWERS.write_text(json.dumps(codes, indent=1) + "\n")


if __name__ == "__main__":
    main()
