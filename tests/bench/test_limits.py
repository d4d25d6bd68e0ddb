"""The limits: the nearest measured one, in the unit of the work, and how near Lacuna is to it."""

from pathlib import Path

import pytest

from bench import machine, throughput
from bench.aborts import work_of as aborted
from bench.figures import BUSIEST, KILO_RECORDS, P50, THROUGHPUT, WIRE_BYTES, Figure, Row
from bench.latency import WORK as END_TO_END
from bench.limits import LIMITS, End, Limit, ends
from bench.report import ends_table, page_part
from bench.results import Results
from bench.sections import BARE, LACUNA
from bench.tiny import PRODUCE, REQUESTS
from bench.transactions import TRANSACTIONS
from bench.transactions import work_of as transactions_by

ROOT = Path(__file__).resolve().parents[2]
ONE, EIGHT = transactions_by(1), transactions_by(8)
PRODUCED, PRODUCED_LZ4 = (throughput.work_of(throughput.PRODUCE, each) for each in ("none", "lz4"))
TUNED = throughput.work_of(throughput.READ_TUNED, "none")


def results(
    *measured: tuple[str, str, Figure, float], speeds: dict[str, float] | None = None
) -> Results:
    """Return rows of one run each."""
    rows: dict[tuple[str, str], Row] = {}
    for work, target, figure, value in measured:
        row = rows.setdefault((work, target), Row(work, target, [{}]))
        row.runs[0][figure] = value
    facts = {} if speeds is None else {"speeds": speeds}
    return Results("full", facts, {"section": list(rows.values())})


def the_end(found: Results) -> End:
    (end,) = ends(found)
    return end


def test_the_rate_of_a_client_that_never_waits_is_that_of_its_busiest_thread() -> None:
    end = the_end(results((PRODUCED, LACUNA, THROUGHPUT, 300.0), (PRODUCED, LACUNA, BUSIEST, 75.0)))
    assert end.limit.name == "the client's busiest thread"
    assert (end.lacuna, end.value, end.ratio) == (300, 400, 0.75)


def test_the_client_counts_at_its_best_beside_any_server() -> None:
    """A client that waits for a slow server wastes CPU: 95 % at 19 MB/s, but 50 % at 200 MB/s with `bare`."""
    end = the_end(
        results(
            (PRODUCED, LACUNA, THROUGHPUT, 19.0),
            (PRODUCED, LACUNA, BUSIEST, 95.0),
            (PRODUCED, BARE, THROUGHPUT, 200.0),
            (PRODUCED, BARE, BUSIEST, 50.0),
        )
    )
    assert (end.lacuna, end.value) == (19, 400)


@pytest.mark.parametrize(
    ("disk", "name", "value"), [(2000, "the client's busiest thread", 400), (320, "the disk", 320)]
)
def test_the_nearest_limit_counts(disk: float, name: str, value: float) -> None:
    end = the_end(
        results(
            (PRODUCED, LACUNA, THROUGHPUT, 300.0),
            (PRODUCED, LACUNA, BUSIEST, 75.0),
            speeds={machine.DISK: disk},
        )
    )
    assert (end.limit.name, end.value) == (name, value)


def test_of_a_time_the_longest_limit_is_the_nearest() -> None:
    def limit(name: str, ms: float) -> Limit:
        return Limit("wait", P50, name, "asked", lambda _: ms)

    limits = [limit("a", 1.0), limit("b", 2.0)]
    found = results(("wait", LACUNA, P50, 3.0))
    for order in (limits, limits[::-1]):
        (end,) = ends(found, order)
        assert (end.limit.name, end.ratio) == ("b", 1.5)


def test_the_disk_gets_what_lz4_leaves_of_a_record() -> None:
    """Of 1,024 bytes, it writes 512, so the limit is twice as many records."""
    end = the_end(
        results(
            (PRODUCED_LZ4, LACUNA, THROUGHPUT, 300.0),
            (aborted(0, "lz4"), LACUNA, WIRE_BYTES, 512.0),
            speeds={machine.DISK: 1000},
        )
    )
    assert (end.limit.name, end.value, end.ratio) == ("the disk", 2000, 0.15)


def test_a_read_copies_each_byte_twice() -> None:
    end = the_end(results((TUNED, LACUNA, THROUGHPUT, 800.0), speeds={machine.COPY: 8.0}))
    assert (end.limit.name, end.value, end.ratio) == ("copying memory", 4000, 0.2)


def test_one_producer_waits_for_the_client_and_four_syncs() -> None:
    """1 ms on `bare`, and four times 0.25 ms."""
    end = the_end(
        results(
            (ONE, LACUNA, TRANSACTIONS, 400.0),
            (ONE, BARE, TRANSACTIONS, 1000.0),
            speeds={machine.SYNC: 0.25},
        )
    )
    assert (end.value, end.ratio) == (500, 0.8)


def test_a_record_is_read_after_the_clients_and_two_syncs() -> None:
    end = the_end(
        results(
            (END_TO_END, LACUNA, P50, 1.0),
            (END_TO_END, BARE, P50, 0.25),
            speeds={machine.SYNC: 0.125},
        )
    )
    assert (end.value, end.ratio) == (0.5, 2)


@pytest.mark.parametrize(("work", "figure"), [(EIGHT, TRANSACTIONS), (PRODUCE, REQUESTS)])
def test_what_is_bound_by_the_clients_ends_where_bare_does(work: str, figure: Figure) -> None:
    end = the_end(results((work, LACUNA, figure, 900.0), (work, BARE, figure, 3600.0)))
    assert (end.value, end.ratio) == (3600, 0.25)


def test_aborted_records_end_at_lacunas_own_rate_without_any() -> None:
    half = aborted(50, "none")
    end = the_end(
        results(
            (half, LACUNA, KILO_RECORDS, 540.0),
            (half, LACUNA, BUSIEST, 60.0),  # 900
            (aborted(0, "none"), LACUNA, KILO_RECORDS, 720.0),
        )
    )
    assert (end.limit.how, end.value, end.ratio) == ("0 % aborted, none, on lacuna", 720, 0.75)


def test_what_was_not_measured_has_no_end() -> None:
    """Only Lacuna's runs count, and a missing speed gives no limit."""
    assert ends(results((EIGHT, LACUNA, TRANSACTIONS, 900.0))) == []
    assert ends(results((EIGHT, BARE, TRANSACTIONS, 900.0))) == []
    alone = ((ONE, LACUNA, TRANSACTIONS, 400.0), (ONE, BARE, TRANSACTIONS, 1000.0))
    assert ends(results(*alone)) == []


def test_older_results_load_and_say_less() -> None:
    """They have no speeds, and neither `bare` nor the client's threads."""
    kept = Results.load(ROOT / "docs" / "performance.json")
    assert kept is not None
    for end in ends(kept):
        assert end.value > 0


def test_the_table_says_what_bounds_and_how_that_was_measured() -> None:
    found = results((EIGHT, LACUNA, TRANSACTIONS, 900.0), (EIGHT, BARE, TRANSACTIONS, 3600.0))
    heading, line = ends_table(ends(found))
    assert heading[2:] == [
        "bounded by",
        "how that was measured",
        "lacuna",
        "limit",
        "lacuna / limit",
    ]
    assert line == [
        "transactions of 10, 8 producers",
        "transactions/s",
        "the clients, the sockets, and Python",
        "the same on `bare`, which only answers",
        *("900", "3,600", "0.25"),
    ]
    found.facts |= {"machine": {}, "targets": {}, "measured": {"section": "today"}}
    part = page_part(found, [])
    assert "### Where it ends" in part
    assert "| --- | --- | --- | --- | ---: | ---: | ---: |" in part
    assert f"| {' | '.join(line)} |" in part


def test_a_figure_that_is_bounded_can_be_near_or_far() -> None:
    """The nearest limit of a figure without a better direction could not be determined."""
    assert all(limit.figure.better.value != "neither" for limit in LIMITS)
