"""The lines of each row's program on Apache Kafka, captured once, so that a run of the matrix needs Lacuna alone.

A capture belongs to the row's Kafka, its program, how that is run, and the workload. If one of them changes, the row
must be run on both clusters again (`python -m tests.compat.run --only NAME --keep`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.compat.clients import HERE, KAFKAS, Row
from tests.compat.programs import Line, Ran, sources_of
from tests.compat.verdicts import INSIDE_HOLES, Side, wanted
from tests.compat.workload import make

ARCHIVE: Final = HERE / "captured.zip"
#: Stands for the prefix of a run's topics, groups and transactional ids.
_PREFIX: Final = "{prefix}"
#: The same bytes for the same content, whenever it is written.
_DATE: Final = (2026, 1, 1, 0, 0, 0)


class CaptureError(RuntimeError):
    """There is no capture of a row, or it is one of another Kafka, program or workload."""


def capture(sides: Iterable[tuple[Row, str, Side]]) -> None:
    """Put what these rows' programs printed on Kafka, with these prefixes, into the archive. Keep the other rows.

    Raises CaptureError if a program did not end by itself.
    """
    entries = {}
    if ARCHIVE.exists():
        with zipfile.ZipFile(ARCHIVE) as archive:
            entries = {name: archive.read(name).decode() for name in archive.namelist()}
    for row, prefix, side in sides:
        if side.ran.ended:
            raise CaptureError(f"{row.title} is not captured: on Kafka it ended: {side.ran.ended}")
        said = {
            "of": _origin(row),
            "lines": [dataclasses.asdict(line) for line in side.ran.lines.values()],
            "inside": dataclasses.asdict(side.wanted[INSIDE_HOLES]),
        }
        text = json.dumps(said, indent=1, ensure_ascii=False, sort_keys=True)
        entries[f"{row.title}.json"] = text.replace(prefix, _PREFIX)
    with zipfile.ZipFile(ARCHIVE, "w") as archive:
        for name, text in sorted(entries.items()):
            entry = zipfile.ZipInfo(name, _DATE)
            archive.writestr(entry, text, zipfile.ZIP_LZMA)


def captured(row: Row, prefix: str) -> Side:
    """Return what a row's program printed on Kafka, as if with this prefix. Raises CaptureError."""
    said: Mapping[str, Any] = {}
    if ARCHIVE.exists():
        with zipfile.ZipFile(ARCHIVE) as archive:
            name = f"{row.title}.json"
            if name in archive.namelist():
                said = json.loads(archive.read(name).decode().replace(_PREFIX, prefix))
    if said.get("of") != _origin(row):
        reason = "is of another Kafka, program or workload" if said else "does not exist"
        raise CaptureError(
            f"the capture of {row.title} on Apache Kafka {reason}: run "
            f"`python -m tests.compat.run --only '{row.title}' --keep`"
        )
    lines = [Line(**line) for line in said["lines"]]
    ran = Ran({line.scenario: line for line in lines}, "", Path())
    return Side(ran, wanted(make(row.codecs), ran, Line(**said["inside"])))


def _origin(row: Row) -> dict[str, str]:
    return {
        "kafka": KAFKAS[row.kafka],
        "program": sources_of(row),
        "run": " ".join(row.run),
        "workload": _digest(row),
    }


def _digest(row: Row) -> str:
    """Return a digest of what the runner writes, and of the code that writes it."""
    digest = hashlib.sha256(json.dumps(make(row.codecs).json).encode())
    digest.update((HERE / "feeding.py").read_bytes())
    return digest.hexdigest()


def is_captured(row: Row) -> bool:
    """Return whether there is a capture of a row, if only an old one."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        return f"{row.title}.json" in archive.namelist()
