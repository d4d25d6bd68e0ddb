"""Parses and formats HOST:PORT addresses."""

from ipaddress import ip_address
from typing import Final

from lacuna.base.errors import UserError

#: The default port of agents, which is also the default port of Kafka's brokers.
KAFKA_PORT: Final = 9092


def parse_addresses(bootstrap: str, default_port: int | None = None) -> list[tuple[str, int]]:
    """Return the (host, port) pairs in `HOST:PORT[,HOST:PORT…]`. With a default port, ports are optional. Raises
    UserError if the text is malformed.
    """
    addresses = []
    for entry in bootstrap.split(","):
        text = entry.strip()
        if default_port is not None and text and (":" not in text or text.endswith("]")):
            text = f"{text}:{default_port}"
        host, colon, port = text.rpartition(":")
        host = host.strip("[]")
        if (
            not colon
            or not host
            or not (port.isascii() and port.isdecimal())
            or not 0 <= int(port) <= 65535
        ):
            raise UserError(
                f"{entry.strip()!r} is not an address: use HOST:PORT, for example 127.0.0.1:9092"
            )
        addresses.append((host, int(port)))
    return addresses


def join_address(host: str, port: int) -> str:
    """Return HOST:PORT, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and port in HOST:PORT. Raises UserError if the text is malformed or lists several addresses."""
    addresses = parse_addresses(text)
    if len(addresses) != 1:
        raise UserError(
            f"{text!r} lists several addresses, but only one is allowed: specify a single HOST:PORT"
        )
    return addresses[0]


def is_loopback(host: str) -> bool:
    """Whether a host can be reached only from this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
