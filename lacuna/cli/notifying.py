"""Reports the state of a service to systemd (Type=notify): sd_notify(3) without libsystemd."""

import os
import socket

SERVING = "READY=1"
STOPPING = "STOPPING=1"


#: The variable that names the service manager's socket.
SOCKET = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Sends `state` to the service manager that started this process, if there is one."""
    path = os.environ.get(SOCKET)
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
        manager.sendto(state.encode(), address)
