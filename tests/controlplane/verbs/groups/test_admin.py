"""Tests DescribeGroups, ListGroups and DeleteGroups, and what the machine rejects from its own callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.state.groups.states import (
    TRANSITIONS,
    GroupState,
    IllegalTransitionError,
)
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord
from lacuna.controlplane.v1.journal_pb2 import JournalRecord

if TYPE_CHECKING:
    from tests.controlplane.verbs.groups.conftest import Play


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


def test_offsets_of_a_partition_that_is_not_there_are_refused(play: Play) -> None:
    play("""
    commit x t-99@1 t-100@1 -> x: ok,UNKNOWN_TOPIC_OR_PARTITION
    """)


def test_a_record_of_a_later_version_is_not_passed_over() -> None:
    with pytest.raises(machine.LaterFormatError, match="does not know"):
        machine.replay(machine.State(), JournalRecord(group=GroupRecord()))
