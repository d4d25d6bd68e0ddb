"""Tests the simulation itself: it is repeatable, it detects missing safeguards, and its failures can be minimized."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

import pytest

from tests.simulation import hot
from tests.simulation.__main__ import prepare
from tests.simulation.faults import Fault, shrink
from tests.simulation.safeguards import seeds_until_found
from tests.simulation.traced import traced
from tests.simulation.world import (
    FORMS,
    IMPORTING,
    ROAMING,
    SHARING,
    STREAMING,
    TWO_LEADERS,
    WHOLE,
    Result,
    World,
)

#: Seeds of small clusters with 20 faults, their journals on a disk and in PostgreSQL. `traced` has one in the bucket.
SOME_SEEDS = (52, 40)
SHORT_SEEDS = range(1, 9)
#: In the last one a member was put out in less than its rebalance timeout, as the control plane's time caught up.
ROAMING_SEEDS = (*range(1, 7), 197)


@pytest.fixture(autouse=True, scope="module")
def _prepared() -> Iterator[None]:
    logger = logging.getLogger("lacuna")
    level = logger.level
    prepare()
    yield
    logger.setLevel(level)


@cache
def history(seed: int, form: str = WHOLE.name) -> Result:
    """Return one history for all tests of a process, since each takes a second."""
    return World(seed, form=FORMS[form]).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SOME_SEEDS)
def test_a_history_has_no_violation(seed: int) -> None:
    assert history(seed).violations == []


@pytest.mark.slow
def test_an_agent_that_waits_for_its_lease_reads() -> None:
    """It takes the cluster's id from the lease. Of this history's faults, a kill and a hanging database matter."""
    assert World(483594916023, without=range(3, 13)).run().violations == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SHORT_SEEDS)
def test_two_leaders_contradict_each_other_in_nothing(seed: int) -> None:
    assert history(seed, TWO_LEADERS.name).violations == []


@pytest.mark.slow
def test_a_member_that_asks_in_time_stays_and_knows_its_partitions() -> None:
    results = [World(seed, form=ROAMING).run() for seed in ROAMING_SEEDS]
    assert [each.violations for each in results if each.violations] == []
    counts = sum((each.counts for each in results), Counter())
    assert counts["fault: session resets"] > 4
    assert counts["members that left"] > 50


@pytest.mark.slow
def test_a_task_is_given_once_its_owner_has_given_it_up() -> None:
    results = [World(seed, form=STREAMING).run() for seed in (1, 2)]
    assert [each.violations for each in results] == [[], []]
    counts = sum((each.counts for each in results), Counter())
    assert counts["members that left"] > 10


@pytest.mark.slow
def test_what_a_share_group_accepted_is_never_delivered_again() -> None:
    result = World(1, form=SHARING).run()
    assert result.violations == []
    assert result.counts["shared records finished"] > 100


@pytest.mark.slow
def test_a_mirror_is_the_source_whatever_happens_to_its_importers() -> None:
    result = World(1, form=IMPORTING).run()
    assert result.violations == []
    assert result.counts["fault: kill importer at PUT"]
    assert result.counts["imports: NONE"] > 20


@pytest.mark.slow
def test_two_lead_in_short_histories() -> None:
    counts = sum((history(seed, TWO_LEADERS.name).counts for seed in SHORT_SEEDS), Counter())
    assert counts["takeovers that were forced"] > 8
    assert counts["answers while two led"] > 8


@pytest.mark.slow
def test_hot_segments_meet_what_can_happen_to_them() -> None:
    counts = sum((history(seed, TWO_LEADERS.name).counts for seed in SHORT_SEEDS), Counter())
    outcomes = ("committed", "refused", "read", "extents moved", "dropped")
    assert [each for each in outcomes if not counts[f"{hot.PREFIX}{each}"]] == []


@pytest.mark.slow
def test_a_seed_gives_the_same_bytes_in_every_process() -> None:
    """This holds for any string hashes, and for any earlier or concurrent work in the process."""
    history(52)
    with _others_log():
        here = traced()
    assert [each.violations for each, _ in here] == [[], []]
    lines = [line for _, lines in here for line in lines]
    assert min(len(lines) for _, lines in here) > 300
    printed = _traced_elsewhere()
    differ = [at for at, line in enumerate(lines) if printed[at : at + 1] != [line]]
    assert not differ, (printed[differ[0] : differ[0] + 1], lines[differ[0]])


@contextmanager
def _others_log() -> Iterator[None]:
    """Log from another thread meanwhile, as the clusters of other tests do."""
    is_over = threading.Event()

    def log() -> None:
        while not is_over.wait(0.001):
            logging.getLogger("lacuna.housekeeping").info("deleted")

    thread = threading.Thread(target=log)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _traced_elsewhere() -> list[str]:
    """Return the lines from another process, in which strings have different hashes."""
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    command = [sys.executable, "-m", "tests.simulation.traced"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_another_seed_is_another_history() -> None:
    assert history(52).steps != history(40).steps


def test_faults_can_be_left_out() -> None:
    everything = World(9).faults
    assert len(everything) > 2
    assert World(9, [each.number for each in everything[1:]]).faults == everything[:1]


@pytest.mark.parametrize("needed", [{1}, {5}, {2, 7}, {1, 4, 8}, set()])
def test_shrinking_leaves_only_what_is_needed(needed: set[int]) -> None:
    faults = [Fault(number, float(number), "kill", "control", 1.0, 0.5) for number in range(1, 9)]
    left = shrink(faults, lambda without: not needed & without)
    assert {each.number for each in left} == needed


#: Some of the store, of producers, of compaction, of transactions, of groups, of leaders and of hot segments, each
#: found by the first seeds. The others are for `python -m tests.simulation --safeguards`, which takes all away.
SOON_FOUND: Final = (
    "last stable offset",
    "commit after the PUT",
    "epoch check",
    "dead ranges in compaction plans",
    "transaction timeouts",
    "dropping offsets of aborted transactions",
    "fence of an append",
    "openings of the bucket's journal",
    "state read anew",
    "hot bytes in the append",
    "keeping hot bytes until they are moved",
    "moving hot extents only once",
    "skipping aborted records",
    "tasks of other members",
    "end of a mirror",
    "outcomes of a mirror",
    "aborted records of a mirror",
    "hot bytes read from the journal",
)


@pytest.mark.slow
@pytest.mark.timeout(600)  # so that this file, which takes two minutes, begins early
@pytest.mark.parametrize(
    "safeguard",
    [
        "assignments told again",
        "tenure of a leader",
        *SOON_FOUND,
    ],
)
def test_a_missing_safeguard_is_found(safeguard: str) -> None:
    assert seeds_until_found(safeguard, most=40) is not None
