"""The page of connected clients: what they say that they are, and what is known of such clients."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from lacuna.agent.api import Peer
from lacuna.clients import Client, ClientQuery, load, nearest
from lacuna.console.site import Paging, Site

#: What clients call themselves, where `lacuna doctor` has another name for them.
_KNOWN_AS: Final = {"apache-kafka-java": "kafka-clients", "kgo": "franz-go"}
#: Bindings of librdkafka say both versions: 2.16.1-rdkafka-2.16.1.
_BOUND: Final = "-rdkafka-"
_SHOWN: Final = 5

known_clients = cache(load)


@dataclass(slots=True)
class Kind:
    """The connections of one version of a client; `name` is empty for those that do not say what they are."""

    name: str
    version: str
    connections: int = 0
    client_ids: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)

    @property
    def tested(self) -> Sequence[Client]:
        """What the client matrix knows of this version, or of the nearest ones."""
        name = _KNOWN_AS.get(self.name, self.name)
        found = nearest(known_clients(), ClientQuery(name, self.version.rpartition(_BOUND)[2]))
        return found[:2]

    @property
    def shown_ids(self) -> Sequence[str]:
        """Some of the client ids."""
        return sorted(self.client_ids)[:_SHOWN]

    @property
    def shown_hosts(self) -> Sequence[str]:
        """Some of the hosts."""
        return sorted(self.hosts)[:_SHOWN]


async def page(site: Site, request: Request) -> Response:
    """Answer with the page."""
    peers = site.sources.peers
    kinds = kinds_of(peers()) if peers is not None else []
    paging = Paging.of(request.query_params, len(kinds))
    return site.render(
        request,
        "clients.html",
        is_known=peers is not None,
        connections=sum(kind.connections for kind in kinds),
        rows=kinds[paging.first : paging.stop],
        paging=paging,
    )


def kinds_of(peers: Iterable[Peer]) -> list[Kind]:
    """Count connections by what the clients say that they are, those with the most first."""
    kinds: dict[tuple[str, str], Kind] = {}
    for peer in peers:
        key = (peer.software.name, peer.software.version)
        kind = kinds.setdefault(key, Kind(*key))
        kind.connections += 1
        kind.client_ids.add(peer.client_id)
        kind.hosts.add(peer.host)
    return sorted(kinds.values(), key=lambda kind: (-kind.connections, kind.name, kind.version))
