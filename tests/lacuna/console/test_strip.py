"""Tests the strip: its kinds and sums, and how long it takes with a hundred thousand extents."""

import sys
import time
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.console.limits import COLUMNS, RANGES
from lacuna.console.strip import Column, Kind, Strip, Window, draw
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.client.views import PartitionView
from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS, DeadRanges, ExtentTable
from lacuna.testing import Cluster
from tests.agent.harness import NoFeed
from tests.lacuna.console.conftest import Browser, served


def view_of(
    extents: list[tuple[int, int, int, int]],
    dead: list[tuple[int, int]] | None = None,
    start: int = 0,
    stable: int | None = None,
    view: PartitionView | None = None,
) -> PartitionView:
    """Return a view, or fill one, with extents (first, end, transaction, flags).

    A transaction's producer has the same number.
    """
    view = view or PartitionView(bytes(16), 0, NoFeed())
    table, ranges = ExtentTable(), DeadRanges()
    for number, (first, end, transaction, flags) in enumerate(extents):
        producer_id = transaction or -1
        table.append_row(
            (1, number + 1, 0, 10, first, end, 1000 + number, producer_id, 0, transaction, flags)
        )
    for first, end in dead or ():
        ranges.add(first, end)
    view.extents, view.dead = table, ranges
    view.log_start_offset = start
    view.high_watermark = extents[-1][1]
    view.last_stable_offset = view.high_watermark if stable is None else stable
    view.is_current = True
    return view


def strip_of(
    view: PartitionView, first: int, end: int, starts: Mapping[int, int] | None = None
) -> Strip:
    """Return a view's strip."""
    return draw(Window.of(view, first, end, starts or {}))


def test_every_kind() -> None:
    view = view_of(
        [
            (0, 10, 0, 0),
            (10, 20, 0, FLAG_TRUE_OFFSETS),
            (25, 30, 7, 0),
            (30, 40, 8, 0),
            (40, 50, 9, 0),
            (50, 60, 0, 0),
            (60, 70, 8, 0),
        ],
        dead=[(25, 30)],
        start=5,
        stable=40,
    )
    strip = strip_of(view, 0, 70, {9: 40})
    assert [(each.kind, each.first, each.end) for each in strip.ranges] == [
        (Kind.EXPIRED, 0, 5),
        (Kind.COMMITTED, 5, 10),
        (Kind.MERGED, 10, 20),
        (Kind.HOLE, 20, 25),
        (Kind.ABORTED, 25, 30),
        (Kind.COMMITTED, 30, 40),
        (Kind.OPEN, 40, 50),
        (Kind.WAITING, 50, 60),
        (Kind.WAITING, 60, 70),
    ]
    assert strip.totals[Kind.WAITING] == 20
    aborted = strip.ranges[4]
    assert (aborted.transaction, aborted.producer_id) == (7, 7)
    assert (aborted.timestamp, aborted.sequence) == (1002, 3)


def test_it_adds_up_only_as_much_as_it_must() -> None:
    # Each transaction has four extents, and transactions alternate in their outcome.
    extents = [(at * 2, at * 2 + 2, at // 4 + 1, 0) for at in range(RANGES)]
    dead = [(at * 8, at * 8 + 8) for at in range(0, RANGES, 2)]
    assert strip_of(view_of(extents, dead), 0, RANGES * 2).level == "one extent"
    extents = [(at * 2, at * 2 + 2, at // 4 + 1, 0) for at in range(RANGES * 2)]
    strip = strip_of(view_of(extents, dead), 0, RANGES * 4)
    assert strip.level == "a run of neighbouring extents from one transaction"
    assert len(strip.ranges) == RANGES // 2
    assert {each.extents for each in strip.ranges} == {4}
    extents = [(at * 2, at * 2 + 2, at + 1, 0) for at in range(RANGES * 2)]
    strip = strip_of(view_of(extents), 0, RANGES * 4)
    assert strip.level == "a run of neighbouring extents of one kind"
    (only,) = strip.ranges
    assert (only.extents, only.size, only.transaction) == (RANGES * 2, RANGES * 20, -1)
    strip = strip_of(
        view_of(extents, [(at * 4, at * 4 + 2) for at in range(RANGES)]), 0, RANGES * 4
    )
    assert not strip.ranges
    assert len(strip.columns) == COLUMNS
    assert all(column.counts == {Kind.COMMITTED: 4, Kind.ABORTED: 4} for column in strip.columns)


def test_no_gap_covers_what_is_narrow() -> None:
    """The part beyond the last stable offset is often narrow, and matters most."""
    wide = [(0, 5000, 0, 0), (5000, 10_000, 0, FLAG_TRUE_OFFSETS)]
    tail = [(10_000 + at, 10_001 + at, at + 1, 0) for at in range(100)]
    strip = strip_of(view_of([*wide, *tail], stable=10_000), 0, 10_100)
    assert len(strip.ranges) == 102
    assert [strip.is_narrow(each) for each in strip.ranges] == [False] * 2 + [True] * 100
    assert strip.gaps() == [5000]


@given(
    counts=st.dictionaries(st.sampled_from(Kind), st.integers(1, 1 << 40), min_size=1),
    height=st.sampled_from([(64, 2), (16, 1)]),
)
def test_a_column_shows_each_of_its_kinds(counts: dict[Kind, int], height: tuple[int, int]) -> None:
    whole, least = height
    bands = Column(0, sum(counts.values()), counts).bands(whole, least)
    assert [kind for kind, _, _ in bands] == list(counts)
    assert all(size >= least for _, _, size in bands)
    assert sum(size for _, _, size in bands) == pytest.approx(whole)
    assert bands[-1][1] == pytest.approx(0, abs=1e-6)


@given(
    gaps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=40
    ),
    window=st.tuples(st.integers(0, 300), st.integers(1, 300)),
    start=st.integers(0, 50),
    most=st.integers(1, 20),
)
def test_every_offset_is_in_one_place(
    gaps: list[tuple[int, int, int]], window: tuple[int, int], start: int, most: int
) -> None:
    extents, at = [], 0
    for hole, size, transaction in gaps:
        extents.append((at + hole, at + hole + size, transaction, 0))
        at += hole + size
    dead = [(first, end) for first, end, transaction, _ in extents if transaction == 1]
    view = view_of(extents, dead, min(start, at), at)
    first = min(window[0], at - 1)
    end = min(first + window[1], at)
    strip = draw(Window.of(view, first, end, {}), most, most)
    parts = [(each.first, each.end) for each in strip.ranges or strip.columns]
    assert len(parts) <= max(most, len(strip.columns))
    assert len(strip.columns) <= most
    assert parts[0][0] == first
    assert parts[-1][1] == end
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert sum(strip.totals.values()) == end - first
    for column in strip.columns:
        assert sum(column.counts.values()) == column.end - column.first


@pytest.mark.slow
def test_a_hundred_thousand_extents_and_a_thousand_topics(lacuna_private_cluster: Cluster) -> None:
    """Prints how long pages take, but asserts no times, which depend on the machine."""
    cluster = lacuna_private_cluster
    cluster.create_topic("large")
    for number in range(1000):
        cluster.create_topic(f"topic-{number:04}", 2)
    extents = [(at * 10, at * 10 + 10, at // 3, 0) for at in range(100_000)]
    dead = [(at * 300, at * 300 + 30) for at in range(3_000)]

    async def fill(control: ControlClient) -> None:
        topic = control.cluster.topics_by_name["large"]
        view = control.partition(topic.topic_id, 0)
        await view.ready()
        view_of(extents, dead, view=view)

    with served(cluster) as browser:
        cluster.run(fill(browser.control))
        for path in (
            "/topics/large/0",
            "/topics/large/0?from=500000&to=510000",
            "/topics/large/0?from=500000&to=500001",
            "/topics/large",
            "/topics",
            "/topics?sort=size&page=7",
            "/",
        ):
            _print_times(browser, path)
        assert "1,000,000 offsets" in browser.get("/topics/large/0").text
        assert "1,001 topics" in browser.get("/topics").text
        assert browser.get("/topics").text.count("<tr>") == 101


def _print_times(browser: Browser, path: str) -> None:
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        answer = browser.get(path)
        seconds.append(time.perf_counter() - began)
        assert answer.code == 200
    sys.stdout.write(
        f"{sorted(seconds)[2] * 1000:.0f} ms, {len(answer.text) / 1024:.0f} KiB: {path}\n"
    )
