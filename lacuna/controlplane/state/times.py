"""Adjusts the times in the state after the control plane was paused, or its clock jumped or was set back."""

from lacuna.controlplane.state.deadlines import Deadlines
from lacuna.controlplane.state.merging import Horizons
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.segments import Pin
from lacuna.controlplane.state.settings import TRANSACTIONAL_ID_EXPIRATION_MS
from lacuna.controlplane.state.state import State


def leap(state: State, by_ms: int) -> None:
    """Preserve the remaining time of all sessions and leases when the clock jumps forward. Nothing durable changes."""
    state.lease_deadlines = Deadlines()  # the next tick gives each lease its full duration
    state.absences = Deadlines()
    state.merge_horizons, state.compaction_horizons = Horizons(), Horizons()
    state.groups.live.moved_ms += by_ms
    state.groups.locks.shift(by_ms)


def pause(state: State, by_ms: int) -> None:
    """Extend all timeouts by a period in which nothing could be received. Nothing durable changes."""
    for deadlines in (state.lease_deadlines, state.absences, state.transaction_deadlines):
        deadlines.shift(by_ms)
    state.groups.live.moved_ms += by_ms
    state.groups.locks.shift(by_ms)


def hold_back(state: State, now_ms: int) -> None:
    """Set durable times later than `now_ms` to `now_ms`, because the clock was set back."""
    for lease_id, ended_ms in state.ended_leases.items():
        state.ended_leases[lease_id] = min(ended_ms, now_ms)
    state.segments.hold_back(now_ms)
    for pin_id, pin in state.segments.pins.items():
        if pin.starts_ms > now_ms:
            state.segments.pins[pin_id] = Pin(now_ms, now_ms + pin.ends_ms - pin.starts_ms)
    state.windows.clear()
    state.past_cuts.hold_back(now_ms)
    for partition in state.partitions.values():
        _hold_back_partition(state, partition, now_ms)
    _hold_back_transactions(state, now_ms)
    state.groups.hold_back(now_ms)


def _hold_back_partition(state: State, partition: Partition, now_ms: int) -> None:
    partition.history.hold_back(now_ms)
    partition.settled_ms = partition.history.settled_ms
    partition.compact_again_ms = min(partition.compact_again_ms, now_ms)
    for window in partition.producers.values():
        window.last_used_ms = min(window.last_used_ms, now_ms)
        state.windows.add(window)


def _hold_back_transactions(state: State, now_ms: int) -> None:
    state.transaction_deadlines, state.expirations = Deadlines(), Deadlines()
    for found in state.transactional_ids.values():
        found.start_time_ms = min(found.start_time_ms, now_ms)
        found.last_update_ms = min(found.last_update_ms, now_ms)
        if found.is_ongoing:
            deadline_ms = found.start_time_ms + found.transaction_timeout_ms
            state.transaction_deadlines.set(found.producer_id, deadline_ms)
        else:
            expires_ms = found.last_update_ms + TRANSACTIONAL_ID_EXPIRATION_MS
            state.expirations.set(found.transactional_id, expires_ms)
