"""The pure state machine, which turns commands into journal records. Only records change durable state.

    handle(state, command, context) -> Decision    # decides a command; changes nothing durable
    needs_proof(command, decision) -> bool         # whether the reply waits for a proof of leadership
    replay(state, record)                          # applies one record completely
    tick(state, context) -> Decision               # ends what is overdue
    pause(state, context, by_ms) -> Decision       # extends leases after a pause of the process
    found(state, cluster_id, context) -> Decision  # the first record of a new journal
    set_time(now_ms) -> Decision                   # sets the time for an operator
    snapshot_parts(state) -> Iterator[bytes], restore(parts) -> State

The caller must replay a decision's records immediately, in order, before it requests the next decision. The machine
does no I/O, and takes time and randomness only from the Context.
"""

import pkgutil
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from lacuna.controlplane import verbs
from lacuna.controlplane.decision import Context, Decision
from lacuna.controlplane.state.snapshot import (
    RECORD_FORMAT,
    LaterFormatError,
    restore,
    restore_part,
    snapshot,
    snapshot_parts,
)
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.telling import describe
from lacuna.controlplane.v1.control_pb2 import Command, Failure, Reply
from lacuna.controlplane.v1.journal_pb2 import ClusterFounded, JournalRecord
from lacuna.controlplane.verbs import (
    agents,
    housekeeping,
    internal,
    outcomes,
    presence,
    producers,
    retention,
    securing,
    times,
    windows,
)
from lacuna.controlplane.verbs.groups import deadlines
from lacuna.controlplane.verbs.losses import accept_loss
from lacuna.controlplane.verbs.parts import check_length
from lacuna.controlplane.verbs.presence import end_session
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.times import set_time
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

__all__ = [
    "LaterFormatError",
    "State",
    "accept_loss",
    "describe",
    "end_session",
    "found",
    "handle",
    "needs_proof",
    "pause",
    "replay",
    "restore",
    "restore_part",
    "set_time",
    "snapshot",
    "snapshot_parts",
    "tick",
]


def replay_cluster_founded(state: State, record: ClusterFounded, _now_ms: int) -> None:
    if state.cluster_id:
        raise ValueError(f"the journal of cluster {state.cluster_id} has a second founding record")
    state.cluster_id = record.cluster_id


_MODULES: Final = [
    import_module(each.name) for each in pkgutil.walk_packages(verbs.__path__, f"{verbs.__name__}.")
]

#: verb -> its row, in the module that decides it.
VERBS: Final[Mapping[str, Verb]] = {
    row.decide.__name__: row for module in _MODULES for row in getattr(module, "VERBS", ())
}

#: kind of journal record (or of the GroupRecord in it) -> the function that replays it, in the module that writes it.
#: The kind names the field with the message, which mypy cannot follow, so the type is Any.
REPLAYS: Final[Mapping[str, Callable[[State, Any, int], None]]] = {
    replay.__name__.removeprefix("replay_"): replay
    for replay in (
        replay_cluster_founded,
        *(each for module in _MODULES for each in getattr(module, "REPLAYS", ())),
    )
}


def handle(state: State, command: Command, context: Context) -> Decision:
    """Decide one command. The reply to a malformed command is a Failure."""
    verb = command.WhichOneof("verb")
    row = VERBS.get(verb) if verb else None
    turn = Turn(state, context, command.principal)
    try:
        if row is None:
            raise MalformedCommand(
                f"this version does not know {verb or 'a command without a verb'}"
            )
        message = getattr(command, verb)
        check_length(verb, message)
        decision = turn.end(row.decide(turn, message))
    except MalformedCommand as malformed:
        failure = Failure(error_code=malformed.code, message=malformed.message)
        decision = Decision(reply=Reply(failure=failure))
    if decision.reply is not None:
        decision.reply.command_id = command.command_id
    return decision


def needs_proof(command: Command, decision: Decision) -> bool:
    """Return whether a reply must wait until the journal has shown that this control plane was still the leader.

    A reply with records waits for the journal anyway, and a command that only reads may return state that is up to one
    lease old. Other replies need proof: otherwise, an earlier leader, which knows only about the previous transaction,
    could confirm a commit as a retry.
    """
    row = VERBS.get(command.WhichOneof("verb") or "")
    looks = row is not None and row.looks
    return decision.reply is not None and not decision.records and not looks


def tick(state: State, context: Context) -> Decision:
    """Expire everything that is overdue. The runtime calls this every `tick_interval_ms` (250 ms)."""
    turn = Turn(state, context)
    state.rewriting.begin(turn.now_ms)
    agents.tick_leases(turn)
    outcomes.tick_transactions(turn)
    if not context.is_time_doubtful:
        producers.tick_transactional_ids(turn)
        housekeeping.tick_pins(turn)
        securing.tick_tokens(turn)
    windows.tick_producers(turn)
    retention.tick_retention(turn)
    housekeeping.tick_releases(turn)
    presence.tick_presence(turn)
    deadlines.tick_groups(turn)
    internal.tick_internal(turn)
    return turn.end(None)


def pause(state: State, context: Context, by_ms: int) -> Decision:
    """Extend all timeouts by `by_ms`, the time for which the process was suspended and received nothing.

    Nothing is extended by more than that, so the leases and sessions of dead owners still end.
    """
    turn = Turn(state, context)
    times.pause(turn, by_ms)
    return turn.end(None)


def replay(state: State, record: JournalRecord) -> None:
    """Apply one record to the state. Raises LaterFormatError, and KeyError or ValueError if the record does not fit the
    state.
    """
    event = record.WhichOneof("event")
    message: Any = record
    if event == "group":
        message = record.group
        event = message.WhichOneof("record")
        if message.principal:
            state.groups.owners.own(getattr(message, event).group_id, message.principal)
    if event is None:
        raise LaterFormatError("a record of a kind that this version does not know")
    if record.format_version > RECORD_FORMAT:
        raise LaterFormatError(
            f"a record of format {record.format_version}, but this version reads up to "
            f"{RECORD_FORMAT}"
        )
    if record.now_ms > state.clock_ms:
        state.note_cut(record.now_ms)
        state.clock_ms = record.now_ms
    REPLAYS[event](state, getattr(message, event), record.now_ms)


def found(state: State, cluster_id: str, context: Context) -> Decision:
    """Decide the first record of a new journal, which assigns the cluster its id."""
    if not cluster_id:
        raise ValueError("a cluster needs an id; create one from 16 random bytes")
    turn = Turn(state, context)
    founded = ClusterFounded(cluster_id=cluster_id)
    turn.journal(JournalRecord(cluster_founded=founded))
    return turn.end(None)
