"""Tests JoinGroup, SyncGroup, Heartbeat and LeaveGroup: classic membership as in Kafka 4.1 (S26)."""

import pytest

from tests.controlplane.verbs.groups.conftest import play

SCRIPTS = {
    "a second member waits until the first joins again": """
        join a old        -> a: gen=1 range leader=a of a
        sync a a=A        -> a: synced A
        join b            -> b: MEMBER_ID_REQUIRED
        join b            -> b: waits
        join a            -> a: gen=2 range leader=a of a,b | b: gen=2 range leader=a
        sync b            -> b: waits
        sync a a=A b=B    -> a: synced A | b: synced B
        describe          -> Stable range a=A b=B
    """,
    "first member leads and gets what it assigned": """
        join a            -> a: MEMBER_ID_REQUIRED
        describe          -> Empty
        join a            -> a: gen=1 range leader=a of a
        describe          -> CompletingRebalance a=
        sync a a=A        -> a: synced A
        describe          -> Stable range a=A
        heartbeat a       -> a: ok
    """,
    "members not named in the assignment get an empty one": """
        join a old        -> a: gen=1 range leader=a of a
        sync a            -> a: synced
    """,
    "unknown member is told so everywhere": """
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
    """,
    "session timeout is bounded": """
        join a session=5999ms       -> a: INVALID_SESSION_TIMEOUT
        join a session=1800001ms    -> a: INVALID_SESSION_TIMEOUT
        join a session=6s           -> a: MEMBER_ID_REQUIRED
        join b session=30min        -> b: MEMBER_ID_REQUIRED
    """,
    "a protocol that not all speak is refused": """
        join a old protocols=       -> a: INCONSISTENT_GROUP_PROTOCOL
        join a old type=            -> a: INCONSISTENT_GROUP_PROTOCOL
        list                        ->
        join a old protocols=range,sticky -> a: gen=1 range leader=a of a
        join b protocols=other      -> b: INCONSISTENT_GROUP_PROTOCOL
        join b type=connect         -> b: INCONSISTENT_GROUP_PROTOCOL
        join a protocols=other      -> a: INCONSISTENT_GROUP_PROTOCOL
    """,
    "votes choose the protocol": """
        join a old protocols=range,sticky -> a: gen=1 range leader=a of a
        join b old protocols=sticky,range -> b: waits
        join c old protocols=sticky,range -> c: waits
        join a protocols=range,sticky -> a: gen=2 sticky leader=a of a,b,c
                                    | b: gen=2 sticky leader=a | c: gen=2 sticky leader=a
    """,
    "one who speaks only the other protocol changes the choice": """
        join a old protocols=range,sticky -> a: gen=1 range leader=a of a
        join b old protocols=sticky       -> b: waits
        join a protocols=range,sticky -> a: gen=2 sticky leader=a of a,b | b: gen=2 sticky leader=a
    """,
    "sync checks generation and protocol": """
        join a old                  -> a: gen=1 range leader=a of a
        sync a gen=0                -> a: ILLEGAL_GENERATION
        sync a gen=2                -> a: ILLEGAL_GENERATION
        sync a type=connect         -> a: INCONSISTENT_GROUP_PROTOCOL
        sync a protocol=sticky      -> a: INCONSISTENT_GROUP_PROTOCOL
        heartbeat a gen=0           -> a: ILLEGAL_GENERATION
        sync a type=consumer protocol=range a=A -> a: synced A
    """,
    "sync in a rebalance is refused": """
        stable                      ->
        join c old                  -> c: waits
        sync b                      -> b: REBALANCE_IN_PROGRESS
    """,
    "a follower that rejoins unchanged causes no rebalance": """
        stable                      ->
        join b                      -> b: gen=2 range leader=a
        describe                    -> Stable range a=A b=B
    """,
    "a follower with new metadata causes a rebalance": """
        stable                      ->
        join b protocols=range:x    -> b: waits
        describe                    -> PreparingRebalance a= b=
        join a                      -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    """,
    "a lost join answer is given again": """
        join a old                  -> a: gen=1 range leader=a of a
        join a                      -> a: gen=1 range leader=a of a
    """,
    "changed metadata before the assignment begins anew": """
        stable                      ->
        join a                      -> a: waits
        join b                      -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
        sync b                      -> b: waits
        join a protocols=range:x    -> a: waits | b: REBALANCE_IN_PROGRESS
        join b                      -> b: gen=4 range leader=a | a: gen=4 range leader=a of a,b
    """,
    "a second join while one waits takes its place": """
        stable                      ->
        join b protocols=range:x    -> b: waits
        join b protocols=range:y    -> b: waits | b: REBALANCE_IN_PROGRESS
        join a                      -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    """,
    "a second sync while one waits takes its place": """
        stable                      ->
        join a                      -> a: waits
        join b                      -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
        sync b                      -> b: waits
        sync b                      -> b: waits | b: REBALANCE_IN_PROGRESS
        sync a a=A b=C              -> a: synced A | b: synced C
    """,
    "leaving makes the others rebalance": """
        stable                      ->
        leave a                     -> left: ok
        heartbeat b                 -> b: REBALANCE_IN_PROGRESS
        join b                      -> b: gen=3 range leader=b of b
    """,
    "the last one leaves an empty group": """
        stable                      ->
        leave a b                   -> left: ok,ok
        describe                    -> Empty
        sync a                      -> a: UNKNOWN_MEMBER_ID
        heartbeat a                 -> a: UNKNOWN_MEMBER_ID
        join c old                  -> c: gen=4 range leader=c of c
    """,
    "leaving in a rebalance lets it complete": """
        stable                      ->
        join a                      -> a: waits
        leave b                     -> left: ok | a: gen=3 range leader=a of a
    """,
    "one who leaves while its join waits is answered": """
        stable                      ->
        join c old                  -> c: waits
        leave b                     -> left: ok
        join a                      -> a: gen=3 range leader=a of a,c | c: gen=3 range leader=a
        sync c                      -> c: waits
        leave c                     -> left: ok | c: UNKNOWN_MEMBER_ID
    """,
    "a pending member may leave": """
        stable                      ->
        join c                      -> c: MEMBER_ID_REQUIRED
        join a                      -> a: waits
        join b                      -> b: waits
        leave c                     -> left: ok | a: gen=3 range leader=a of a,b
                                    | b: gen=3 range leader=a
    """,
    "a batch that leaves has an error each": """
        stable           ->
        leave a nobody b -> left: ok,UNKNOWN_MEMBER_ID,ok
    """,
    "a full group refuses new members": """
        given group_max_size=2      ->
        stable                      ->
        join c                      -> c: GROUP_MAX_SIZE_REACHED
        join b                      -> b: gen=2 range leader=a
    """,
    "a group in a rebalance takes who comes first": """
        given group_max_size=2      ->
        join a old                  -> a: gen=1 range leader=a of a
        sync a a=A                  -> a: synced A
        join b old                  -> b: waits
        join c old                  -> c: waits
        join d old                  -> d: GROUP_MAX_SIZE_REACHED
        join a                      -> a: GROUP_MAX_SIZE_REACHED
        after 60s                   -> b: gen=2 range leader=b of b,c | c: gen=2 range leader=b
    """,
    "ids given out to members that never come are bounded": """
        given group_max_size=2      ->
        join a                      -> a: MEMBER_ID_REQUIRED
        join b                      -> b: MEMBER_ID_REQUIRED
        join c                      -> c: GROUP_MAX_SIZE_REACHED
        after 10s                   ->
        list                        ->
    """,
    "an initial delay gathers members": """
        given group_initial_rebalance_delay_ms=3000 ->
        join a old                  -> a: waits
        join b old                  -> b: waits
        after 2s                    ->
        join c old                  -> c: waits
        after 1s                    ->
        after 3s                    -> a: gen=1 range leader=a of a,b,c | b: gen=1 range leader=a
                                    | c: gen=1 range leader=a
    """,
    "an initial delay ends with the rebalance timeout": """
        given group_initial_rebalance_delay_ms=3000 ->
        join a old rebalance=5s     -> a: waits
        join b old rebalance=5s     -> b: waits
        after 3s                    ->
        join c old rebalance=5s     -> c: waits
        after 2s                    -> a: gen=1 range leader=a of a,b,c | b: gen=1 range leader=a
                                    | c: gen=1 range leader=a
    """,
    "leaving in the initial delay does not cut it short": """
        given group_initial_rebalance_delay_ms=3000 ->
        join a old                  -> a: waits
        join b old instance=j       -> b: waits
        after 2s                    ->
        leave @j                    -> left: ok | b: UNKNOWN_MEMBER_ID
        after 1s                    ->
        after 3s                    -> a: gen=1 range leader=a of a
    """,
    "one who went away while waiting is not answered": """
        stable                      ->
        join b protocols=range:x    -> b: waits
        forget b                    ->
        join a                      -> a: gen=3 range leader=a of a,b
    """,
    # A protocol counts 64 bytes plus its name and metadata. A rejoining member may be rejected, too.
    "what a member says of itself has a bound": """
        given member_metadata_max_bytes=75 ->
        join a old protocols=range:1234567 -> a: INVALID_REQUEST
        join a old protocols=range:123456  -> a: gen=1 range leader=a of a
        sync a a=A                         -> a: synced A
        join a protocols=range:1,roundrobin:1 -> a: INVALID_REQUEST
        heartbeat a                        -> a: ok
    """,
    "what all members say of themselves has a bound": """
        given group_metadata_max_bytes=147 ->
        join a old protocols=range:12345   -> a: gen=1 range leader=a of a
        join b old protocols=range:123456  -> b: GROUP_MAX_SIZE_REACHED
        join b old protocols=range:1234    -> b: waits
        join a protocols=range:123456      -> a: GROUP_MAX_SIZE_REACHED
        after 60s                          -> b: gen=2 range leader=b of b
    """,
    "who says too much in a stable group leaves what it held to the others": """
        given group_metadata_max_bytes=147 ->
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
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_joining(script: str) -> None:
    play(script)


def test_an_empty_group_id_is_invalid() -> None:
    bench = play("""
    join a group=               -> a: INVALID_GROUP_ID
    sync a group=               -> a: INVALID_GROUP_ID
    heartbeat a group=          -> a: INVALID_GROUP_ID
    """)
    bench.group_id = ""
    assert bench.run("leave a") == "left: INVALID_GROUP_ID"
