"""The page of connected clients: what they say that they are, and what is known of such clients."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from lacuna.console.site import Paging, Site
from lacuna.controlplane.v1.reports_pb2 import AgentReport, ConnectedClients
from lacuna.operating.clients import Client, ClientQuery, load, nearest

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
    has_more_ids: bool = False
    has_more_hosts: bool = False

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

    def add(self, told: ConnectedClients) -> None:
        """Add what another agent tells of the same version."""
        self.connections += told.connections
        self.client_ids.update(told.client_ids)
        self.hosts.update(told.hosts)
        self.has_more_ids |= told.has_more_ids or len(self.client_ids) > _SHOWN
        self.has_more_hosts |= told.has_more_hosts or len(self.hosts) > _SHOWN


async def page(site: Site, request: Request) -> Response:
    """Answer with the page."""
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
    """Add up the clients of agents by what they say that they are, those with the most connections first."""
    kinds: dict[tuple[str, str], Kind] = {}
    for report in reports:
        for told in report.clients:
            key = (told.name, told.version)
            kinds.setdefault(key, Kind(*key)).add(told)
    return sorted(kinds.values(), key=lambda kind: (-kind.connections, kind.name, kind.version))
