"""What clients observed: operations with their times and outcomes, as values and as lines of text.

    w1 txn 1.200-1.250-1.300 ok t1#2 log/0+w1.5.0@17 log/1+w1.5.1@? billing:in/0:=7
    r1 read 1.310-1.320 ok log/0[10,18)10:w2.3.0,17:w1.5.0
    p bounds 1.330-1.331 ok log/0.lso=18 log/0.hw=18

A line contains the process, the kind, the times in seconds, the outcome, an optional session (`ID#GENERATION`, which
newer generations of the same id fence), and the parts. A place is a topic and a partition. A transaction has three
times; the second is when its commit was requested. Values are unique in a history.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

#: The outcomes: the operation happened, did not happen, or is in doubt. A transaction that is `ok` is committed.
OK: Final = "ok"
FAIL: Final = "fail"
UNKNOWN: Final = "unknown"

#: The kinds of operations. SERIAL transactions exclude each other: each fences its predecessor.
TXN: Final = "txn"
SERIAL: Final = "serial"
#: A producer that a newer generation has fenced tries to write, or to commit.
ZOMBIE: Final = "zombie"
SEND: Final = "send"
INIT: Final = "init"
#: Reads under read_committed and read_uncommitted.
READ: Final = "read"
DIRTY: Final = "dirty"
BOUNDS: Final = "bounds"
#: Group offsets are committed outside transactions, or fetched.
COMMIT: Final = "commit"
FIND: Final = "find"
#: Share groups: records are acquired, and settled (accepted, released, rejected).
ACQUIRE: Final = "acquire"
SETTLE: Final = "settle"
#: A reader received a batch with a wrong checksum.
DAMAGED: Final = "damaged"
#: A reader received nothing, although the log continued.
STUCK: Final = "stuck"
#: A fault, or its end.
FAULT: Final = "fault"

#: The kinds of bounds: the last stable offset, the high watermark, the log start.
LSO: Final = "lso"
HW: Final = "hw"
START: Final = "start"
ACCEPT: Final = "accept"


class HistoryError(ValueError):
    """The text is not a valid operation."""


@dataclass(frozen=True, slots=True)
class Write:
    """A record that was sent. `offset` is the offset that the broker returned, or None."""

    place: str
    value: str
    offset: int | None = None

    def __str__(self) -> str:
        return f"{self.place}+{self.value}@{'?' if self.offset is None else self.offset}"


@dataclass(frozen=True, slots=True)
class Read:
    """All records that a reader received between two positions."""

    place: str
    first: int
    end: int
    records: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        records = ",".join(f"{offset}:{value}" for offset, value in self.records)
        return f"{self.place}[{self.first},{self.end}){records}"


@dataclass(frozen=True, slots=True)
class Take:
    """An offset that was committed for a group."""

    group: str
    place: str
    offset: int

    def __str__(self) -> str:
        return f"{self.group}:{self.place}:={self.offset}"


@dataclass(frozen=True, slots=True)
class Found:
    """A group's committed offset as returned by a broker, or 0 if there is none."""

    group: str
    place: str
    offset: int

    def __str__(self) -> str:
        return f"{self.group}:{self.place}=={self.offset}"


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of a log as returned by a broker: LSO, HW or START."""

    place: str
    what: str
    offset: int

    def __str__(self) -> str:
        return f"{self.place}.{self.what}={self.offset}"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The `count`-th delivery of a record, to a member of a share group. The member holds the record for `seconds`."""

    group: str
    place: str
    offset: int
    value: str
    count: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.group}~{self.place}@{self.offset}:{self.value}*{self.count}/{self.seconds:g}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A place from which a member of a share group requested records."""

    group: str
    place: str

    def __str__(self) -> str:
        return f"{self.group}~{self.place}?"


@dataclass(frozen=True, slots=True)
class Settled:
    """What a share group's member did with a record: `accept`, `release`, or `drop` when its connection closed."""

    group: str
    place: str
    offset: int
    how: str

    def __str__(self) -> str:
        return f"{self.group}~{self.place}@{self.offset}!{self.how}"


Part: TypeAlias = Write | Read | Take | Found | Bound | Delivery | Settled | Asked
P = TypeVar("P", bound=Part)


@dataclass(frozen=True, slots=True)
class Operation:
    """One observation. `asked` is when a transaction's commit was requested, or `end` if it never was."""

    process: str
    kind: str
    start: float
    end: float
    outcome: str = OK
    parts: tuple[Part, ...] = ()
    session: str = ""
    asked: float = -1.0

    @property
    def identity(self) -> str:
        """The id that the operation's producer shares with its predecessors and successors."""
        return self.session.partition("#")[0]

    @property
    def generation(self) -> int:
        """The producer's number among those with the same id, counting from 1, or 0 without a session."""
        return int(self.session.partition("#")[2] or 0)

    def of(self, kind: type[P]) -> Iterator[P]:
        return (each for each in self.parts if isinstance(each, kind))

    def __str__(self) -> str:
        asked = f"{self.asked:.4f}-" if self.asked >= 0 else ""
        times = f"{self.start:.4f}-{asked}{self.end:.4f}"
        session = [self.session] if self.session else []
        words = [self.process, self.kind, times, self.outcome, *session, *map(str, self.parts)]
        return " ".join(words)


History: TypeAlias = list[Operation]

_PLACE: Final = r"(?P<place>[^\s+@:~\[=]+/\d+)"
_GROUP: Final = r"(?P<group>[^\s+@:~\[=]+)"
_VALUE: Final = r"(?P<value>[^\s@*,]+)"
_OFFSET: Final = r"(?P<offset>\d+)"
_FORMS: Final[dict[type[Part], str]] = {
    Write: rf"{_PLACE}\+{_VALUE}@(?P<offset>\d+|\?)",
    Read: rf"{_PLACE}\[(?P<first>\d+),(?P<end>\d+)\)(?P<records>\S*)",
    Take: rf"{_GROUP}:{_PLACE}:={_OFFSET}",
    Found: rf"{_GROUP}:{_PLACE}=={_OFFSET}",
    Bound: rf"{_PLACE}\.(?P<what>lso|hw|start)={_OFFSET}",
    Delivery: rf"{_GROUP}~{_PLACE}@{_OFFSET}:{_VALUE}\*(?P<count>\d+)/(?P<seconds>[\d.]+)",
    Settled: rf"{_GROUP}~{_PLACE}@{_OFFSET}!(?P<how>\w+)",
    Asked: rf"{_GROUP}~{_PLACE}\?",
}
_NUMBERS: Final = frozenset({"offset", "first", "end", "count"})


def parse(text: str) -> History:
    """Parse lines of text, skipping empty lines and comments that begin with #. Raises HistoryError."""
    lines = (line.strip() for line in text.splitlines())
    return [_operation(line) for line in lines if line and not line.startswith("#")]


def show(history: Iterable[Operation]) -> str:
    return "".join(f"{each}\n" for each in history)


def _operation(line: str) -> Operation:
    try:
        process, kind, times, outcome, *rest = line.split()
        start, *asked, end = map(float, times.split("-"))
    except ValueError as error:
        raise HistoryError(f"not an operation: {line}") from error
    session = rest.pop(0) if rest and re.fullmatch(r"[^\s+@:~\[=/]+#\d+", rest[0]) else ""
    parts = tuple(map(_part, rest))
    return Operation(process, kind, start, end, outcome, parts, session, *asked)


def _part(word: str) -> Part:
    for kind, form in _FORMS.items():
        if found := re.fullmatch(form, word):
            return kind(**{name: _field(name, text) for name, text in found.groupdict().items()})
    raise HistoryError(f"not a part of an operation: {word}")


def _field(name: str, text: str) -> Any:
    if name == "records":
        pairs = (each.partition(":") for each in text.split(",") if each)
        return tuple((int(offset), value) for offset, _, value in pairs)
    if name == "seconds":
        return float(text)
    if name in _NUMBERS:
        return None if text == "?" else int(text)
    return text
