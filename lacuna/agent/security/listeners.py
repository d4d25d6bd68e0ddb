"""Listeners: where an agent accepts clients, and how clients authenticate there, in Kafka's syntax.

listeners                        PLAINTEXT://127.0.0.1:9092,EXTERNAL://0.0.0.0:9093
advertised.listeners             EXTERNAL://kafka.example.com:9093
listener.security.protocol.map   EXTERNAL:SASL_SSL
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from ipaddress import ip_address
from typing import Final

from lacuna.base.addresses import is_loopback, join_address, parse_address
from lacuna.base.errors import UserError

#: The name of a listener that is given only as HOST:PORT.
DEFAULT_NAME: Final = "PLAINTEXT"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class Protocol(Enum):
    """How a listener's connections are protected, and how its clients authenticate."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on; port 0 picks a free port. Clients use it unless an advertised address is given."""

    name: str = DEFAULT_NAME
    protocol: Protocol = Protocol.PLAINTEXT
    host: str = "127.0.0.1"
    port: int = 0
    advertised: tuple[str, int] | None = None

    def endpoint(self, port: int) -> tuple[str, int]:
        """Return the (host, port) that clients receive if the listener uses `port`."""
        return self.advertised or (self.host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def is_everywhere(self) -> bool:
        """Whether the host means all addresses of the machine, in any spelling: 0.0.0.0, 0, ::, 0::0."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return not self.host.strip("0.")

    def __str__(self) -> str:
        return f"{self.name}://{join_address(self.host, self.port)}"


def parse_listeners(
    listeners: str, advertised: str | None = None, protocols: str = ""
) -> tuple[Listener, ...]:
    """Return the listeners that the three settings describe. A bare HOST:PORT is PLAINTEXT. Raises UserError."""
    by_name = _protocol_map(protocols)
    found: dict[str, Listener] = {}
    for text in listeners.split(","):
        name, host, port = _entry(text)
        if name in found:
            raise UserError(f"two listeners are called {name}: give each listener a different name")
        found[name] = Listener(name, _protocol_of(name, by_name), host, port)
    for text in (advertised or "").split(",") if advertised else ():
        name, host, port = _entry(text)
        if "://" not in text and len(found) == 1:
            (name,) = found
        if name not in found:
            raise UserError(
                f"advertised.listeners names {name}, which is not a listener; the listeners are "
                f"{', '.join(found)}"
            )
        found[name] = replace(found[name], advertised=(host, port))
    for listener in found.values():
        if listener.is_everywhere and listener.advertised is None:
            raise UserError(
                f"clients cannot connect to {listener.host}: specify an address that they can "
                "reach with --advertise "
                + ("HOST:PORT" if len(found) == 1 else f"{listener.name}://HOST:PORT")
            )
    return tuple(found.values())


def _entry(text: str) -> tuple[str, str, int]:
    name, separator, address = text.strip().rpartition("://")
    if separator and not _NAME.fullmatch(name):
        raise UserError(f"{text.strip()!r} is not a listener: use the form NAME://HOST:PORT")
    return (name.upper() if separator else DEFAULT_NAME, *parse_address(address))


def _protocol_map(text: str) -> Mapping[str, str]:
    found = {}
    for entry in text.split(",") if text.strip() else ():
        name, _, protocol = entry.strip().partition(":")
        found[name.upper()] = protocol.upper()
    return found


def _protocol_of(name: str, by_name: Mapping[str, str]) -> Protocol:
    wanted = by_name.get(name, name)
    try:
        return Protocol(wanted)
    except ValueError:
        raise UserError(
            f"the listener {name} has no security protocol: use one of PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL "
            f"as its name, or set listener.security.protocol.map to {name}:PROTOCOL"
        ) from None
