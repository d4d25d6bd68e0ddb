"""Histories that must run identically in every process. `python -m tests.simulation.traced` prints their traces."""

from __future__ import annotations

from typing import Final

import click

from tests.simulation.__main__ import prepare
from tests.simulation.world import TWO_LEADERS, WHOLE, Result, World

#: One with jobs and groups on a journal in the bucket, and one in PostgreSQL, in which two lead.
TRACED: Final = ((7, WHOLE), (3, TWO_LEADERS))


def traced() -> list[tuple[Result, list[str]]]:
    """Return each history's result and trace lines."""
    return [World(seed, form=form).traced() for seed, form in TRACED]


if __name__ == "__main__":
    prepare()
    for _, lines in traced():
        click.echo("\n".join(lines))
