"""Tests how long a control plane tolerates errors from its journal."""

import pytest

from lacuna.controlplane.journal.journal import JournalError, JournalForeign, JournalRefused
from lacuna.controlplane.node import Node
from tests.controlplane.runtime.rig import no_runtime, nobody
from tests.doubles.clock import ManualClock


class Asked:
    """A node whose turn is ended by a journal error."""

    def __init__(self, *, is_checked: bool = True) -> None:
        self.clock = ManualClock()
        self.node = Node(no_runtime, self.clock, nobody)
        self.node._is_checked = is_checked

    async def meets(self, error: JournalError) -> None:
        async with self.node._outliving_errors():
            raise error


async def test_a_refusal_is_lasting_after_minutes() -> None:
    """Credential rotations and outages of credential services cause short rejections."""
    asked = Asked()
    for _ in range(5):
        await asked.meets(JournalRefused("403"))
        asked.clock.advance(59_000)
    asked.clock.advance(6_000)
    with pytest.raises(JournalRefused):
        await asked.meets(JournalRefused("403"))


async def test_a_refusal_at_the_start_is_lasting() -> None:
    """During a start, an operator is there to correct a typo."""
    with pytest.raises(JournalRefused):
        await Asked(is_checked=False).meets(JournalRefused("403"))


async def test_another_journal_is_refused_at_once() -> None:
    with pytest.raises(JournalForeign):
        await Asked().meets(JournalForeign("of another cluster"))
