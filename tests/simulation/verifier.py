"""Checks that any agent returns what has just been acknowledged, over any connection (S7)."""

from __future__ import annotations

import random

from lacuna.controlplane.shared.errors import ErrorCode
from tests.simulation.consumers import Consumer
from tests.simulation.history import LATEST, History, Place, Read, Transaction
from tests.simulation.kafka import Client, KafkaError, Unanswered
from tests.simulation.producers import TransactionalProducer


class Verifier(TransactionalProducer):
    """A transactional producer that is alone in its partition and reads its own records as an outside client."""

    def __init__(
        self,
        name: str,
        client: Client,
        history: History,
        randomness: random.Random,
        place: Place,
        *,
        is_second: bool,
    ) -> None:
        super().__init__(name, "verified", client, history, randomness, is_second=is_second)
        self._place = place
        self._readers = [
            Consumer(f"{name} as {level}", client, history, randomness, isolation)
            for isolation, level in enumerate(("read_uncommitted", "read_committed"))
        ]

    async def end(self, transaction: Transaction, *, commits: bool) -> None:
        """End the transaction, and check before and after."""
        values = transaction.values[self._place]
        end = self.ends[self._place]
        found = await self._look(0, end, values)
        # If it timed out meanwhile, it was right that its records are not shown. Only a commit is refused then.
        await super().end(transaction, commits=commits)
        found = (commits and found) or await self._look(1, end, values if commits else [])
        if found:
            self.history.wrong(found)

    async def _look(self, isolation: int, end: int, values: list[bytes]) -> str:
        """Query one agent, with a few retries. Return what is wrong with the answer."""
        for _ in range(3):
            address, asked = self.random.choice(self.client.agents), self.history.now()
            try:
                found = await self._look_at(address, isolation, end, values)
                return "" if found and self.history.may_be_stale(asked) else found
            except (Unanswered, KafkaError):
                await self.client.pause()
        return ""

    async def _look_at(
        self, address: tuple[str, int], isolation: int, end: int, values: list[bytes]
    ) -> str:
        reader, place = self._readers[isolation], self._place
        # One of the two, since the first question brings the agent up to date.
        if not values or self.random.random() < 0.3:
            seen = await reader.offset(place, LATEST, address)
            if seen >= end:
                return ""
            return f"{reader.name} was told by {address[0]} that the log ends at {seen}, after {end} was acknowledged"
        start = end - len(values)
        read = Read(start, start)
        while read.position < end:
            answer = await reader.fetch(place, read.position, max_wait_ms=0, address=address)
            code = ErrorCode(answer.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise KafkaError(code)
            if code != ErrorCode.NONE or not reader.take(place, read, answer):
                return f"{reader.name} got nothing from {address[0]} at {read.position}, after {end} was acknowledged"
        if [value for _, value in read.rows] != values:
            return f"{reader.name} got {read.rows} from {address[0]}, and not {values}"
        return ""
