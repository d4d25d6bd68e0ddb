"""Handles pauses of the control plane, and corrects its time after a wrong clock has moved it (docs/adr/0053)."""

from typing import Final

from lacuna.controlplane.decision import Decision
from lacuna.controlplane.state import times
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.times import hold_back
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, TimeSet
from lacuna.controlplane.verbs.housekeeping import prolong_pins
from lacuna.controlplane.verbs.turn import Turn


def set_time(now_ms: int) -> Decision:
    """Set the time, even to an earlier one. Use this only on a state that serves no clients yet."""
    return Decision(records=[JournalRecord(time_set=TimeSet(), now_ms=now_ms)])


def pause(turn: Turn, by_ms: int) -> None:
    """Extend leases, sessions, transactions and pins by a period in which nothing could be received."""
    times.pause(turn.state, by_ms)
    prolong_pins(turn, by_ms)


def replay_time_set(state: State, _record: TimeSet, now_ms: int) -> None:
    """Set the time. Events recorded at later times are treated as if they happened now."""
    if now_ms < state.clock_ms:
        hold_back(state, now_ms)
    state.clock_ms = now_ms


REPLAYS: Final = (replay_time_set,)
