"""Runs old kafka-clients on message sets: Maven fetches the jars, and legacy/java/OldClient.java drives them.

Needs JDK 17+ and, the first time, Maven. `directory` holds jars and classes in a folder per version.
"""

from __future__ import annotations

import functools
import pathlib
import subprocess
from collections.abc import Sequence

HERE = pathlib.Path(__file__).parent / "legacy"
# The last with only magic 0, the last 0.10 version (magic 1), and the first series with magic 2.
VERSIONS = {"0.9.0.1": "v0_9", "0.10.2.2": "v0_10", "0.11.0.3": "v0_11"}

# Offset, timestamp, key, value.
Row = tuple[int, int, bytes | None, bytes | None]


@functools.cache
def _class_path(directory: pathlib.Path, version: str) -> str:
    libs, classes = directory / version / "libs", directory / version / "classes"
    if not libs.is_dir():
        command = ["mvn", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={libs}", f"-Dkafka.version={version}"]
        subprocess.run(command, check=True)
    sources = [HERE / "java" / "OldClient.java", HERE / "java" / VERSIONS[version] / "Sets.java"]
    command = ["javac", "-nowarn", "-cp", f"{libs}/*", "-d", str(classes), *map(str, sources)]
    subprocess.run(command, check=True)
    return f"{classes}:{libs}/*"


def answers(directory: pathlib.Path, version: str, lines: Sequence[str]) -> list[str]:
    """Return the answer of this kafka-clients version to each line (see OldClient.java)."""
    command = ["java", "-Xmx256m", "-cp", _class_path(directory, version), "OldClient"]
    asked = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=asked, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def row_text(row: Row) -> str:
    """Return a row in the form that OldClient reads."""
    offset, timestamp, key, value = row
    return f"{offset}:{timestamp}:{_hex(key)}:{_hex(value)}"


def rows(text: str) -> list[Row]:
    """Return the rows in an answer to "read"."""
    split = [row.split(":") for row in text.split()]
    return [(int(o), int(t), _bytes(key), _bytes(value)) for o, t, key, value in split]


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)
