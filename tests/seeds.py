"""Seeds of random histories: some in every run, the rest with the slow tests."""

from __future__ import annotations

import pytest


def seeds(quick: int, count: int) -> list[object]:
    """The parameters 0 to `count` - 1, of which those from `quick` on are slow."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, count)]
    return [*range(quick), *slow]
