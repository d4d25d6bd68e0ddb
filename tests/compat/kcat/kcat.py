"""Runs each scenario of the contract with a kcat command line."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SECONDS = 60
Answer = tuple[dict[str, list[str]], dict[str, Any]]
FEEDS = ("start", "middle", "end", "all", "mixed")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_COMMITTED = ("-X", "isolation.level=read_committed")


class KcatError(Exception):
    """kcat ended with an error. The message is its last line."""


class Kcat:
    """kcat against one cluster."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap = bootstrap
        self.prefix = prefix

    def run(self, *arguments: str, said: str = "") -> str:
        """Run kcat and return its output. Raises KcatError and TimeoutExpired."""
        command = ["kcat", "-b", self._bootstrap, "-X", "client.id=kcat", *arguments]
        done = subprocess.run(
            command, input=said, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        sys.stderr.write(done.stderr)
        if done.returncode:
            raise KcatError(done.stderr.strip().splitlines()[-1:])
        return done.stdout

    def read(
        self, name: str, partition: int, offset: str = "beginning", count: int = 0
    ) -> list[str]:
        """Return the records of a partition from an offset to its end, as lines. JSON distinguishes null from empty."""
        arguments = ["-C", "-q", "-J", "-e", "-t", f"{self.prefix}-{name}", "-p", str(partition)]
        arguments += ["-o", offset, *(["-c", str(count)] if count else []), *_COMMITTED]
        return [_line(json.loads(text)) for text in self.run(*arguments).splitlines()]

    def offset(self, name: str, timestamp: int) -> int:
        """Return the offset for a timestamp. -2 is the earliest and -1 the latest."""
        said = self.run("-Q", "-t", f"{self.prefix}-{name}:0:{timestamp}")
        found = re.search(r"offset (\d+)", said)
        if found is None:
            raise KcatError(f"no offset in {said!r}")
        return int(found[1])


def _line(record: dict[str, Any]) -> str:
    def text(value: str | None) -> str:
        return "~" if value is None else value

    line = f"{text(record.get('key'))}={text(record.get('payload'))}"
    headers = record.get("headers") or []
    pairs = zip(headers[::2], headers[1::2], strict=True)
    return line + ("|" + ",".join(f"{n}:{text(v)}" for n, v in pairs) if headers else "")


def produce(kcat: Kcat, records: Sequence[dict[str, Any]]) -> Answer:
    """Produce records without headers together, because one kcat for each record and codec takes too long."""
    for codec in CODECS:
        for partition in range(3):
            mine = [r for n, r in enumerate(records) if n % 3 == partition]
            _produce(kcat, partition, codec, mine)
    found = {f"produce/{p}": kcat.read("produce", p) for p in range(3)}
    return found, {"codecs": list(CODECS)}


def _produce(kcat: Kcat, partition: int, codec: str, records: Sequence[dict[str, Any]]) -> None:
    where = ["-P", "-t", f"{kcat.prefix}-produce", "-p", str(partition), "-z", codec, "-K", "\t"]
    where += ["-X", "enable.idempotence=true"]
    waiting: list[str] = []

    def send() -> None:
        if waiting:
            kcat.run(*where, said="".join(waiting))
            waiting.clear()

    for record in records:
        key, value = record["key"], record["value"]
        is_plain = key and value and not record["headers"]
        if is_plain:
            waiting.append(f"{key}\t{value}\n")
            continue
        send()
        headers = [option for n, v in record["headers"] for option in ("-H", f"{n}={v}")]
        # -Z makes a key or value null where it is empty; without it both stay empty.
        is_null = key is None or value is None
        kcat.run(
            *where, *(["-Z"] if is_null else []), *headers, said=f"{key or ''}\t{value or ''}\n"
        )
    send()


def holes(kcat: Kcat) -> Answer:
    """Read to the end of the partition. With -e, kcat exits only there."""
    found = {f"{name}/0": kcat.read(name, 0) for name in FEEDS}
    return found, {"at_end": list(FEEDS)}


def holes_inside(kcat: Kcat) -> Answer:
    """Read one record from each tenth of the offsets."""
    found: dict[str, list[str]] = {}
    for name in ("middle", "mixed"):
        earliest, latest = kcat.offset(name, -2), kcat.offset(name, -1)
        lines = found.setdefault(f"{name}/0", [])
        for tenth in range(10):
            begin = earliest + tenth * (latest - earliest) // 10
            first = kcat.read(name, 0, str(begin), 1)
            lines += first if first != lines[-1:] else []
    return found, {}


def group(kcat: Kcat) -> Answer:
    """A balanced consumer (-G) reads all partitions to their ends, and the next one of the group reads nothing."""
    name, topic = f"{kcat.prefix}-g", f"{kcat.prefix}-group"
    arguments = ["-q", "-J", "-e", "-X", "auto.offset.reset=earliest", "-G", name, topic]
    found: dict[str, list[str]] = {}
    for text in kcat.run(*arguments).splitlines():
        record = json.loads(text)
        found.setdefault(f"group/{record['partition']}", []).append(_line(record))
    again = len(kcat.run(*arguments).splitlines())
    return found, {"again": again}


def metadata(kcat: Kcat) -> Answer:
    """Read this run's topics and their partitions with -L -J."""
    said = json.loads(kcat.run("-L", "-J"))
    ours = [topic for topic in said["topics"] if topic["topic"].startswith(f"{kcat.prefix}-")]
    counts = {t["topic"].removeprefix(f"{kcat.prefix}-"): len(t["partitions"]) for t in ours}
    return {}, {"topics": dict(sorted(counts.items()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--workload", type=Path, required=True)
    parser.add_argument("--prefix", required=True)
    arguments = parser.parse_args()
    kcat = Kcat(arguments.bootstrap, arguments.prefix)
    records = json.loads(arguments.workload.read_text())["produce"]
    scenarios: dict[str, Callable[[], Answer]] = {
        "produce": lambda: produce(kcat, records),
        "holes": lambda: holes(kcat),
        "holes_inside": lambda: holes_inside(kcat),
        "balanced group": lambda: group(kcat),
        "metadata": lambda: metadata(kcat),
    }
    for name, scenario in scenarios.items():
        answer: dict[str, Any] = {"scenario": name}
        try:
            found, facts = scenario()
            answer |= {"ok": True, "records": found, "facts": facts}
        except (KcatError, subprocess.TimeoutExpired, ValueError) as error:
            answer |= {"ok": False, "error": f"{type(error).__name__}: {error}", "records": {}}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
