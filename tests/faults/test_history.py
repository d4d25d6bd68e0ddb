"""Tests that the checker of exactly-once histories detects each kind of violation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from .history import History, Rows, Transaction, effect, transaction_violations, violations

READ: Rows = {
    0: [(0, b"a"), (1, b"b"), (4, b"c")],
    1: [(0, b"d")],
}
RIGHT = History(
    inputs={0: [(0, b"a"), (4, b"c")], 1: [(0, b"d")]},
    read=READ,
    outputs={p: [effect(p, offset, value) for offset, value in rows] for p, rows in READ.items()},
    positions={0: 5, 1: 1},
)


def _outputs(change: Callable[[list[bytes]], object]) -> History:
    """Return the correct history, but with the outputs of partition 0 changed."""
    rows = list(RIGHT.outputs[0])
    change(rows)
    return dataclasses.replace(RIGHT, outputs={**RIGHT.outputs, 0: rows})


def _read(rows: list[tuple[int, bytes]]) -> History:
    """Return the correct history, but with another input log and all its outputs."""
    outputs = [effect(0, offset, value) for offset, value in rows]
    return dataclasses.replace(
        RIGHT,
        read={**RIGHT.read, 0: rows},
        outputs={**RIGHT.outputs, 0: outputs},
        positions={},
    )


MUTATIONS: dict[str, tuple[History, str]] = {
    "an effect lost": (_outputs(lambda rows: rows.pop(1)), "is missing"),
    "the last effect lost": (_outputs(lambda rows: rows.pop()), "is missing"),
    "an effect twice": (_outputs(lambda rows: rows.append(rows[0])), "is there 2 times"),
    "two effects swapped": (_outputs(lambda rows: rows.reverse()), "the order is another"),
    "an effect of nothing": (_outputs(lambda rows: rows.append(b"0:9:z")), "comes from no input"),
    "an effect of another value": (
        _outputs(lambda rows: rows.__setitem__(0, b"0:0:z")),
        "comes from no input",
    ),
    "an acknowledged input lost": (_read([(0, b"a"), (1, b"b")]), "was acknowledged at 4"),
    "an acknowledged input moved": (
        _read([(0, b"a"), (1, b"b"), (5, b"c")]),
        "was acknowledged at 4",
    ),
    "an input twice": (
        _read([(0, b"a"), (1, b"b"), (4, b"c"), (5, b"b")]),
        "is there 2 times",
    ),
    "offsets that go back": (_read([(1, b"b"), (0, b"a"), (4, b"c")]), "offsets do not grow"),
    "a group that stands behind": (
        dataclasses.replace(RIGHT, positions={0: 4, 1: 1}),
        "the group stands at 4, the end is 5",
    ),
    "a whole partition lost": (
        dataclasses.replace(RIGHT, outputs={0: RIGHT.outputs[0]}),
        "is missing",
    ),
}


def test_the_right_history_is_right() -> None:
    assert violations(RIGHT) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutated_history_is_refused(name: str) -> None:
    history, message = MUTATIONS[name]
    found = violations(history)
    assert any(message in line for line in found), found


VISIBLE: Rows = {0: [(0, b"a1"), (1, b"a2"), (5, b"c1")], 1: [(0, b"a3")]}


def _transaction(is_committed: bool | None, *values: bytes) -> list[Transaction]:
    """Return a transaction whose third value went to the other partition."""
    return [Transaction(values={0: [*values[:2]], 1: [*values[2:]]}, is_committed=is_committed)]


@pytest.mark.parametrize("outcome", [True, None])
def test_a_transaction_may_be_whole(outcome: bool | None) -> None:
    assert transaction_violations(_transaction(outcome, b"a1", b"a2", b"a3"), VISIBLE) == []


@pytest.mark.parametrize("outcome", [False, None])
def test_a_transaction_may_be_absent(outcome: bool | None) -> None:
    assert transaction_violations(_transaction(outcome, b"b1", b"b2", b"b3"), VISIBLE) == []


@pytest.mark.parametrize(
    ("transactions", "message"),
    [
        (_transaction(True, b"b1", b"b2", b"b3"), "is not visible"),
        (_transaction(True, b"a1", b"a2", b"b3"), "is not visible"),
        (_transaction(False, b"a1", b"a2", b"a3"), "was aborted"),
        (_transaction(False, b"b1", b"b2", b"a3"), "was aborted"),
        (_transaction(None, b"a1", b"a2", b"b3"), "half visible: 2 of 3"),
        (_transaction(True, b"a2", b"a1", b"a3"), "its order in partition 0"),
    ],
)
def test_a_transaction_that_is_not_atomic_is_refused(
    transactions: list[Transaction], message: str
) -> None:
    found = transaction_violations(transactions, VISIBLE)
    assert any(message in line for line in found), found
