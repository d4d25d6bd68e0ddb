"""The placement of partitions, groups and transactions on agents."""

from lacuna.agent import placement, rendezvous
from lacuna.agent.fetch.chunks import ChunkId
from lacuna.agent.settings import AgentSettings
from tests.agent.harness import (
    TOPIC,
    TOPIC_ID,
    ScriptedControl,
    agents,
    make_context,
    snapshot,
)


def test_placement_spreads_and_moves_only_what_it_must() -> None:
    keys = [rendezvous.partition_key(TOPIC_ID, partition) for partition in range(3000)]
    before = {key: rendezvous.place(key, (1, 2, 3)) for key in keys}
    assert min(list(before.values()).count(node) for node in (1, 2, 3)) > 850
    after = {key: rendezvous.place(key, (1, 3)) for key in keys}
    assert all(after[key] == before[key] for key in keys if before[key] != 2)


def test_chunks_are_spread_and_only_the_share_of_who_leaves_or_comes_moves() -> None:
    chunks = [
        ChunkId(lease, sequence, number)
        for lease in range(10)
        for sequence in range(30)
        for number in range(10)
    ]

    def owners(*nodes: int) -> dict[ChunkId, int]:
        return {each: rendezvous.place_once(each.placement_key, nodes) for each in chunks}

    before, after, more = owners(1, 2, 3, 4), owners(1, 2, 4), owners(1, 2, 3, 4, 5)
    assert min(list(before.values()).count(node) for node in (1, 2, 3, 4)) > 650
    assert {each for each in chunks if after[each] != before[each]} == {
        each for each in chunks if before[each] == 3
    }
    assert {more[each] for each in chunks if more[each] != before[each]} == {5}
    assert owners(4, 2, 1) == after


def test_placement_remembers_no_long_names() -> None:
    """Clients choose group names, and tens of thousands of places are cached."""
    size = rendezvous.remembered.cache_info().currsize
    nodes = (1, 2, 3, 4)
    longs = [b"group:" + b"%d" % number * 9000 for number in range(20)]
    assert {rendezvous.place(key, nodes) for key in longs} <= set(nodes)
    assert rendezvous.remembered.cache_info().currsize == size
    rendezvous.place(b"group:test_placement_remembers", nodes)
    assert rendezvous.remembered.cache_info().currsize == size + 1


async def test_placement_keeps_to_our_zone() -> None:
    control = ScriptedControl()
    control.cluster.apply(snapshot(TOPIC, agents=agents(4, "ab")))
    near = make_context(control, AgentSettings(zone="a"))
    assert [agent.node_id for agent in placement.candidates(near)] == [2, 4]
    elsewhere = make_context(control, AgentSettings(zone="c"))
    assert len(placement.candidates(elsewhere)) == 4
