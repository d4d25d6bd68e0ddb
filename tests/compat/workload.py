"""Defines the workload: the content of the feeds, the steps of the programs, and the records that they must read. It
never varies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FEEDS = ("start", "middle", "end", "all", "mixed")
#: The topics that the runner creates in addition to the feeds, with their numbers of partitions.
TOPICS = {"produce": 3, "transactions": 2, "group": 4, "input": 1, "output": 1}
GROUP_RECORDS = 200
INPUT_RECORDS = 50
_LARGE = 20_000


@dataclass(frozen=True, slots=True)
class Record:
    """A record. A key or value of None is null."""

    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...] = ()
    partition: int = 0

    @property
    def line(self) -> str:
        """Return the record as programs print it: key=value|h1:x,h2:y, with ~ for null."""
        text = f"{_text(self.key)}={_text(self.value)}"
        if self.headers:
            text += "|" + ",".join(f"{name}:{_text(value)}" for name, value in self.headers)
        return text


@dataclass(frozen=True, slots=True)
class Step:
    """A step in filling a feed. `do` is begin, send, commit or abort.

    `by` names the producer, which is transactional if the name begins with tx-. `codec` is the codec of its batches.
    """

    do: str
    by: str
    codec: str = "none"
    records: tuple[Record, ...] = ()

    @property
    def is_transactional(self) -> bool:
        """Return whether the step belongs to a transaction."""
        return self.by.startswith("tx-")


@dataclass(frozen=True, slots=True)
class Workload:
    """The whole workload. `json` is the part that programs get."""

    feeds: dict[str, tuple[Step, ...]]
    produce: tuple[Record, ...]
    transactions: tuple[tuple[bool, tuple[Record, ...]], ...]

    @property
    def json(self) -> dict[str, Any]:
        """Return the content of the workload file."""
        return {
            "feeds": {name: [_step(s) for s in self.feeds[name]] for name in FEEDS},
            "produce": [_record(r, with_headers=True) for r in self.produce],
            "transactions": [
                {"commit": commit, "records": [_record(r, with_partition=True) for r in records]}
                for commit, records in self.transactions
            ],
        }


def _text(value: str | None) -> str:
    return "~" if value is None else value


def _record(
    record: Record, *, with_headers: bool = False, with_partition: bool = False
) -> dict[str, Any]:
    made: dict[str, Any] = {"partition": record.partition} if with_partition else {}
    made |= {"key": record.key, "value": record.value}
    if with_headers:
        made["headers"] = [list(header) for header in record.headers]
    return made


def _step(step: Step) -> dict[str, Any]:
    """Return a feed's step without its records, which programs do not need."""
    return {"do": step.do, "by": step.by, "codec": step.codec, "records": len(step.records)}


class _Feed:
    """Builds the steps of one feed, with consecutively numbered records."""

    def __init__(self, name: str, codecs: Iterable[str]) -> None:
        self.steps: list[Step] = []
        self._name = name
        self._codecs = set(codecs)
        self._number = 0

    def send(self, by: str, count: int = 0, records: Sequence[Record] = ()) -> None:
        made = tuple(records) or tuple(self._next() for _ in range(count))
        self._add("send", by, made)

    def begin(self, *by: str) -> None:
        for one in by:
            self._add("begin", one)

    def commit(self, by: str) -> None:
        self._add("commit", by)

    def abort(self, by: str) -> None:
        self._add("abort", by)

    def whole(self, by: str, count: int, outcome: str) -> None:
        """Add a transaction of one batch of `count` records. `outcome` is commit or abort."""
        self.begin(by)
        self.send(by, count)
        self._add(outcome, by)

    def _next(self) -> Record:
        self._number += 1
        return Record(f"{self._name}{self._number}", f"v{self._number}-" + "abc" * 10)

    def _add(self, do: str, by: str, records: tuple[Record, ...] = ()) -> None:
        """Add a step. Its codec is the suffix of `by`, or "none" if the client cannot read that codec."""
        codec = by.removeprefix("tx-")
        self.steps.append(Step(do, by, codec if codec in self._codecs else "none", records))


def _holes(codecs: Sequence[str]) -> dict[str, tuple[Step, ...]]:
    start, middle, end, everything = (_Feed(name, codecs) for name in FEEDS[:4])
    for _ in range(3):
        start.whole("tx-lz4", 10, "abort")
    start.whole("tx-none", 12, "commit")
    middle.whole("tx-none", 10, "commit")
    middle.begin("tx-none", "tx-lz4")
    for _ in range(3):
        middle.send("tx-none", 5)
        middle.send("tx-lz4", 7)
    middle.abort("tx-lz4")
    middle.abort("tx-none")
    middle.whole("tx-lz4", 10, "commit")
    end.whole("tx-lz4", 11, "commit")
    end.send("none", 3)
    for _ in range(2):
        end.whole("tx-none", 20, "abort")
    everything.begin("tx-none", "tx-lz4")
    for _ in range(2):
        everything.send("tx-lz4", 8)
        everything.send("tx-none", 8)
    everything.abort("tx-none")
    everything.abort("tx-lz4")
    everything.whole("tx-gzip", 5, "abort")
    return {feed._name: tuple(feed.steps) for feed in (start, middle, end, everything)}


def _odd() -> tuple[Record, ...]:
    """Return records that are easily confused: with nulls, empty values and headers."""
    return (
        Record(None, "no key"),
        Record("no value", None),
        Record("", "empty key"),
        Record("empty value", ""),
        Record("one header", "v", (("h", "x"),)),
        Record("headers", "v", (("h1", "x"), ("h1", "again"), ("h2", ""))),
        Record("umlaut", "grün ✓"),
    )


def _mixed(codecs: Sequence[str]) -> tuple[Step, ...]:
    feed = _Feed("mixed", codecs)
    for codec in CODECS:
        feed.send(codec, 6)
    feed.send("none", records=_odd())
    feed.begin("tx-none", "tx-lz4", "tx-zstd")
    feed.send("tx-none", 4)
    feed.send("tx-lz4", 6)
    feed.send("gzip", 5)
    feed.send("tx-zstd", 6)
    feed.abort("tx-lz4")
    feed.send("tx-none", 4)
    feed.commit("tx-zstd")
    feed.send("lz4", 3)
    feed.commit("tx-none")
    feed.whole("tx-none", 30, "abort")
    large = [Record(f"large{n}", f"{n}" * _LARGE) for n in range(8)]
    feed.send("none", records=large)
    feed.whole("tx-snappy", 8, "commit")
    feed.begin("tx-lz4")
    feed.send("tx-lz4", records=large)
    feed.abort("tx-lz4")
    feed.send("zstd", 5)
    feed.whole("tx-gzip", 7, "commit")
    feed.whole("tx-none", 9, "abort")
    feed.whole("tx-lz4", 9, "abort")
    return tuple(feed.steps)


def _input() -> tuple[Step, ...]:
    """Return the feed `input`: i0 to i49 in transactions of 7, with aborted ones in between."""
    feed = _Feed("input", CODECS)
    for first in range(0, INPUT_RECORDS, 7):
        numbers = range(first, min(first + 7, INPUT_RECORDS))
        feed.begin("tx-none")
        feed.send("tx-none", records=[Record(f"k{n}", f"i{n}") for n in numbers])
        feed.commit("tx-none")
        feed.begin("tx-lz4")
        feed.send("tx-lz4", records=[Record(f"k{n}", f"aborted{n}") for n in numbers])
        feed.abort("tx-lz4")
    return tuple(feed.steps)


def _group() -> tuple[Step, ...]:
    records = [Record(f"g{n}", f"v{n}", partition=n % 4) for n in range(GROUP_RECORDS)]
    return (Step("send", "none", records=tuple(records)),)


def _transactions() -> tuple[tuple[bool, tuple[Record, ...]], ...]:
    """Return eight transactions. The last one aborts, so both partitions end with a hole."""
    made = []
    for number in range(8):
        commit = number % 3 == 0
        records = [
            Record(f"t{number}", f"r{n}", partition=(number + n) % 2) for n in range(4 + number)
        ]
        made.append((commit, tuple(records)))
    return tuple(made)


def make(codecs: Sequence[str] = CODECS) -> Workload:
    """Return the workload. The feeds use only `codecs`, and replace others with "none"."""
    feeds = {**_holes(codecs), "mixed": _mixed(codecs), "input": _input(), "group": _group()}
    plain = [Record(f"k{n}", f"v{n}") for n in range(16)]
    produce = (*plain, *_odd(), Record("large", "large" * 2000))
    return Workload(feeds, produce, _transactions())


def committed(steps: Iterable[Step]) -> dict[int, list[str]]:
    """Return the lines that a read_committed consumer gets from each partition, in order."""
    open_at: dict[str, int] = {}
    sent: list[tuple[int | None, Record]] = []
    committed_numbers: set[int | None] = {None}
    for number, step in enumerate(steps):
        if step.do == "begin":
            open_at[step.by] = number
        elif step.do == "send":
            owner = open_at[step.by] if step.is_transactional else None
            sent += [(owner, record) for record in step.records]
        elif step.do == "commit":
            committed_numbers.add(open_at.pop(step.by))
        else:
            open_at.pop(step.by)
    lines: dict[int, list[str]] = {}
    for owner, record in sent:
        if owner in committed_numbers:
            lines.setdefault(record.partition, []).append(record.line)
    return lines
