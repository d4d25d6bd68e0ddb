"""Drops idempotence windows that have long been unused or exceed the bounds (S8, S10)."""

from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey, key_of, named
from lacuna.controlplane.state.partition import Partition, ProducerWindow
from lacuna.controlplane.state.settings import HOUR_MS, MAX_PER_TICK, PRODUCER_ID_EXPIRATION_MS
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.journal_pb2 import (
    JournalRecord,
    PartitionProducersExpired,
    ProducersExpired,
)
from lacuna.controlplane.verbs.turn import Turn

#: One in this many of a full partition's windows, or of all windows, is dropped in one step, so that finding the oldest
#: windows costs little per new window.
_SHARE_OF_PARTITION: Final = 16
_SHARE_OF_ALL: Final = 256

#: The number of windows examined for each window to drop. Windows of open transactions are kept.
_LOOKS: Final = 4


def tick_producers(turn: Turn) -> None:
    """Drop windows beyond the bounds, and expire those unused for producer.id.expiration.ms.

    Ages are known to the hour, so windows may expire up to an hour late.
    """
    turn.state.windows.release(MAX_PER_TICK)
    dropped = _surplus(turn.state)
    if not turn.context.is_time_doubtful:
        dropped.update(dict.fromkeys(_expired(turn)))
    _drop(turn, dropped)


def make_room(turn: Turn) -> None:
    """Drop surplus windows before each commit, so that at most one commit's windows are ever over the bounds."""
    windows = turn.state.windows
    if windows.grown:
        _drop(turn, _surplus(turn.state))


def _surplus(state: State) -> dict[ProducerWindow, None]:
    """Return the windows to drop because a partition, or the whole cluster, has too many."""
    windows, settings = state.windows, state.windows.settings
    found: dict[ProducerWindow, None] = {}
    for key in windows.take_grown():
        partition = state.partitions.get(key)
        if partition is not None:
            found.update(
                dict.fromkeys(_surplus_of(partition, settings.partition_producer_windows_max))
            )
    over = windows.count - len(found) - settings.producer_windows_max
    if over > 0:
        wanted = over + settings.producer_windows_max // _SHARE_OF_ALL
        looked_at = islice(windows.oldest(), len(found) + _LOOKS * wanted)
        others = (each for each in looked_at if each not in found and _is_idle(state, each))
        found.update(dict.fromkeys(islice(others, wanted)))
    return found


def _surplus_of(partition: Partition, most: int) -> list[ProducerWindow]:
    over = len(partition.producers) - most
    if over <= 0:
        return []
    idle = (
        each for each in partition.producers.values() if each.producer_id not in partition.ongoing
    )
    return nsmallest(over + most // _SHARE_OF_PARTITION, idle, key=_last_used)


def _last_used(window: ProducerWindow) -> tuple[int, int]:
    return window.last_used_ms, window.producer_id


def _is_idle(state: State, window: ProducerWindow) -> bool:
    """Whether a window can be dropped: its partition exists, and its producer has no transaction open there."""
    partition = state.partitions.get(window.key)
    return partition is not None and window.producer_id not in partition.ongoing


def _expired(turn: Turn) -> Iterable[ProducerWindow]:
    for window in islice(turn.state.windows.oldest(), MAX_PER_TICK):
        hour = window.last_used_ms // HOUR_MS
        if (hour + 1) * HOUR_MS + PRODUCER_ID_EXPIRATION_MS > turn.now_ms:
            break
        if _is_idle(turn.state, window):
            yield window


def _drop(turn: Turn, dropped: Iterable[ProducerWindow]) -> None:
    by_partition: dict[PartitionKey, list[int]] = {}
    for window in dropped:
        by_partition.setdefault(window.key, []).append(window.producer_id)
    if not by_partition:
        return
    record = ProducersExpired(
        partitions=[
            PartitionProducersExpired(partition=named(key), producer_ids=sorted(producer_ids))
            for key, producer_ids in sorted(by_partition.items())
        ]
    )
    turn.journal(JournalRecord(producers_expired=record))


def replay_producers_expired(state: State, record: ProducersExpired, _now_ms: int) -> None:
    for each in record.partitions:
        partition = state.partitions[key_of(each.partition)]
        for producer_id in each.producer_ids:
            state.windows.drop(partition, producer_id)


REPLAYS: Final = (replay_producers_expired,)
