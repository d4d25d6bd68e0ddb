"""Finds the quota that applies to a client, by searching Kafka's eight levels from the most to the least specific."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from lacuna.controlplane.shared.hosts import plain_host
from lacuna.controlplane.shared.security import Entity, Security

PRODUCED: Final = "producer_byte_rate"
CONSUMED: Final = "consumer_byte_rate"
REQUESTS: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"

_USER: Final = "user"
_CLIENT: Final = "client-id"
_IP: Final = "ip"
_MOST_REMEMBERED: Final = 10_000
#: Clients choose their ids. Characters beyond this length are not remembered, so ids that are equal up to this length
#: are counted together.
_MOST_CHARACTERS: Final = 256


class Limit(NamedTuple):
    """A quota per second, and the key under which its use is counted."""

    entity: Entity
    rate: float


class Limits:
    """Looks up quotas, and caches the results until quotas change."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._version = -1
        self._found: OrderedDict[tuple[str, str, str], Limit | None] = OrderedDict()

    @property
    def are_any(self) -> bool:
        return bool(self._security.quotas)

    def find(self, key: str, user: str, client_id: str) -> Limit | None:
        """Return the quota that applies to a user's client, or None."""
        if self._version != self._security.version:
            self._version = self._security.version
            self._found.clear()
        asked = key, user, client_id
        if asked in self._found:
            return self._found[asked]
        found = self._look_up(key, user, client_id)
        if len(user) + len(client_id) <= _MOST_CHARACTERS:
            self._found[asked] = found
            if len(self._found) > _MOST_REMEMBERED:
                self._found.popitem(last=False)
        return found

    def of_ip(self, ip: str) -> float | None:
        """Return how many connections per second an address may open, or None if there is no limit."""
        for name in (plain_host(ip), None):
            values = self._security.quotas.get(((_IP, name),), {})
            if CONNECTIONS in values:
                return values[CONNECTIONS]
        return None

    def _look_up(self, key: str, user: str, client_id: str) -> Limit | None:
        for entity in _levels(user, client_id):
            rate = self._security.quotas.get(entity, {}).get(key)
            if rate is not None:
                names = {_USER: user, _CLIENT: client_id}
                counted = tuple((kind, names[kind][:_MOST_CHARACTERS]) for kind, _ in entity)
                return Limit(counted, rate)
        return None


def _levels(user: str, client_id: str) -> Iterator[Entity]:
    for of_user in (user, None):
        for of_client in (client_id, None):
            yield ((_CLIENT, of_client), (_USER, of_user))
        yield ((_USER, of_user),)
    for of_client in (client_id, None):
        yield ((_CLIENT, of_client),)
