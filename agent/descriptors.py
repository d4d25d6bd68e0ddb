"""How many connections a process has file descriptors for."""

try:
    import resource
except ImportError:  # there is no such limit on this system
    resource = None  # type: ignore[assignment]

#: For the journal, objects, the control plane and listeners: clients never take what those need.
_RESERVED = 256
_MOST = 1 << 20


def raise_limit() -> None:
    """As many open files as the system lets this process have; the usual soft limit is 1024."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def room_for_connections() -> int:
    """Descriptors beyond those that are kept for the agent itself, at least half of all."""
    if resource is None:
        return _MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(soft - _RESERVED, soft // 2)
