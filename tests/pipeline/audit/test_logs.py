"""Tests that impossible metadata is found, and that compaction, retention and transactions leave valid metadata."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lacuna.controlplane.shared.extents import COLUMNS, FLAG_TRUE_OFFSETS, DeadRanges, ExtentTable
from lacuna.pipeline.audit import Finding, Hit, Kind
from lacuna.pipeline.audit.findings import Findings
from lacuna.pipeline.audit.logs import check_log, check_outcomes, holes_of
from lacuna.pipeline.audit.picture import Sparse, draw
from lacuna.pipeline.audit.tables import table_of
from lacuna.pipeline.extents import PartitionLog

#: base offset, next offset, producer id and transaction (0: none), or "merged".
Given = tuple[int, int, int | str]


def log_of(
    extents: Sequence[Given],
    *,
    dead: Sequence[tuple[int, int]] = (),
    start: int = 0,
    stable: int | None = None,
    end: int | None = None,
    partition: int = 0,
    vacated_to: int = 0,
) -> PartitionLog:
    table, ranges = ExtentTable(), DeadRanges()
    for number, (base_offset, next_offset, whose) in enumerate(extents):
        transaction = 0 if isinstance(whose, str) else whose
        producer = (transaction + 100, 0) if transaction else (-1, -1)
        flags = FLAG_TRUE_OFFSETS if whose == "merged" else 0
        row = (1, number, 50, 10, base_offset, next_offset, 7, *producer, transaction, flags)
        for name, value in zip(COLUMNS, row, strict=True):  # append_row refuses wrong ones
            getattr(table, name).append(value)
    for first, stop in dead:
        ranges.firsts.append(first)
        ranges.ends.append(stop)
    high_watermark = end if end is not None else (extents[-1][1] if extents else 0)
    return PartitionLog(
        topic="orders",
        topic_id=bytes(16),
        partition=partition,
        version=1,
        log_start_offset=start,
        last_stable_offset=high_watermark if stable is None else stable,
        high_watermark=high_watermark,
        extents=table,
        dead=ranges,
        vacated_to=vacated_to,
    )


RIGHT = {
    "empty": log_of([]),
    "everything was deleted": log_of([], start=50, end=50),
    "everything was compacted away": log_of([], end=50, vacated_to=50),
    "plain and transactional": log_of([(0, 5, 0), (5, 8, 1), (8, 9, 2)], dead=[(5, 8)]),
    "two aborted ones beside each other": log_of([(0, 5, 1), (5, 8, 2)], dead=[(0, 8)]),
    "an ongoing one": log_of([(0, 5, 0), (5, 8, 1), (8, 9, 0)], stable=5),
    "an aborted one above an ongoing one": log_of(
        [(0, 5, 1), (5, 8, 2), (8, 9, 3)], dead=[(5, 8)], stable=0
    ),
    "a log start within an extent": log_of([(4, 10, 1)], start=6, dead=[(0, 10)]),
    "holes below the last stable offset": log_of(
        [(3, 5, "merged"), (9, 12, 0), (20, 30, 0)], stable=40, end=40, vacated_to=3
    ),
    "a log start behind what was vacated": log_of([(9, 12, 0)], start=9, vacated_to=5),
}

WRONG: dict[str, tuple[PartitionLog, Kind, str]] = {
    "a hole above the last stable offset": (
        log_of([(0, 5, 1), (7, 9, 2)], stable=3),
        Kind.OFFSETS,
        "offsets 5-6",
    ),
    "acknowledged records at the end": (log_of([(0, 5, 1)], stable=0, end=9), Kind.OFFSETS, "5-8"),
    "a log start that stayed behind": (
        log_of([(10, 20, 0)], vacated_to=4),
        Kind.LOG_START,
        "offsets 4-9",
    ),
    "a log start that stayed behind when all went": (log_of([], end=10), Kind.LOG_START, "0-9"),
    "one offset twice": (log_of([(0, 5, 0), (4, 9, 0)]), Kind.OFFSETS, "two extents overlap"),
    "no offsets": (log_of([(0, 5, 0), (5, 5, 0)], end=5), Kind.OFFSETS, "without offsets"),
    "beyond the high watermark": (log_of([(0, 5, 0)], end=4), Kind.OFFSETS, "beyond the high"),
    "below the log start": (
        log_of([(0, 5, 0), (5, 8, 0)], start=5),
        Kind.OFFSETS,
        "below the log start",
    ),
    "a last stable offset behind the end": (
        log_of([(0, 5, 0)], stable=6),
        Kind.OFFSETS,
        "out of order",
    ),
    "an aborted half": (log_of([(0, 5, 1)], dead=[(0, 3)]), Kind.OUTCOME, "within an extent"),
    "an aborted other half": (log_of([(0, 5, 1)], dead=[(3, 5)]), Kind.OUTCOME, "within an extent"),
    "aborted without a transaction": (
        log_of([(0, 5, 0)], dead=[(0, 5)]),
        Kind.OUTCOME,
        "without a transaction",
    ),
    "aborted and compacted": (
        log_of([(0, 5, "merged")], dead=[(0, 5)]),
        Kind.OUTCOME,
        "without a transaction",
    ),
    "aborted nothing": (
        log_of([(0, 5, 1), (9, 12, 1)], dead=[(0, 7)]),
        Kind.OUTCOME,
        "in no extent",
    ),
    "dead ranges out of order": (
        log_of([(0, 5, 1), (5, 9, 1)], dead=[(5, 9), (0, 5)]),
        Kind.OUTCOME,
        "out of order",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_has_no_finding(name: str) -> None:
    assert check_log(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_found(name: str) -> None:
    log, kind, reason = WRONG[name]
    found = check_log(log)
    assert any(each.kind is kind and reason in str(each) for each in found), found
    assert all(each.hits[0].topic == "orders" for each in found)


@pytest.mark.parametrize(
    ("column", "value"),
    [("flags", 8), ("sizes", 0), ("positions", -1), ("producer_ids", 4), ("transactions", 4)],
)
def test_columns_that_contradict_each_other(column: str, value: int) -> None:
    log = log_of([(0, 5, 0), (5, 9, 0)])
    getattr(log.extents, column)[1] = value
    assert Kind.EXTENT in {each.kind for each in check_log(log)}


def test_holes_are_cut_at_the_last_stable_offset() -> None:
    log = log_of([(2, 5, 0), (9, 12, 1)], start=1, stable=7, end=15)
    found = [(hole.first_offset, hole.end_offset, hole.is_explained) for hole in holes_of(log)]
    assert found == [(1, 2, True), (5, 7, True), (7, 9, False), (12, 15, False)]


def test_a_finding_names_a_few_of_many_partitions() -> None:
    hits = tuple(Hit("orders", number, 0, 1) for number in range(1000))
    finding = Finding(kind=Kind.MISSING, reason="it is gone", key="a", hits=hits)
    assert str(finding).startswith("missing object 'a': it is gone (affects orders [0] offset 0, ")
    assert str(finding).endswith("orders [4] offset 0 and 995 more)")


def test_many_notes_leave_room_for_what_is_wrong() -> None:
    findings = Findings(limit=3)
    for number in range(10):
        findings.add(Finding(kind=Kind.FOREIGN, reason=str(number)))
    assert (len(findings.found), findings.notes_left_out, findings.errors_left_out) == (3, 7, 0)
    for number in range(4):
        findings.add(Finding(kind=Kind.DAMAGE, reason=str(number)))
    both = Findings(limit=5)
    both.add_all(findings)
    both.add_all(findings)
    assert [finding.reason for finding in both.errors] == ["0", "1", "2", "0", "1"]
    assert (both.errors_left_out, both.notes_left_out) == (3, 15)


def outcome(*logs: PartitionLog) -> list[str]:
    numbered = [replace(log, partition=index) for index, log in enumerate(logs)]
    return [str(found) for found in check_outcomes(numbered, table_of(numbered))]


def test_s1_a_transaction_has_one_outcome_in_all_partitions() -> None:
    committed = log_of([(0, 5, 1), (5, 9, 2)])
    aborted = log_of([(0, 3, 1), (3, 9, 0)], dead=[(0, 3)])
    ongoing = log_of([(0, 3, 1), (3, 9, 0)], stable=0)
    assert outcome(committed, committed) == []
    assert outcome(aborted, aborted) == []
    assert outcome(committed, ongoing) == []  # it was committed between the two looks
    cut = log_of([(0, 5, 1)], start=3, stable=3)  # DeleteRecords went into an open transaction
    assert outcome(cut, aborted) == []
    (found,) = outcome(committed, aborted)
    assert "transaction 1 of producer 101" in found
    assert "orders [0] offsets 0-4, orders [1] offsets 0-2" in found
    (found,) = outcome(log_of([(0, 5, 1), (5, 9, 0), (9, 10, 1)], dead=[(0, 5)]))
    assert "transaction 1" in found


def test_a_transaction_has_one_producer() -> None:
    log = log_of([(0, 5, 1), (5, 9, 1)])
    log.extents.producer_ids[1] = 7
    (found,) = outcome(log)
    assert "several producers: 7, 101" in found


PICTURES: list[tuple[PartitionLog, dict[str, Any], str]] = [
    (log_of([]), {}, ""),
    (log_of([(0, 4, 0)]), {}, "CCCC"),
    (log_of([(0, 2, 0), (2, 4, 1), (6, 8, "merged")], dead=[(2, 4)]), {}, "CCAA..MM"),
    (log_of([(0, 2, 0), (2, 4, 1)], stable=2), {}, "CCUU"),
    (log_of([(10, 20, 0)], start=15), {}, "CCCCC"),
    (log_of([(0, 100, 0), (100, 140, 1)], dead=[(100, 140)]), {"width": 7}, "CCCCCAA"),
    (log_of([(0, 1000, 0)]), {"damaged": [(500, 501)], "width": 10}, "CCCCCXCCCC"),
    (log_of([(0, 10, 0)]), {"damaged": [(0, 2), (9, 10)]}, "XXCCCCCCCX"),
    (log_of([(0, 10, 0)], start=5), {"damaged": [(0, 2)]}, "CCCCC"),
]


def test_as_many_places_show_holes_as_there_are_within_what_was_compacted() -> None:
    log = log_of([(0, 40, "merged"), (40, 80, "merged"), (80, 100, 0)])
    sparse = [Sparse(0, 40, 30), Sparse(40, 80, 10)]
    assert draw(log, (), 10, sparse) == "..M.M.MMCC"
    assert draw(log, (), 10) == "MMMMMMMMCC"


@pytest.mark.parametrize("number", range(len(PICTURES)))
def test_a_picture_shows_what_most_of_a_place_is_and_all_damage(number: int) -> None:
    log, options, expected = PICTURES[number]
    assert draw(log, options.get("damaged", ()), options.get("width", 64)) == expected


def test_pictures_of_every_width_cover_the_same_log() -> None:
    log = log_of([(0, 300, 0), (300, 500, 1), (600, 900, "merged")], dead=[(300, 500)], end=1000)
    for width in (10, 20, 64, 333, 1000):
        line = draw(log, (), width)
        assert len(line) == width
        for letter, share in (("C", 0.3), ("A", 0.2), ("M", 0.3), (".", 0.2)):
            assert line.count(letter) / width == pytest.approx(share, abs=2 / width)
