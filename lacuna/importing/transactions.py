"""Lists a source's transactional ids and hanging transactions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lacuna.importing.cluster import NO_LEADER, Kafka, Place, failure_of, in_parts, show
from lacuna.wire.messages import transactions as wire

_AT_ONCE: Final = 100
#: The default of Kafka's transaction.max.timeout.ms, after which a coordinator ends a transaction.
_LONGEST_MS: Final = 15 * 60 * 1000


@dataclass(frozen=True, slots=True)
class SourceTransaction:
    """A transactional id at the source. Without an open transaction, `started_ms` is -1 and `partitions` is empty."""

    transactional_id: str
    state: str
    producer_id: int
    started_ms: int = -1
    partitions: Sequence[Place] = ()


async def source_transactions(source: Kafka) -> list[SourceTransaction]:
    """Return the source's transactional ids, sorted by name. Kafka before 3.0 lists none."""
    found: list[SourceTransaction] = []
    if not source.knows(wire.LIST_TRANSACTIONS_REQUEST):
        return found
    await source.topics()  # fetches the list of brokers
    for node in source.nodes:
        broker = await source.broker(node)
        listed = await broker.ask(
            wire.LIST_TRANSACTIONS_REQUEST,
            wire.LIST_TRANSACTIONS_RESPONSE,
            0,
            wire.ListTransactionsRequest(),
        )
        if listed.error_code:
            raise failure_of(f"{source.what} did not list its transactions", listed.error_code)
        names = [each.transactional_id for each in listed.transaction_states]
        for some in in_parts(names, _AT_ONCE):
            described = await broker.ask(
                wire.DESCRIBE_TRANSACTIONS_REQUEST,
                wire.DESCRIBE_TRANSACTIONS_RESPONSE,
                0,
                wire.DescribeTransactionsRequest(some),
            )
            found += [
                SourceTransaction(
                    each.transactional_id,
                    each.transaction_state,
                    each.producer_id,
                    each.transaction_start_time_ms,
                    [(of.topic, index) for of in each.topics for index in of.partitions],
                )
                for each in described.transaction_states
                if not each.error_code  # it has moved or ended since then
            ]
    return sorted(found, key=lambda each: each.transactional_id)


@dataclass(frozen=True, slots=True, order=True)
class HangingTransaction:
    """A transaction that is open in a partition although no coordinator lists it and its producer has stopped writing.

    `idle_seconds` is the time since its last record in the partition.
    """

    place: Place
    first_offset: int
    producer_id: int
    idle_seconds: int = field(compare=False)

    def __str__(self) -> str:
        name, index = self.place
        return (
            f"{show(self.place)}: a transaction of producer {self.producer_id} appears to hang at offset "
            f"{self.first_offset} in the source: its last record was written {self.idle_seconds} s ago, and no "
            "coordinator lists it, so nothing after it can be decided; if Kafka's `kafka-transactions.sh find-hanging` "
            f"also finds it, end it with `kafka-transactions.sh abort --topic {name} --partition {index} "
            f"--start-offset {self.first_offset}`"
        )


async def hanging_transactions(
    source: Kafka, places: Iterable[Place], now_ms: int, longest_ms: int = _LONGEST_MS
) -> list[HangingTransaction]:
    """Return the transactions that seem to hang, sorted by partition. Kafka before 3.0 reports none.

    Coordinators may also omit an ordinary transaction while they are moving, or if this user may not describe its
    transactional id. A transaction is therefore returned only if it has been idle for more than `longest_ms`, the
    longest that an ordinary transaction may last.
    """
    if not source.knows(wire.LIST_TRANSACTIONS_REQUEST):
        return []
    idle = [
        each
        for each in await _open_in(source, places, now_ms)
        if each.idle_seconds * 1000 > longest_ms
    ]
    if not idle:
        return []
    known = {
        (each.producer_id, place)
        for each in await source_transactions(source)
        for place in each.partitions
    }
    suspects = [each for each in idle if (each.producer_id, each.place) not in known]
    # Coordinators do not list transactions that have ended in the meantime either.
    still = await _open_in(source, {each.place for each in suspects}, now_ms)
    return sorted(set(suspects) & set(still))


async def _open_in(source: Kafka, places: Iterable[Place], now_ms: int) -> list[HangingTransaction]:
    by_leader = await source.by_leader(places)
    by_leader.pop(NO_LEADER, None)
    found: list[HangingTransaction] = []
    for leader, wanted in by_leader.items():
        broker = await source.broker(leader)
        answer = await broker.ask(
            wire.DESCRIBE_PRODUCERS_REQUEST,
            wire.DESCRIBE_PRODUCERS_RESPONSE,
            0,
            wire.DescribeProducersRequest(
                [wire.TopicRequest(name, indexes) for name, indexes in wanted.items()]
            ),
        )
        found += [
            HangingTransaction(
                (topic.name, each.partition_index),
                producer.current_txn_start_offset,
                producer.producer_id,
                max(0, now_ms - producer.last_timestamp) // 1000,
            )
            for topic in answer.topics
            for each in topic.partitions
            if not each.error_code  # the leader is moving, or the topic was deleted
            for producer in each.active_producers
            if producer.current_txn_start_offset >= 0
        ]
    return found
