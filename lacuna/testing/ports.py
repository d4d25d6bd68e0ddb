"""Ports for servers that go down and come back."""

import random
import socket
from pathlib import Path
from typing import Final

_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_EPHEMERAL: Final = 32768
_SPAN: Final = 8000


def lasting_ports(count: int) -> list[int]:
    """Free ports of 127.0.0.1 that the system does not hand out while their servers are down.

    They lie below the range from which the system picks ports for outgoing connections. A client that reconnects
    could otherwise be given the very port that it tries to reach: it would be connected to itself, and the server
    would find its port taken.
    """
    try:
        above = int(_RANGE.read_text().split()[0])
    except OSError:  # not Linux
        above = _FIRST_EPHEMERAL
    chance = random.SystemRandom()
    found: list[int] = []
    while len(found) < count:
        port = chance.randrange(max(1024, above - _SPAN), above)
        if port not in found and _is_free(port):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
