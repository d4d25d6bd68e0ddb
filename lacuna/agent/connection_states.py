"""The states of a client's connection as two tables: one for its life cycle, and one for reading.

    state, actions = step(LIFE, state, event)

A combination of state and event that is not in the table raises IllegalEvent, which indicates a bug. docs/states.md is
generated from the tables.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar


class IllegalEvent(Exception):
    """The table has no entry for this event in this state."""


class State(StrEnum):
    """A stage in the life of a connection."""

    NEW = "New"
    OPEN = "Open"
    #: The agent is stopping. It reads no more requests, and answers those that it has read.
    DRAINING = "Draining"
    #: The agent is closing the connection. No further request is started, and no further answer is sent.
    CLOSING = "Closing"
    #: The client has disconnected. Its requests are still carried out, but not answered.
    ABANDONED = "Abandoned"
    CLOSED = "Closed"


class Event(StrEnum):
    """An event in the life of a connection."""

    ADMIT = "admit"
    REFUSE = "refuse"
    SHUT_DOWN = "shut down"
    #: All requests that were read have been answered. This event does not occur while the connection is open.
    ALL_ANSWERED = "all answered"
    CLOSE = "close"
    ABORT = "abort"
    LOSE = "lose"


class Action(StrEnum):
    """An action that a connection takes when its state changes."""

    STOP_READING = "stop reading"
    END_READING = "end reading"
    FLUSH = "flush"
    CLOSE_TRANSPORT = "close the transport"
    DISCARD_ANSWERS = "discard answers"
    ABORT_TRANSPORT = "abort the transport"
    RELEASE_UNREAD = "release incomplete requests"
    CANCEL_WAIT = "cancel the wait"
    SERVE = "serve"
    DROP_REQUESTS = "drop requests"
    FORGET = "forget"
    NOTIFY = "notify"


#: The states in which answers are sent.
ANSWERING: Final = frozenset((State.OPEN, State.DRAINING))
#: The states in which requests that were read are served.
SERVING: Final = ANSWERING | {State.ABANDONED}


class Reading(StrEnum):
    """Whether the agent reads from a connection and, if not, why."""

    ON = "On"
    #: The connection holds the maximum number of requests or bytes.
    FULL = "Full"
    #: The agent as a whole holds the maximum number of bytes, and the connection is queued until there is room.
    QUEUED = "Queued"
    OVER = "Over"


class Room(StrEnum):
    """An event that affects reading, such as a bound that has been reached."""

    FREE = "free"
    FULL = "own bound"
    CROWDED = "bound of the agent"
    #: The agent has room again, and this connection is first in the queue.
    CALLED = "called"
    #: The agent is stopping.
    STOP = "stop"
    #: The transport is closed or closing, so it has stopped reading by itself.
    END = "end"


class Flow(StrEnum):
    """An action that a connection takes to pause or resume reading."""

    PAUSE = "pause"
    RESUME = "resume"
    QUEUE = "queue"
    LEAVE_QUEUE = "leave the queue"


S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)
A = TypeVar("A", bound=StrEnum)

_ABORT: Final = (Action.END_READING, Action.DISCARD_ANSWERS, Action.ABORT_TRANSPORT)
_CLOSE: Final = (Action.END_READING, Action.FLUSH, Action.CLOSE_TRANSPORT)
_DROP: Final = (Action.DROP_REQUESTS, Action.FORGET)
_LEAVE: Final = (
    Action.END_READING,
    Action.DISCARD_ANSWERS,
    Action.RELEASE_UNREAD,
    Action.CANCEL_WAIT,
    Action.SERVE,
)

#: state -> event -> the next state, and the actions to take, in order
LIFE: Final[Mapping[State, Mapping[Event, tuple[State, tuple[Action, ...]]]]] = {
    State.NEW: {
        Event.ADMIT: (State.OPEN, ()),
        Event.REFUSE: (State.CLOSING, _ABORT),
    },
    State.OPEN: {
        Event.SHUT_DOWN: (State.DRAINING, (Action.STOP_READING,)),
        Event.CLOSE: (State.CLOSING, _CLOSE),
        Event.ABORT: (State.CLOSING, _ABORT),
        Event.LOSE: (State.ABANDONED, _LEAVE),
    },
    State.DRAINING: {
        Event.SHUT_DOWN: (State.DRAINING, ()),
        Event.ALL_ANSWERED: (State.CLOSING, _CLOSE),
        Event.CLOSE: (State.CLOSING, _CLOSE),
        Event.ABORT: (State.CLOSING, _ABORT),
        Event.LOSE: (State.ABANDONED, _LEAVE),
    },
    State.CLOSING: {
        Event.ALL_ANSWERED: (State.CLOSING, ()),
        Event.CLOSE: (State.CLOSING, ()),
        Event.ABORT: (State.CLOSING, _ABORT),
        Event.LOSE: (State.CLOSED, (Action.RELEASE_UNREAD, *_DROP)),
    },
    State.ABANDONED: {
        Event.SHUT_DOWN: (State.ABANDONED, ()),
        Event.ALL_ANSWERED: (State.CLOSED, (Action.FORGET, Action.NOTIFY)),
        Event.CLOSE: (State.CLOSED, _DROP),
        Event.ABORT: (State.CLOSED, _DROP),
    },
    State.CLOSED: {
        Event.ALL_ANSWERED: (State.CLOSED, (Action.NOTIFY,)),
        Event.CLOSE: (State.CLOSED, ()),
        Event.ABORT: (State.CLOSED, ()),
    },
}

#: reading state -> room -> the next reading state, and the actions to take, in order
READING: Final[Mapping[Reading, Mapping[Room, tuple[Reading, tuple[Flow, ...]]]]] = {
    Reading.ON: {
        Room.FREE: (Reading.ON, ()),
        Room.FULL: (Reading.FULL, (Flow.PAUSE,)),
        Room.CROWDED: (Reading.QUEUED, (Flow.PAUSE, Flow.QUEUE)),
        Room.STOP: (Reading.OVER, (Flow.PAUSE,)),
        Room.END: (Reading.OVER, ()),
    },
    Reading.FULL: {
        Room.FREE: (Reading.ON, (Flow.RESUME,)),
        Room.FULL: (Reading.FULL, ()),
        Room.CROWDED: (Reading.QUEUED, (Flow.QUEUE,)),
        Room.STOP: (Reading.OVER, ()),
        Room.END: (Reading.OVER, ()),
    },
    Reading.QUEUED: {
        Room.FREE: (Reading.ON, (Flow.LEAVE_QUEUE, Flow.RESUME)),
        Room.FULL: (Reading.FULL, (Flow.LEAVE_QUEUE,)),
        Room.CROWDED: (Reading.QUEUED, ()),
        Room.CALLED: (Reading.FULL, ()),
        Room.STOP: (Reading.OVER, (Flow.LEAVE_QUEUE,)),
        Room.END: (Reading.OVER, (Flow.LEAVE_QUEUE,)),
    },
    Reading.OVER: {room: (Reading.OVER, ()) for room in Room if room is not Room.CALLED},
}


def step(
    table: Mapping[S, Mapping[E, tuple[S, tuple[A, ...]]]], state: S, event: E
) -> tuple[S, tuple[A, ...]]:
    """Return the next state and the actions to take, in order. Raises IllegalEvent."""
    try:
        return table[state][event]
    except KeyError:
        raise IllegalEvent(f"{event!r} cannot happen in {state!r}") from None
