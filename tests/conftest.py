"""For all tests."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, however slow the machine: what a random search finds is not found in a run that
# asks for something else. `pytest --hypothesis-profile=default` searches.
settings.register_profile(
    "repeated", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeated")

# In the background of a shell Ctrl-C is ignored, and what a test starts and ends by it would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests that may take long come first: whoever works at the last one works alone."""
    longest: dict[Path, float] = {}
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = float(marker.args[0]) if marker is not None else 0.0
        longest[item.path] = max(seconds, longest.get(item.path, 0.0))
    items.sort(key=lambda item: -longest[item.path])
