"""Tests the ages of producer ids."""

from lacuna.controlplane import machine
from lacuna.controlplane.state.id_ages import IdAges
from lacuna.controlplane.state.settings import HOUR_MS
from tests.controlplane.verbs.script import run

DAY = 24


def test_an_id_is_old_a_day_after_its_hour() -> None:
    ages = IdAges()
    ages.note(1, 5 * HOUR_MS)
    ages.note(2, 5 * HOUR_MS + 1)
    ages.note(3, 7 * HOUR_MS)
    for producer_id, hour in ((1, 5), (2, 5), (3, 7), (99, 7)):
        last_ms = (hour + 1 + DAY) * HOUR_MS
        assert not ages.is_old(producer_id, last_ms - 1)
        assert ages.is_old(producer_id, last_ms)
    assert ages.is_old(0, 5 * HOUR_MS), "from before anything was noted"


def test_no_more_hours_are_kept_than_matter() -> None:
    ages = IdAges()
    for hour in range(100):
        ages.note(hour + 1, hour * HOUR_MS)
    assert len(ages.hours) == DAY + 2
    assert ages.is_old(1, 99 * HOUR_MS)
    assert not ages.is_old(100, 99 * HOUR_MS)
    assert not ages.is_old(76, 99 * HOUR_MS)


def test_who_was_forgotten_is_told_apart_from_who_is_new() -> None:
    """S12: this holds after a restart too. The error is for the agent, which waits for the first batches of a new
    producer.
    """
    cluster = run("""
        topic a 2
        init -                                 -> 1/0
        put a-0 x1 1/0@0                       -> 0
        put a-1 x1 1/0@5 follows               -> OUT_OF_ORDER_SEQUENCE_NUMBER
        clock +93600000                        -> producers_expired
        init -                                 -> 2/0
    """)
    cluster.state = machine.restore([machine.snapshot(cluster.state)])
    run(
        """
        put a-0 x1 1/0@1 follows               -> UNKNOWN_PRODUCER_ID
        put a-0 x1 2/0@1 follows               -> OUT_OF_ORDER_SEQUENCE_NUMBER
        put a-0 x1 1/0@1                       -> 1
        put a-0 x1 1/0@3 follows               -> OUT_OF_ORDER_SEQUENCE_NUMBER
    """,
        cluster,
    )
