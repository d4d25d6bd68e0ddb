"""Opens the console's listening socket. Does not import the console's libraries."""

import os
import socket
from typing import Final

from lacuna.base.addresses import parse_address
from lacuna.base.errors import ListenError, advice_on

_BACKLOG: Final = 64


def listen(address: str, option: str) -> socket.socket:
    """Listen on HOST:PORT. Raises UserError if it is malformed, and ListenError, which names `option`, if it is
    unusable.
    """
    host, port = parse_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = None
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        if listener is not None:
            listener.close()
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        advice = advice_on(error, f"choose another address with {option}")
        raise ListenError(f"the console cannot listen on {address}: {reason}; {advice}") from error
    return listener
