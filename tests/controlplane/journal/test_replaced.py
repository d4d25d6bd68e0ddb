"""Tests a journal that lost records which a standby had read, and has other records at the same positions."""

from collections.abc import Sequence

import asyncpg
import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.journal.journal import JournalReplaced
from lacuna.controlplane.journal.replica import Replica
from lacuna.controlplane.node import Node
from lacuna.controlplane.runtime import Runtime, RuntimeSettings
from lacuna.controlplane.v1.control_pb2 import ControlPlaneStatus, Standby
from tests.controlplane.journal.golden import SHARED, Place, make_place
from tests.controlplane.verbs.cluster import Cluster


class Replaced:
    """A journal that `lose` resets to its state before `put`'s record, as a failover or a restore does."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._objects: dict[str, bytes] = {}

    async def append(self, records: Sequence[bytes]) -> None:
        journal = self.place.journal()
        opened = await journal.open(Cluster().state.cluster_id)
        for record in records:
            await journal.append([record], opened.fencing_token)
        await journal.close()

    def keep(self) -> None:
        bucket = self.place.bucket
        self._objects = {info.key: bytes(bucket.get_all(info.key)) for info in bucket.list()}

    async def lose(self, position: int) -> None:
        """Drop everything after `position`."""
        if self.place.url:
            connection = await asyncpg.connect(self.place.url)
            await connection.execute("DELETE FROM lacuna.appends WHERE last > $1", position)
            await connection.close()
            return
        bucket = self.place.bucket
        bucket.delete([info.key for info in bucket.list()])
        for key, data in self._objects.items():
            bucket.create(key, data)


async def nobody(_: str, __: Standby) -> ControlPlaneStatus | None:
    return None


def no_plane(*_: object) -> Runtime:
    raise AssertionError


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("more", [0, 1, 3])
async def test_a_standby_reads_anew_what_took_the_place_of_what_it_had_read(
    request: pytest.FixtureRequest, kind: str, more: int
) -> None:
    """It notices however many records follow. If none follow, the next leader notices."""
    old, new = Cluster(), Cluster()
    for cluster in (old, new):
        cluster.create("orders")
    kept = len(old.journal)
    old.put("orders-0", 5)
    new.put("orders-0", 2)
    for _ in range(more):
        new.put("orders-0", 3)
    assert old.journal[:kept] == new.journal[:kept]
    replaced = Replaced(make_place(kind, request))
    await replaced.append(old.journal[:kept])
    replaced.keep()
    await replaced.append(old.journal[kept:])

    following = replaced.place.patient()
    reader = following.reader()  # type: ignore[attr-defined]
    node = Node(no_plane, SystemClock(), nobody)
    await node._catch_up(reader)
    standby = node._replica
    assert machine.snapshot(standby.state) == machine.snapshot(old.state)
    # Nothing was lost yet, so nothing is read anew.
    await node._catch_up(reader)
    assert node._replica is standby

    await replaced.lose(kept)
    await replaced.append(new.journal[kept:])
    stale = Replica()
    stale.state, stale.position, stale.seal = standby.state, standby.position, standby.seal
    plane = Runtime(
        replaced.place.journal(),
        SystemClock(),
        lambda: bytes(16),
        RuntimeSettings(),
        replica=stale,
        on_fatal=lambda _: None,
    )
    with pytest.raises(JournalReplaced, match="is not the one that was read"):
        await plane.start(new.state.cluster_id)
    if more or kind == "postgresql":
        await node._catch_up(reader)
        assert node._replica.position == len(new.journal)
        assert machine.snapshot(node._replica.state) == machine.snapshot(new.state)
    await reader.close()
