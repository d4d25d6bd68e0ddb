"""The tables of a connection: every pair of a state and an event is listed or illegal, and all paths lead to
the end.
"""

import itertools
from enum import StrEnum
from typing import Any

import pytest

from lacuna.agent.connection_states import (
    LIFE,
    READING,
    SERVING,
    Action,
    Event,
    Flow,
    IllegalEvent,
    Reading,
    Room,
    State,
    step,
)

TABLES: list[tuple[Any, type[StrEnum], type[StrEnum]]] = [
    (LIFE, State, Event),
    (READING, Reading, Room),
]
REFUSED = {
    *itertools.product([State.NEW], set(Event) - {Event.ADMIT, Event.REFUSE}),
    *itertools.product(set(State) - {State.NEW}, [Event.ADMIT, Event.REFUSE]),
    (State.OPEN, Event.ALL_ANSWERED),  # not told while there may be more
    *itertools.product([State.CLOSING, State.CLOSED], [Event.SHUT_DOWN]),
    *itertools.product([State.ABANDONED, State.CLOSED], [Event.LOSE]),  # a transport is lost once
    *itertools.product(set(Reading) - {Reading.QUEUED}, [Room.CALLED]),
}


@pytest.mark.parametrize(("table", "states", "events"), TABLES)
def test_every_pair_is_listed_or_refused(table: Any, states: Any, events: Any) -> None:
    for state, event in itertools.product(states, events):
        if (state, event) in REFUSED:
            with pytest.raises(IllegalEvent, match="cannot happen"):
                step(table, state, event)
        else:
            after, _ = step(table, state, event)
            assert after in states


def test_every_state_and_action_is_used() -> None:
    for table, states, _ in TABLES:
        targets = {target for events in table.values() for target, _ in events.values()}
        assert targets | {next(iter(states))} == set(states)
    for table, actions in ((LIFE, Action), (READING, Flow)):
        done = [each for events in table.values() for _, acts in events.values() for each in acts]
        assert set(done) == set(actions)


@pytest.mark.parametrize("state", list(State)[1:])
def test_nothing_is_served_again_after_it_was_not(state: State) -> None:
    for target, _ in LIFE[state].values():
        assert state in SERVING or target not in SERVING


def test_reading_is_paused_and_resumed_in_turns_and_queues_in_turns() -> None:
    """Reading is never paused twice, and the connection is in the queue exactly while Queued (except during
    the call).
    """
    for state, events in READING.items():
        for event, (target, actions) in events.items():
            assert (Flow.RESUME in actions) == (state is not Reading.ON and target is Reading.ON)
            paused = state is Reading.ON and target is not Reading.ON and event is not Room.END
            assert (Flow.PAUSE in actions) == paused
            assert (Flow.QUEUE in actions) == (Reading.QUEUED is target and target is not state)
            left = state is Reading.QUEUED and target is not state and event is not Room.CALLED
            assert (Flow.LEAVE_QUEUE in actions) == left
