"""HOST:PORT as people write it."""

from lacuna.errors import UserError


def parse_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Reads `HOST:PORT[,HOST:PORT…]`; raises UserError with a hint where it does not fit."""
    addresses = []
    for entry in bootstrap.split(","):
        host, colon, port = entry.strip().rpartition(":")
        host = host.strip("[]")
        if (
            not colon
            or not host
            or not (port.isascii() and port.isdecimal())
            or not 0 <= int(port) <= 65535
        ):
            raise UserError(f"{entry.strip()!r} is not HOST:PORT, for example 127.0.0.1:9092")
        addresses.append((host, int(port)))
    return addresses


def join_address(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 address in brackets: clients take the bare one for a host's name."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """The same for one address."""
    addresses = parse_addresses(text)
    if len(addresses) != 1:
        raise UserError(f"{text!r} names several addresses: give one HOST:PORT")
    return addresses[0]
