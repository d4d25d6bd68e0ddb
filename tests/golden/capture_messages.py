"""Writes messages/messages.jsonl, with bytes from Kafka's own classes: `python -m tests.golden.capture_messages DIR`.

Needs JDK 17+ and, the first time, Maven. DIR holds Kafka's jars. Message versions that Kafka 4 dropped come from 3.9.
Values are random with fixed seeds, so a second run writes the same file. APIs that 3.9 had only as a preview are left
out.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator

from lacuna.wire.generator import BEFORE_KAFKA_4, KAFKA, definition, is_preview
from tests.golden.broker import jars
from tests.golden.messages import DIRECTORY, FILE

Row = list[str]


def _printed(directory: pathlib.Path, version: str) -> Iterator[Row]:
    class_path = f"{directory / version}:{jars(directory / version, version)}/*"
    source = DIRECTORY / "Messages.java"
    compiled = ["javac", "-cp", class_path, "-d", str(directory / version), str(source)]
    subprocess.run(compiled, check=True)
    run = ["java", "-Dstdout.encoding=UTF-8", "-cp", class_path, "Messages"]
    done = subprocess.run(run, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    with zipfile.ZipFile(
        jars(directory / version, version) / f"kafka-clients-{version}.jar"
    ) as jar:
        previews = {name for _, name, *_ in rows if is_preview(definition(jar, f"{name}Request"))}
    return (row for row in rows if row[1] not in previews)


def _snake(name: str) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _section(api: tuple[int, str], versions: dict[tuple[str, int], list[Row]]) -> Iterator[str]:
    yield f'{{"api_key": {api[0]}, "name": "{api[1]}"}}\n'
    for (kind, version), rows in sorted(versions.items()):
        yield from (f'["{kind}", {version}, {row[4]}, "{row[5]}", {row[6]}]\n' for row in rows)


def main() -> None:
    """Use the newest Kafka that supports each version."""
    directory = pathlib.Path(sys.argv[1])
    by_api: dict[tuple[int, str], dict[tuple[str, int], list[Row]]] = defaultdict(dict)
    for kafka in (BEFORE_KAFKA_4, KAFKA):
        printed: dict[tuple[int, str, str, int], list[Row]] = defaultdict(list)
        for row in _printed(directory, kafka):
            printed[int(row[0]), _snake(row[1]), row[2], int(row[3])].append(row)
        for (key, name, kind, version), rows in printed.items():
            by_api[key, name][kind, version] = rows
    lines = (line for api, versions in sorted(by_api.items()) for line in _section(api, versions))
    FILE.write_text("".join(lines))


if __name__ == "__main__":
    main()
