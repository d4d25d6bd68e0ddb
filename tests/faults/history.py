"""Checks a history of an exactly-once pipeline, as a pure function of that history (S2-S5, S12, S26).

A history contains the acknowledgements of clients and the records that a read_committed consumer finally read:

    inputs     partition → the (offset, value) acknowledged to the producer of the input
    read       partition → the (offset, value) in the input topic at the end
    outputs    partition → the values in the output topic at the end, in order
    positions  partition → the group's committed offset at the end

A worker writes one output for every input, to the same partition number: `effect(partition, offset, value)`.

`transaction_violations` checks single transactions with unique values instead.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Rows = Mapping[int, Sequence[tuple[int, bytes]]]


def effect(partition: int, offset: int, value: bytes) -> bytes:
    """Return the output that a worker must write for one input."""
    return b"%d:%d:" % (partition, offset) + value


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The acknowledgements and the final records. The module docstring describes the fields."""

    inputs: Rows
    read: Rows
    outputs: Mapping[int, Sequence[bytes]]
    positions: Mapping[int, int] = field(default_factory=dict)


def violations(history: History) -> list[str]:
    """Return every violation in a history, each as a sentence."""
    found = []
    for partition in sorted(history.inputs.keys() | history.read.keys() | history.outputs.keys()):
        read = history.read.get(partition, ())
        found += log_violations(partition, history.inputs.get(partition, ()), read)
        expected = [effect(partition, offset, value) for offset, value in read]
        found += _sequence_violations(partition, expected, history.outputs.get(partition, ()))
        position = history.positions.get(partition, 0)
        end = read[-1][0] + 1 if read else 0
        if partition in history.positions and position != end:
            found.append(f"partition {partition}: the group stands at {position}, the end is {end}")
    return found


def log_violations(
    partition: int,
    acknowledged: Sequence[tuple[int, bytes]],
    read: Sequence[tuple[int, bytes]],
) -> list[str]:
    """Compare a log with its acknowledgements. Return lost, moved, duplicate and misordered values."""
    name = f"partition {partition}"
    found = []
    offsets = [offset for offset, _ in read]
    if any(later <= earlier for earlier, later in itertools.pairwise(offsets)):
        found.append(f"{name}: offsets do not grow")
    at = dict(read)
    for offset, value in acknowledged:
        if at.get(offset) != value:
            got = at.get(offset)
            found.append(f"{name}: {value!r} was acknowledged at {offset}, where {got!r} is")
    for value, count in Counter(value for _, value in read).items():
        if count > 1:
            found.append(f"{name}: {value!r} is there {count} times")
    return found


def _sequence_violations(
    partition: int, expected: Sequence[bytes], got: Sequence[bytes]
) -> list[str]:
    """Return outputs in one partition that are missing, duplicate, without input, or out of order."""
    name = f"output {partition}"
    counts, wanted = Counter(got), Counter(expected)
    found = [f"{name}: {value!r} is missing" for value in wanted if value not in counts]
    found += [f"{name}: {value!r} comes from no input" for value in counts if value not in wanted]
    found += [
        f"{name}: {value!r} is there {count} times" for value, count in counts.items() if count > 1
    ]
    if not found and list(got) != list(expected):
        found.append(f"{name}: the order is another")
    return found


@dataclass(slots=True, kw_only=True)
class Transaction:
    """A transaction: its values in order, by partition. `is_committed` is None if the client does not know."""

    values: dict[int, list[bytes]] = field(default_factory=dict)
    is_committed: bool | None = None


def transaction_violations(transactions: Sequence[Transaction], read: Rows) -> list[str]:
    """Return transactions that were read partly or not as acknowledged. `read` is the final read_committed result."""
    found = []
    values = {partition: [value for _, value in rows] for partition, rows in read.items()}
    places = {
        (partition, value): at
        for partition, rows in values.items()
        for at, value in enumerate(rows)
    }
    for number, each in enumerate(transactions):
        wanted = [(partition, value) for partition, rows in each.values.items() for value in rows]
        seen = [place for place in wanted if place in places]
        name = f"transaction {number}"
        if each.is_committed is False and seen:
            found.append(f"{name} was aborted and {seen[0][1]!r} is visible")
        elif each.is_committed and len(seen) < len(wanted):
            lost = next(place for place in wanted if place not in places)
            found.append(f"{name} was committed and {lost[1]!r} is not visible")
        elif 0 < len(seen) < len(wanted):
            found.append(f"{name} is half visible: {len(seen)} of {len(wanted)}")
        for partition, rows in each.values.items():
            order = [places[partition, value] for value in rows if (partition, value) in places]
            if order != sorted(order):
                found.append(f"{name}: its order in partition {partition} is another")
    return found
