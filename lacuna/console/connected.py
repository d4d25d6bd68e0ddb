"""The page for connected clients, with the names and versions that they send and their results in the client matrix."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from lacuna.console.site import Paging, Site
from lacuna.controlplane.v1.cluster_pb2 import AgentReport, ConnectedClients
from lacuna.operating.clients import Client, ClientQuery, load, nearest

#: The name that a client sends → the client's name in `lacuna doctor`, if the two differ.
_KNOWN_AS: Final = {"apache-kafka-java": "kafka-clients", "kgo": "franz-go"}
#: Bindings of librdkafka send both versions: 2.16.1-rdkafka-2.16.1.
_BOUND: Final = "-rdkafka-"
_SHOWN: Final = 5

known_clients = cache(load)


@dataclass(slots=True)
class Kind:
    """All connections from one version of a client. `name` is empty for clients that do not send one."""

    name: str
    version: str
    connections: int = 0
    client_ids: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    has_more_ids: bool = False
    has_more_hosts: bool = False

    @property
    def tested(self) -> Sequence[Client]:
        """The client matrix's results for this version or for the nearest ones."""
        name = _KNOWN_AS.get(self.name, self.name)
        results = nearest(known_clients(), ClientQuery(name, self.version.rpartition(_BOUND)[2]))
        return results[:2]

    @property
    def shown_ids(self) -> Sequence[str]:
        return sorted(self.client_ids)[:_SHOWN]

    @property
    def shown_hosts(self) -> Sequence[str]:
        return sorted(self.hosts)[:_SHOWN]

    def add(self, clients: ConnectedClients) -> None:
        """Add the connections that another agent reports."""
        self.connections += clients.connections
        self.client_ids.update(clients.client_ids)
        self.hosts.update(clients.hosts)
        self.has_more_ids |= clients.has_more_ids or len(self.client_ids) > _SHOWN
        self.has_more_hosts |= clients.has_more_hosts or len(self.hosts) > _SHOWN


async def page(site: Site, request: Request) -> Response:
    described = await site.sources.describe_cluster()
    kinds = kinds_of(each.report for each in described.agents)
    paging = Paging.of(request.query_params, len(kinds))
    return site.render(
        request,
        "clients.html",
        rows=kinds[paging.first : paging.stop],
        paging=paging,
        left_out=sum(each.report.connections_left_out for each in described.agents),
    )


def kinds_of(reports: Iterable[AgentReport]) -> list[Kind]:
    """Return all agents' clients, grouped by name and version, those with the most connections first."""
    kinds: dict[tuple[str, str], Kind] = {}
    for report in reports:
        for clients in report.clients:
            key = (clients.name, clients.version)
            kinds.setdefault(key, Kind(*key)).add(clients)
    return sorted(kinds.values(), key=lambda kind: (-kind.connections, kind.name, kind.version))
