"""How many connections the process's file descriptors allow."""

try:
    import resource
except ImportError:  # there is no such limit on this system
    resource = None  # type: ignore[assignment]

#: The descriptors reserved for the journal, objects, the control plane and listeners, so that client connections cannot
#: use them up.
_RESERVED = 256
_MOST = 1 << 20


def raise_limit() -> None:
    """Raise the soft limit on open files (usually 1024) to the hard limit, but not beyond 2^20."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def room_for_connections() -> int:
    """Return how many connections may be open: the limit on open files minus 256, but at least half of that limit."""
    if resource is None:
        return _MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(soft - _RESERVED, soft // 2)
