"""Current logins, by cookie value, and a limit on password guessing."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from starlette.requests import Request

from lacuna.base.sasl import Credentials

COOKIE: Final = "lacuna_login"
LOGIN_SECONDS: Final = 8 * 3600.0
_MOST: Final = 1000
#: The maximum number of hosts and users whose failures are counted.
_MOST_COUNTED: Final = 4096
#: The number of failures before a user on a host, or a whole host, has to wait. Each further wait is twice as long, up
#: to a maximum. A host has a higher limit, since all browsers behind a proxy count as one host.
_FREE_OF_USER: Final = 3
_FREE_OF_HOST: Final = 30
_LONGEST_PAUSE: Final = 60.0
_FORGET_SECONDS: Final = 600.0
_MOST_CHARACTERS: Final = 256

#: A host and one of its users, or None for all users of the host.
_Key = tuple[str, str | None]


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0
    wait_until: float = 0.0


class Brake:
    """Counts login attempts. Each counts as failed until it succeeds, so concurrent ones cannot evade the limit."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._failures: OrderedDict[_Key, _Failures] = OrderedDict()

    def wait(self, host: str, user: str) -> float:
        """Return how many seconds a user must wait before the next attempt from this host."""
        now = self._seconds()
        known = (self._failures.get(key) for key in _keys(host, user))
        return max([0.0, *(each.wait_until - now for each in known if each is not None)])

    def begin(self, host: str, user: str) -> None:
        now = self._seconds()
        for key in _keys(host, user):
            failures = self._failures.setdefault(key, _Failures())
            self._failures.move_to_end(key)
            if len(self._failures) > _MOST_COUNTED:
                self._failures.popitem(last=False)
            if now - failures.last > _FORGET_SECONDS:
                failures.count = 0
            failures.count += 1
            failures.last = now
            over = failures.count - (_FREE_OF_HOST if key[1] is None else _FREE_OF_USER)
            if over > 0:
                failures.wait_until = now + min(_LONGEST_PAUSE, 2.0 ** min(over, 10))

    def take_back(self, host: str, user: str) -> None:
        """Remove an attempt that no agent answered."""
        for key in _keys(host, user):
            failures = self._failures.get(key)
            if failures is not None:
                failures.count -= 1
                failures.wait_until = 0.0

    def succeeded(self, host: str, user: str) -> None:
        """Remove the user's attempts. Those of other users on the same host still count."""
        self.take_back(host, user)
        self._failures.pop(_keys(host, user)[0], None)


def _keys(host: str, user: str) -> tuple[_Key, _Key]:
    network = _network(host)
    return (network, user[:_MOST_CHARACTERS]), (network, None)


def _network(host: str) -> str:
    """Return the part of an address that identifies a client: all of an IPv4 address, 64 bits of an IPv6 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(ip_network((address, 64), strict=False))
    return str(address)


@dataclass(frozen=True, slots=True, repr=False)
class Login:
    """A user's login: when it ends (loop time), and the credentials for the user's connections."""

    user: str
    credentials: Credentials
    ends: float


class Logins:
    """All logins. Beyond a limit, the oldest login ends."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._logins: OrderedDict[str, Login] = OrderedDict()
        self.brake = Brake(seconds)

    def find(self, request: Request) -> Login | None:
        """Return the login that the request's cookie identifies."""
        key = request.cookies.get(COOKIE, "")
        login = self._logins.get(key)
        if login is not None and self._seconds() >= login.ends:
            del self._logins[key]
            return None
        return login

    def users(self) -> list[str]:
        """Return the user of each current login."""
        now = self._seconds()
        return [each.user for each in self._logins.values() if now < each.ends]

    def add(self, user: str, credentials: Credentials) -> str:
        """Log a user in, and return the value for the cookie."""
        for ended in [
            each for each, login in self._logins.items() if self._seconds() >= login.ends
        ]:
            del self._logins[ended]
        key = secrets.token_hex(32)
        self._logins[key] = Login(user, credentials, self._seconds() + LOGIN_SECONDS)
        if len(self._logins) > _MOST:
            self._logins.popitem(last=False)
        return key

    def end(self, request: Request) -> None:
        """End the login that the request's cookie identifies."""
        self._logins.pop(request.cookies.get(COOKIE, ""), None)
