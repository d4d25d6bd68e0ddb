"""Tests JoinGroup, SyncGroup, Heartbeat and LeaveGroup: classic membership as in Kafka 4.1 (S26)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.controlplane.verbs.groups.conftest import Bench, Play

TWO_STABLE = """
    join a old        -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    join b            -> b: MEMBER_ID_REQUIRED
    join b            -> b: waits
    join a            -> a: gen=2 range leader=a of a,b | b: gen=2 range leader=a
    sync b            -> b: waits
    sync a a=A b=B    -> a: synced A | b: synced B
"""


def test_first_member_leads_and_gets_what_it_assigned(play: Play) -> None:
    play("""
    join a            -> a: MEMBER_ID_REQUIRED
    describe          -> Empty
    join a            -> a: gen=1 range leader=a of a
    describe          -> CompletingRebalance a=
    sync a a=A        -> a: synced A
    describe          -> Stable range a=A
    heartbeat a       -> a: ok
    """)


def test_clients_before_v4_join_without_an_id_first(play: Play) -> None:
    play("join a old -> a: gen=1 range leader=a of a")


def test_a_second_member_waits_until_the_first_joins_again(play: Play) -> None:
    play(TWO_STABLE + "describe -> Stable range a=A b=B")


def test_heartbeat_tells_of_a_rebalance(play: Play) -> None:
    play("""
    join a old        -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    join b old        -> b: waits
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    """)


def test_members_not_named_in_the_assignment_get_an_empty_one(play: Play) -> None:
    play("""
    join a old        -> a: gen=1 range leader=a of a
    sync a            -> a: synced
    """)


def test_unknown_member_is_told_so_everywhere(play: Play) -> None:
    play("""
    join x id=ghost             -> x: UNKNOWN_MEMBER_ID
    sync x id=ghost gen=1       -> x: UNKNOWN_MEMBER_ID
    heartbeat x id=ghost gen=1  -> x: UNKNOWN_MEMBER_ID
    leave x y                   -> left: UNKNOWN_MEMBER_ID,UNKNOWN_MEMBER_ID
    describe                    -> Dead GROUP_ID_NOT_FOUND
    join a old                  -> a: gen=1 range leader=a of a
    join y id=ghost             -> y: UNKNOWN_MEMBER_ID
    sync y id=ghost             -> y: UNKNOWN_MEMBER_ID
    heartbeat y id=ghost        -> y: UNKNOWN_MEMBER_ID
    leave y                     -> left: UNKNOWN_MEMBER_ID
    """)


def test_an_empty_group_id_is_invalid(play: Play, bench: Bench) -> None:
    play("""
    join a group=               -> a: INVALID_GROUP_ID
    sync a group=               -> a: INVALID_GROUP_ID
    heartbeat a group=          -> a: INVALID_GROUP_ID
    """)
    bench.group_id = ""
    assert bench.run("leave a") == "left: INVALID_GROUP_ID"


def test_session_timeout_is_bounded(play: Play) -> None:
    play("""
    join a session=5999ms       -> a: INVALID_SESSION_TIMEOUT
    join a session=1800001ms    -> a: INVALID_SESSION_TIMEOUT
    join a session=6s           -> a: MEMBER_ID_REQUIRED
    join b session=30min        -> b: MEMBER_ID_REQUIRED
    """)


def test_a_protocol_that_not_all_speak_is_refused(play: Play) -> None:
    play("""
    join a old protocols=       -> a: INCONSISTENT_GROUP_PROTOCOL
    join a old type=            -> a: INCONSISTENT_GROUP_PROTOCOL
    list                        ->
    join a old protocols=range,sticky -> a: gen=1 range leader=a of a
    join b protocols=other      -> b: INCONSISTENT_GROUP_PROTOCOL
    join b type=connect         -> b: INCONSISTENT_GROUP_PROTOCOL
    join a protocols=other      -> a: INCONSISTENT_GROUP_PROTOCOL
    """)


def test_votes_choose_the_protocol(play: Play) -> None:
    play("""
    join a old protocols=range,sticky -> a: gen=1 range leader=a of a
    join b old protocols=sticky,range -> b: waits
    join c old protocols=sticky,range -> c: waits
    join a protocols=range,sticky -> a: gen=2 sticky leader=a of a,b,c
                                | b: gen=2 sticky leader=a | c: gen=2 sticky leader=a
    """)


def test_one_who_speaks_only_the_other_protocol_changes_the_choice(play: Play) -> None:
    play("""
    join a old protocols=range,sticky -> a: gen=1 range leader=a of a
    join b old protocols=sticky       -> b: waits
    join a protocols=range,sticky -> a: gen=2 sticky leader=a of a,b | b: gen=2 sticky leader=a
    """)


def test_sync_checks_generation_and_protocol(play: Play) -> None:
    play("""
    join a old                  -> a: gen=1 range leader=a of a
    sync a gen=0                -> a: ILLEGAL_GENERATION
    sync a gen=2                -> a: ILLEGAL_GENERATION
    sync a type=connect         -> a: INCONSISTENT_GROUP_PROTOCOL
    sync a protocol=sticky      -> a: INCONSISTENT_GROUP_PROTOCOL
    heartbeat a gen=0           -> a: ILLEGAL_GENERATION
    sync a type=consumer protocol=range a=A -> a: synced A
    """)


def test_sync_of_a_stable_group_is_answered_again(play: Play) -> None:
    play(TWO_STABLE + "sync b -> b: synced B")


def test_sync_in_a_rebalance_is_refused(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join c old                  -> c: waits
    sync b                      -> b: REBALANCE_IN_PROGRESS
    """
    )


def test_a_follower_that_rejoins_unchanged_causes_no_rebalance(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join b                      -> b: gen=2 range leader=a
    describe                    -> Stable range a=A b=B
    """
    )


def test_a_follower_with_new_metadata_causes_a_rebalance(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join b protocols=range:x    -> b: waits
    describe                    -> PreparingRebalance a= b=
    join a                      -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    """
    )


def test_the_leader_of_a_stable_group_rebalances_by_joining(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join a                      -> a: waits
    join b                      -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    """
    )


def test_a_lost_join_answer_is_given_again(play: Play) -> None:
    play("""
    join a old                  -> a: gen=1 range leader=a of a
    join a                      -> a: gen=1 range leader=a of a
    """)


def test_changed_metadata_before_the_assignment_begins_anew(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join a                      -> a: waits
    join b                      -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    sync b                      -> b: waits
    join a protocols=range:x    -> a: waits | b: REBALANCE_IN_PROGRESS
    join b                      -> b: gen=4 range leader=a | a: gen=4 range leader=a of a,b
    """
    )


def test_a_second_join_while_one_waits_takes_its_place(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join b protocols=range:x    -> b: waits
    join b protocols=range:y    -> b: waits | b: REBALANCE_IN_PROGRESS
    join a                      -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    """
    )


def test_a_second_sync_while_one_waits_takes_its_place(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join a                      -> a: waits
    join b                      -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    sync b                      -> b: waits
    sync b                      -> b: waits | b: REBALANCE_IN_PROGRESS
    sync a a=A b=C              -> a: synced A | b: synced C
    """
    )


def test_leaving_makes_the_others_rebalance(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    leave a                     -> left: ok
    heartbeat b                 -> b: REBALANCE_IN_PROGRESS
    join b                      -> b: gen=3 range leader=b of b
    """
    )


def test_the_last_one_leaves_an_empty_group(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    leave a b                   -> left: ok,ok
    describe                    -> Empty
    sync a                      -> a: UNKNOWN_MEMBER_ID
    heartbeat a                 -> a: UNKNOWN_MEMBER_ID
    join c old                  -> c: gen=4 range leader=c of c
    """
    )


def test_leaving_in_a_rebalance_lets_it_complete(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join a                      -> a: waits
    leave b                     -> left: ok | a: gen=3 range leader=a of a
    """
    )


def test_one_who_leaves_while_its_join_waits_is_answered(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join c old                  -> c: waits
    leave b                     -> left: ok
    join a                      -> a: gen=3 range leader=a of a,c | c: gen=3 range leader=a
    sync c                      -> c: waits
    leave c                     -> left: ok | c: UNKNOWN_MEMBER_ID
    """
    )


def test_a_pending_member_may_leave(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join c                      -> c: MEMBER_ID_REQUIRED
    join a                      -> a: waits
    join b                      -> b: waits
    leave c                     -> left: ok | a: gen=3 range leader=a of a,b
                                | b: gen=3 range leader=a
    """
    )


def test_a_batch_that_leaves_has_an_error_each(play: Play) -> None:
    play(TWO_STABLE + "leave a nobody b -> left: ok,UNKNOWN_MEMBER_ID,ok")


def test_a_full_group_refuses_new_members(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join c                      -> c: GROUP_MAX_SIZE_REACHED
    join b                      -> b: gen=2 range leader=a
    """,
        group_max_size=2,
    )


def test_a_group_in_a_rebalance_takes_who_comes_first(play: Play) -> None:
    play(
        """
    join a old                  -> a: gen=1 range leader=a of a
    sync a a=A                  -> a: synced A
    join b old                  -> b: waits
    join c old                  -> c: waits
    join d old                  -> d: GROUP_MAX_SIZE_REACHED
    join a                      -> a: GROUP_MAX_SIZE_REACHED
    after 60s                   -> b: gen=2 range leader=b of b,c | c: gen=2 range leader=b
    """,
        group_max_size=2,
    )


def test_ids_given_out_to_members_that_never_come_are_bounded(play: Play) -> None:
    play(
        """
    join a                      -> a: MEMBER_ID_REQUIRED
    join b                      -> b: MEMBER_ID_REQUIRED
    join c                      -> c: GROUP_MAX_SIZE_REACHED
    after 10s                   ->
    list                        ->
    """,
        group_max_size=2,
    )


def test_an_initial_delay_gathers_members(play: Play) -> None:
    play(
        """
    join a old                  -> a: waits
    join b old                  -> b: waits
    after 2s                    ->
    join c old                  -> c: waits
    after 1s                    ->
    after 3s                    -> a: gen=1 range leader=a of a,b,c | b: gen=1 range leader=a
                                | c: gen=1 range leader=a
    """,
        group_initial_rebalance_delay_ms=3000,
    )


def test_an_initial_delay_ends_with_the_rebalance_timeout(play: Play) -> None:
    play(
        """
    join a old rebalance=5s     -> a: waits
    join b old rebalance=5s     -> b: waits
    after 3s                    ->
    join c old rebalance=5s     -> c: waits
    after 2s                    -> a: gen=1 range leader=a of a,b,c | b: gen=1 range leader=a
                                | c: gen=1 range leader=a
    """,
        group_initial_rebalance_delay_ms=3000,
    )


def test_leaving_in_the_initial_delay_does_not_cut_it_short(play: Play) -> None:
    play(
        """
    join a old                  -> a: waits
    join b old instance=j       -> b: waits
    after 2s                    ->
    leave @j                    -> left: ok | b: UNKNOWN_MEMBER_ID
    after 1s                    ->
    after 3s                    -> a: gen=1 range leader=a of a
    """,
        group_initial_rebalance_delay_ms=3000,
    )


def test_one_who_went_away_while_waiting_is_not_answered(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join b protocols=range:x    -> b: waits
    forget b                    ->
    join a                      -> a: gen=3 range leader=a of a,b
    """
    )


def test_what_a_member_says_of_itself_has_a_bound(play: Play) -> None:
    """A protocol counts 64 bytes plus its name and metadata. A rejoining member may be rejected, too."""
    play(
        """
    join a old protocols=range:1234567 -> a: INVALID_REQUEST
    join a old protocols=range:123456  -> a: gen=1 range leader=a of a
    sync a a=A                         -> a: synced A
    join a protocols=range:1,roundrobin:1 -> a: INVALID_REQUEST
    heartbeat a                        -> a: ok
        """,
        member_metadata_max_bytes=75,
    )


def test_what_all_members_say_of_themselves_has_a_bound(play: Play) -> None:
    play(
        """
    join a old protocols=range:12345   -> a: gen=1 range leader=a of a
    join b old protocols=range:123456  -> b: GROUP_MAX_SIZE_REACHED
    join b old protocols=range:1234    -> b: waits
    join a protocols=range:123456      -> a: GROUP_MAX_SIZE_REACHED
    after 60s                          -> b: gen=2 range leader=b of b
        """,
        group_metadata_max_bytes=147,
    )


def test_who_says_too_much_in_a_stable_group_leaves_what_it_held_to_the_others(play: Play) -> None:
    play(
        """
    join a old protocols=range:1       -> a: gen=1 range leader=a of a
    sync a a=A                         -> a: synced A
    join b old protocols=range:1       -> b: waits
    join a                             -> a: gen=2 range leader=a of a,b | b: gen=2 range leader=a
    sync b                             -> b: waits
    sync a a=A b=B                     -> a: synced A | b: synced B
    join b protocols=range:1234567890  -> b: GROUP_MAX_SIZE_REACHED
    heartbeat a                        -> a: REBALANCE_IN_PROGRESS
    join a                             -> a: gen=3 range leader=a of a
        """,
        group_metadata_max_bytes=147,
    )
