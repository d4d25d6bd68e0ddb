"""Settings for all tests: hypothesis, Ctrl-C, stalls, the order of the files, and garbage collection."""

import gc
import itertools
import os
import signal
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.shared_moto import Landlord
from tests.stalled import Watch

# The same examples in every run, however slow the machine, so that a run never fails because of a new random example.
# `pytest --hypothesis-profile=default` searches.
settings.register_profile(
    "repeated", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeated")

# A shell's background jobs ignore Ctrl-C, and the processes that tests start and end by it would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: What the client matrix builds and downloads.
collect_ignore = ["compat/out"]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watch(config))


#: Made by the process that starts the workers, where there are any.
_landlord = cache(Landlord)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Sends the address of the shared server to pytest-xdist's workers."""
    node.workerinput["moto"] = _landlord().address


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cap the examples of property tests if MOST_EXAMPLES is set, and set the order of the files."""
    if most := os.environ.get("MOST_EXAMPLES"):
        _cap_examples(items, int(most))
    _put_long_files_first(items)
    # Of pytest-xdist only the main process knows its options.
    worker = getattr(config, "workerinput", {})
    if "worksteal" in worker.get("mainargv", ()):
        _spread_long_files(items, worker["workercount"])


def _cap_examples(items: list[pytest.Item], most: int) -> None:
    """Cap the examples: tests on other Python versions only need to show that the code runs."""
    for item in items:
        test: Any = getattr(item, "obj", None)
        if not is_hypothesis_test(test):
            continue
        # A state machine keeps its settings with its class.
        owner, name = test, "_hypothesis_internal_use_settings"
        if not hasattr(test, name):
            owner, name = test.__self__.__class__, "settings"
        current = getattr(owner, name)
        setattr(owner, name, settings(current, max_examples=min(current.max_examples, most)))


def _put_long_files_first(items: list[pytest.Item]) -> None:
    """Put files with long time limits first, since a long file that starts last would keep a single worker busy."""
    longest: dict[Path, float] = {}
    for item in items:
        longest[item.path] = max(_seconds(item), longest.get(item.path, 0.0))
    items.sort(key=lambda item: -longest[item.path])


def _seconds(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return 0.0 if marker is None else float(marker.args[0])


def _spread_long_files(items: list[pytest.Item], workers: int) -> None:
    """Distribute the long files over the starts of the workers' queues.

    Each worker starts with an equal share, then takes tests from the ends of the others' queues, so no long file starts
    last.
    """
    lanes: list[list[pytest.Item]] = [[] for _ in range(workers)]
    long: dict[Path, list[pytest.Item]] = {}
    short: list[pytest.Item] = []
    for item in items:
        (long.setdefault(item.path, []) if _seconds(item) else short).append(item)
    for file in long.values():
        min(lanes, key=len).extend(file)
    share = len(items) // workers
    for lane in lanes:
        room = max(0, share - len(lane))
        lane += short[:room]
        del short[:room]
    items[:] = [*itertools.chain(*lanes), *short]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude modules and tests, which are never freed, from garbage collection. Each full collection took 0.5 s."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # At its default threshold, 700 objects, the collector took a twentieth of the tests' time.
        gc.set_threshold(50_000)
