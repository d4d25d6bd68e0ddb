"""Ports for servers that stop, and later start again on the same port."""

import random
import socket
import sys
from collections import deque
from pathlib import Path
from typing import Final

_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_EPHEMERAL: Final = 32768
_SPAN: Final = 8000
_MOST_HELD: Final = 64
#: Sockets bound to the most recently found ports, but not listening. A server can still take such a port, but a process
#: that looks for a free port cannot.
_held: Final[deque[socket.socket]] = deque()


def lasting_ports(count: int) -> list[int]:
    """Return free ports on 127.0.0.1 that neither the system nor this function assigns again while their servers are
    down.

    The ports are below the range from which the system picks ports for outgoing connections. Otherwise, a client that
    reconnects to a stopped server could be assigned the server's own port: it would connect to itself, and the server
    could no longer start.
    """
    try:
        above = int(_RANGE.read_text().split()[0])
    except OSError:  # this is not Linux
        above = _FIRST_EPHEMERAL
    chance = random.SystemRandom()
    ports: list[int] = []
    while len(ports) < count:
        port = chance.randrange(max(1024, above - _SPAN), above)
        if _hold(port):
            ports.append(port)
    return ports


def _hold(port: int) -> bool:
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        return False
    if sys.platform != "linux":  # elsewhere, a server could not bind to a held port
        held.close()
        return True
    # From now on, a server that sets this option can bind to the port.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _held.append(held)
    if len(_held) > _MOST_HELD:
        _held.popleft().close()
    return True
