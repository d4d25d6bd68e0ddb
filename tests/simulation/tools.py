"""Tools of the simulation that tail the internal topics (ADR 43).

A consumer's checks of a log also apply to these: no offset is out of range, since their logs never lose their
beginning, offsets grow, and ends never go back under any leader. In addition, an offset always has the same record.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from lacuna.controlplane.shared.internal_topics import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    partition_of,
)
from lacuna.logstore.records.batch import Record
from tests.simulation.consumers import Consumer
from tests.simulation.history import History, Place, Read
from tests.simulation.kafka import Client

_GROUPS: Final = ("loop", "committing")
_TRANSACTIONAL_IDS: Final = ("id-0", "verified")


def internal_places() -> list[Place]:
    """Return partitions that contain records about groups and transactional ids in most histories."""
    groups: list[Place] = [(CONSUMER_OFFSETS, partition_of(name)) for name in _GROUPS]
    return [*groups, *((TRANSACTION_STATE, partition_of(name)) for name in _TRANSACTIONAL_IDS)]


class Tool(Consumer):
    """Tails internal partitions."""

    def __init__(
        self, name: str, client: Client, history: History, randomness: random.Random
    ) -> None:
        super().__init__(name, client, history, randomness, isolation=1)
        self._keys: dict[tuple[Place, int], bytes | None] = {}

    async def run(self, places: Sequence[Place]) -> None:
        self.client.request_timeout = self.random.choice((5.0, 20.0))
        await super().run(places)

    def saw(self, place: Place, read: Read, record: Record) -> None:
        """Add one record. Its content may be newer than in an earlier read, but its key is the same."""
        self.history.counts["internal records"] += 1
        before = self._keys.setdefault((place, record.offset), record.key)
        if before != record.key:
            self.history.wrong(
                f"{self.name} read {record.key!r} at {record.offset} of {place}, where {before!r} was before"
            )
