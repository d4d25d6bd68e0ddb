"""Which positions and ids to use after a loss of the journal, so that none repeats a lost one.

Nobody knows how many numbers the lost part of the journal gave out. An era, the time between two losses, has room for
more numbers than a cluster ever uses, so the first number of the next era is greater than every lost one.
"""

from typing import Final

_ERA: Final = 1 << 40


def first_of_next_era(number: int) -> int:
    """Return the first number of the era after the one that contains `number`."""
    return (number // _ERA + 1) * _ERA
