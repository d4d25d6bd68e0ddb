"""Makes the guessing of passwords slow: for each user from each host, and for each host."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

_MOST: Final = 4096
#: After so many failures one has to wait, each time twice as long, up to the longest pause: for one user, and for all
#: users of a host, since behind a proxy all browsers are one host.
_FREE_OF_USER: Final = 3
_FREE_OF_HOST: Final = 30
_LONGEST_PAUSE: Final = 60.0
_FORGET_SECONDS: Final = 600.0
_MOST_CHARACTERS: Final = 256

#: A host, and one of the users there, or None for all.
_Key = tuple[str, str | None]


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0
    wait_until: float = 0.0


class Brake:
    """Counts attempts. One counts as failed until it is known to be right, so that many at a time are no way past."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._failures: OrderedDict[_Key, _Failures] = OrderedDict()

    def wait(self, host: str, user: str) -> float:
        """Return for how many seconds nobody may try to log in as a user from a host."""
        now = self._seconds()
        found = (self._failures.get(key) for key in _keys(host, user))
        return max([0.0, *(each.wait_until - now for each in found if each is not None)])

    def begin(self, host: str, user: str) -> None:
        """Count an attempt."""
        now = self._seconds()
        for key in _keys(host, user):
            found = self._failures.setdefault(key, _Failures())
            self._failures.move_to_end(key)
            if len(self._failures) > _MOST:
                self._failures.popitem(last=False)
            if now - found.last > _FORGET_SECONDS:
                found.count = 0
            found.count += 1
            found.last = now
            over = found.count - (_FREE_OF_HOST if key[1] is None else _FREE_OF_USER)
            if over > 0:
                found.wait_until = now + min(_LONGEST_PAUSE, 2.0 ** min(over, 10))

    def take_back(self, host: str, user: str) -> None:
        """Forget an attempt that nobody has answered."""
        for key in _keys(host, user):
            found = self._failures.get(key)
            if found is not None:
                found.count -= 1
                found.wait_until = 0.0

    def succeeded(self, host: str, user: str) -> None:
        """Note that a user has logged in: that says nothing of other users from the same host."""
        self.take_back(host, user)
        self._failures.pop(_keys(host, user)[0], None)


def _keys(host: str, user: str) -> tuple[_Key, _Key]:
    network = _network(host)
    return (network, user[:_MOST_CHARACTERS]), (network, None)


def _network(host: str) -> str:
    """Return what one may take an address from: one of IPv4, 64 bits of IPv6."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(ip_network((address, 64), strict=False))
    return str(address)
