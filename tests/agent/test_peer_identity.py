"""Agents recognize each other by keys derived from the control plane's secret, also from an earlier leader's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lacuna.agent.security.peers import PEER, PeerIdentity
from lacuna.agent.security.sasl.mechanism import AuthenticationFailed
from lacuna.agent.security.sasl.scram import ScramExchange
from lacuna.agent.security.sasl.users import SHA_256, Users
from lacuna.controlplane.client.views import ClusterView
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta


class Plane:
    """The secrets that leaders send to an agent."""

    def __init__(self) -> None:
        feed: Any = SimpleNamespace()
        self.cluster = ClusterView(feed)

    def lead(self, secret: bytes) -> None:
        self.cluster.apply(ClusterDelta(is_snapshot=True, peer_secret=secret))


async def authenticates(client: PeerIdentity, server: PeerIdentity) -> bool:
    credentials = client.credentials()
    assert credentials is not None
    exchange = credentials.begin()
    taken = ScramExchange(SHA_256, Users(Security()), server.find)
    try:
        first = await taken.respond(next(exchange))
        final = await taken.respond(exchange.send(first.token))
    except AuthenticationFailed:
        return False
    with pytest.raises(StopIteration):
        exchange.send(final.token)
    assert final.outcome is not None
    assert final.outcome.principal == PEER
    return True


async def test_an_agent_that_was_cut_off_while_the_leader_changed_is_known_for_a_while() -> None:
    here, there = Plane(), Plane()
    one, other = PeerIdentity(here), PeerIdentity(there)  # type: ignore[arg-type]
    assert one.credentials() is None
    here.lead(b"1")
    there.lead(b"1")
    assert await authenticates(one, other)
    here.lead(b"2")
    assert await authenticates(other, one)
    assert not await authenticates(one, other)  # it does not know the new secret
    here.lead(b"3")
    assert await authenticates(other, one)
    here.lead(b"4")
    assert not await authenticates(other, one)
    one.stop()
    here.lead(b"5")
    there.lead(b"5")
    assert not await authenticates(other, one)
