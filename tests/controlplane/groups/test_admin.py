"""DescribeGroups, ListGroups, DeleteGroups, and what the machine refuses from its own callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controlplane.decision import Context
from controlplane.groups import (
    GROUP_VERBS,
    TRANSITIONS,
    Groups,
    GroupState,
    IllegalTransitionError,
    NotAGroupCommandError,
    UnknownGroupRecordError,
    handle,
    replay,
)
from controlplane.groups.live import LiveGroup
from controlplane.v1.control_pb2 import Command
from controlplane.v1.group_records_pb2 import GroupRecord
from controlplane.v1.groups_pb2 import OffsetCommit, TxnOffsetCommit

if TYPE_CHECKING:
    from tests.controlplane.groups.conftest import Bench, Play


def test_list_filters_by_state_and_type(play: Play) -> None:
    play("""
    join a old        -> a: gen=1 range leader=a of a
    commit x group=h t-0@1 -> x: ok
    list              -> g:CompletingRebalance:consumer:classic h:Empty::classic
    list states=empty -> h:Empty::classic
    list states=CompletingRebalance,Empty -> g:CompletingRebalance:consumer:classic h:Empty::classic
    list states=Gone  ->
    list types=classic states=EMPTY -> h:Empty::classic
    list types=consumer ->
    """)


def test_only_a_group_without_members_is_deleted(play: Play) -> None:
    play("""
    join a old        -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    commit a t-0@1    -> a: ok
    delete g h        -> NON_EMPTY_GROUP,GROUP_ID_NOT_FOUND
    leave a           -> left: ok
    delete g g        -> ok,GROUP_ID_NOT_FOUND
    fetch all         ->
    describe g        -> Dead GROUP_ID_NOT_FOUND
    join a fresh old  -> a: gen=1 range leader=a of a
    """)


def test_deleting_a_group_drops_its_pending_offsets(play: Play) -> None:
    play("""
    txn_commit x 7 t-0@1 -> x: ok
    txn_commit x 7 group=h t-0@2 -> x: ok
    delete g          -> ok
    end 7 commit      ->
    list              -> h:Empty::classic
    """)


def test_describe_shows_the_member_of_an_empty_restart(play: Play) -> None:
    play("""
    join a old        -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    restart           ->
    describe          -> Stable range a=A
    """)


@pytest.mark.parametrize("source", GroupState)
@pytest.mark.parametrize("target", GroupState)
def test_only_listed_transitions_happen(source: GroupState, target: GroupState) -> None:
    group = LiveGroup(group_id="g", state=source)
    if target in TRANSITIONS[source]:
        group.transition_to(target)
        assert group.state is target
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {source} to {target}"):
            group.transition_to(target)


def test_callers_may_check_partitions_themselves(bench: Bench) -> None:
    """Then a partition that nobody says is missing is taken to exist."""
    (offset,) = bench.offsets(("t-9999@1",))
    commit = OffsetCommit(group_id="g", generation_id=-1, offsets=[offset])
    decision = handle(bench.groups, Command(offset_commit=commit), bench.context())
    assert decision.reply is not None
    assert decision.reply.offsets_committed.error_codes == [0]
    assert bench.run("commit x t-9999@1") == "x: UNKNOWN_TOPIC_OR_PARTITION"


def test_another_command_is_our_own_mistake() -> None:
    context = Context(now_ms=0, new_id=lambda: bytes(16))
    for command in (Command(), Command(txn_offset_commit=TxnOffsetCommit())):
        assert command.WhichOneof("verb") not in GROUP_VERBS
        with pytest.raises(NotAGroupCommandError):
            handle(Groups(), command, context)


def test_a_record_of_a_later_version_is_not_passed_over() -> None:
    with pytest.raises(UnknownGroupRecordError, match="start the version that wrote it"):
        replay(Groups(), GroupRecord())
