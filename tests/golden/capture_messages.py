"""Writes messages/, the bytes that Kafka's own classes write: `python -m tests.golden.capture_messages DIR`.

Needs a JDK 17+ and, the first time, Maven; DIR keeps Kafka's jars. Versions that Kafka 4 no longer has come from 3.9.
Values are random with fixed seeds, so a second run writes the same files.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

from lacuna.wire.generator import BEFORE_KAFKA_4, KAFKA
from tests.golden.broker import jars
from tests.golden.messages import DIRECTORY

Row = list[str]


def _printed(directory: pathlib.Path, version: str) -> Iterator[Row]:
    class_path = f"{directory / version}:{jars(directory / version, version)}/*"
    source = DIRECTORY / "Messages.java"
    compiled = ["javac", "-cp", class_path, "-d", str(directory / version), str(source)]
    subprocess.run(compiled, check=True)
    run = ["java", "-Dstdout.encoding=UTF-8", "-cp", class_path, "Messages"]
    done = subprocess.run(run, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return (line.split("\t") for line in done.stdout.splitlines())


def _file_name(key: str, name: str) -> str:
    return f"k{int(key):02}_{re.sub('(?<=[a-z])(?=[A-Z])', '_', name).lower()}.jsonl"


def main() -> None:
    """Of each version the newest Kafka that has it."""
    directory = pathlib.Path(sys.argv[1])
    by_version: dict[str, dict[tuple[str, int], list[Row]]] = defaultdict(dict)
    for kafka in (BEFORE_KAFKA_4, KAFKA):
        printed: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
        for row in _printed(directory, kafka):
            printed[_file_name(row[0], row[1]), row[2], int(row[3])].append(row)
        for (file, kind, version), rows in printed.items():
            by_version[file][kind, version] = rows
    for file, versions in by_version.items():
        lines = [
            f'["{kind}", {version}, {row[4]}, "{row[5]}", {row[6]}]\n'
            for (kind, version), rows in sorted(versions.items())
            for row in rows
        ]
        (DIRECTORY / file).write_text("".join(lines))


if __name__ == "__main__":
    main()
