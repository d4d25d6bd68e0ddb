"""Captures message sets that old Java clients wrote: `python -m tests.golden.capture_legacy DIR`.

legacy/sets.json contains sets of magic 0 and 1 in every codec, with the records that the same client reads from them.
It also contains magic 2 batches with a 0.11 broker's conversions. DIR holds the clients' jars.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

from tests.golden import old_clients
from tests.golden.old_clients import HERE, Row, row_text

TIME = 1_480_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4")
# A hole behind the second row.
OFFSETS = (1000, 1001, 1005, 1006)
PAYLOADS: tuple[tuple[bytes | None, bytes | None], ...] = (
    (b"key", b"value"),
    (None, b"no key " * 20),
    (b"tombstone", None),
    (b"", b""),
)


def _rows(offsets: tuple[int, ...]) -> list[Row]:
    stamps = (TIME, TIME + 2000, TIME + 1000, TIME - 1)
    return [
        (offset, stamp, key, value)
        for offset, stamp, (key, value) in zip(offsets, stamps, PAYLOADS, strict=True)
    ]


def _writes(version: str) -> list[dict[str, Any]]:
    """Return the sets that a client of `version` writes."""
    sets: list[dict[str, Any]] = []
    for codec in CODECS:
        if version == "0.9.0.1":
            # As its producer does: every inner offset is 0.
            sets.append(_set(version, 0, codec, "CreateTime", (0, 0, 0, 0)))
            continue
        sets.append(_set(version, 0, codec, "CreateTime", OFFSETS))
        sets.append(_set(version, 1, codec, "CreateTime", OFFSETS))
        sets.append(_set(version, 1, codec, "CreateTime", (0, 1, 2, 3)))
        sets.append(_set(version, 1, codec, "LogAppendTime", OFFSETS))
    return sets


def _set(
    version: str, magic: int, codec: str, timestamp_type: str, offsets: tuple[int, ...]
) -> dict[str, Any]:
    written = " ".join(row_text(row) for row in _rows(offsets))
    return {
        "client": version,
        "magic": magic,
        "codec": codec,
        "timestamp_type": timestamp_type,
        "append_time": TIME + 5000,
        "written": written,
    }


def _captured(directory: pathlib.Path, version: str) -> list[dict[str, Any]]:
    sets = _writes(version)
    lines = [
        "write {magic} {codec} {timestamp_type} {append_time} {written}".format_map(s) for s in sets
    ]
    written = old_clients.answers(directory, version, lines)
    read = old_clients.answers(directory, version, [f"read {data}" for data in written])
    return [{**s, "bytes": w, "read": r} for s, w, r in zip(sets, written, read, strict=True)]


def _conversions(directory: pathlib.Path) -> list[dict[str, Any]]:
    """Return magic 2 batches, and the sets that 0.11 converts them to from the third row's offset."""
    version = "0.11.0.3"
    cases = [
        (c, t, magic) for c in CODECS for t in ("CreateTime", "LogAppendTime") for magic in (0, 1)
    ]
    rows = " ".join(row_text(row) for row in _rows(OFFSETS))
    lines = [f"write 2 {codec} {kind} {TIME + 5000} {rows}" for codec, kind, _ in cases]
    batches = old_clients.answers(directory, version, lines)
    lines = [
        f"convert {magic} {OFFSETS[2]} {batch}"
        for (_, _, magic), batch in zip(cases, batches, strict=True)
    ]
    sets = old_clients.answers(directory, version, lines)
    read = old_clients.answers(directory, version, [f"read {data}" for data in sets])
    return [
        {
            "codec": codec,
            "timestamp_type": kind,
            "magic": magic,
            "first_offset": OFFSETS[2],
            "batch": batch,
            "bytes": data,
            "read": decoded,
        }
        for (codec, kind, magic), batch, data, decoded in zip(
            cases, batches, sets, read, strict=True
        )
    ]


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    sets = [entry for version in old_clients.VERSIONS for entry in _captured(directory, version)]
    found = {"sets": sets, "conversions": _conversions(directory)}
    (HERE / "sets.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
