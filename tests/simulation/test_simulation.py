"""The simulation itself: it is repeatable, it finds what is missing, and its failures can be made small."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

import pytest

from tests.simulation.__main__ import prepare
from tests.simulation.faults import Fault
from tests.simulation.safeguards import seeds_until_found
from tests.simulation.shrink import shrink
from tests.simulation.world import Result, World

#: Seeds of small clusters, some with an admin, a compactor or groups, with 8 to 20 faults; the slow one has all three.
SOME_SEEDS = (pytest.param(2, marks=pytest.mark.slow), 7, 14, 17, 18)
#: One of few clients and many faults, with a compactor and groups.
QUICK_SEED = 7


@pytest.fixture(autouse=True, scope="module")
def _prepared() -> Iterator[None]:
    logger = logging.getLogger("lacuna")
    level = logger.level
    prepare()
    yield
    logger.setLevel(level)


@cache
def history(seed: int) -> Result:
    """The same one for all tests of a process: each takes seconds."""
    return World(seed).run()


@pytest.mark.parametrize("seed", SOME_SEEDS)
def test_a_history_has_no_violation(seed: int) -> None:
    assert history(seed).violations == []


def test_a_seed_gives_the_same_bytes_in_every_process() -> None:
    """Whatever the hashes of strings are, and whatever ran in the process before or runs beside."""
    history(17)
    with _others_log():
        _, lines = World(QUICK_SEED).traced()
    assert len(lines) > 1_000
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    printed = _traced(QUICK_SEED, other)
    differ = [at for at, line in enumerate(lines) if printed[at : at + 1] != [line]]
    assert not differ, (printed[differ[0] : differ[0] + 1], lines[differ[0]])


@contextmanager
def _others_log() -> Iterator[None]:
    """Meanwhile another thread logs, as the clusters of other tests do."""
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


def _traced(seed: int, hash_seed: str) -> list[str]:
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--trace"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def test_another_seed_is_another_history() -> None:
    assert history(17).steps != history(18).steps


def test_faults_can_be_left_out() -> None:
    everything = World(9).faults
    assert len(everything) > 2
    assert World(9, [each.number for each in everything[1:]]).faults == everything[:1]


@pytest.mark.parametrize("needed", [{1}, {5}, {2, 7}, {1, 4, 8}, set()])
def test_shrinking_leaves_only_what_is_needed(needed: set[int]) -> None:
    faults = [Fault(number, float(number), "kill", "control", 1.0, 0.5) for number in range(1, 9)]
    left = shrink(faults, lambda without: not needed & without)
    assert {each.number for each in left} == needed


#: One of the store, of producers, of compaction, of transactions and of groups, each found by the first seeds. The
#: others are for `python -m tests.simulation --safeguards`, which takes all away.
SOON_FOUND: Final = (
    "last stable offset",
    "commit after the PUT",
    "epoch check",
    "dead ranges of plans",
    "transaction timeouts",
    "offsets of aborted",
)


@pytest.mark.parametrize(
    "safeguard",
    [
        "skipping of aborted records",
        *(pytest.param(name, marks=pytest.mark.slow) for name in SOON_FOUND),
    ],
)
def test_a_missing_safeguard_is_found(safeguard: str) -> None:
    assert seeds_until_found(safeguard, most=40) is not None
