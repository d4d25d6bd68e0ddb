"""Chooses positions and ids after a loss of the journal, so that none repeats a lost one.

The number of ids assigned in the lost part is unknown. An era, the time between two losses, therefore has room for more
numbers than a cluster ever uses, so the first number of the next era exceeds every lost one.
"""

from typing import Final

_ERA: Final = 1 << 40


def first_of_next_era(number: int) -> int:
    """Return the first number of the era after the one that contains `number`."""
    return (number // _ERA + 1) * _ERA
