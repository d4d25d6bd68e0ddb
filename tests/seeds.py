"""Seeds for random histories: some for every run, the rest for the slow tests."""

from __future__ import annotations

import pytest


def seeds(quick: int, count: int) -> list[object]:
    """Return the parameters 0 to `count` - 1. Those from `quick` onwards are marked slow."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, count)]
    return [*range(quick), *slow]
