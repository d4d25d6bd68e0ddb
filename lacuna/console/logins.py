"""The users that have logged in, each under the value of a cookie."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from lacuna.base.sasl import Credentials
from lacuna.console.brake import Brake

COOKIE: Final = "lacuna_login"
LOGIN_SECONDS: Final = 8 * 3600.0
_MOST: Final = 1000


@dataclass(frozen=True, slots=True, repr=False)
class Login:
    """A user that has logged in, the end of the login (loop time), and the credentials of its connections."""

    user: str
    credentials: Credentials
    ends: float


class Logins:
    """All logins. If there are too many, the oldest ends."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._logins: OrderedDict[str, Login] = OrderedDict()
        self.brake = Brake(seconds)

    def find(self, request: Request) -> Login | None:
        """Return the login of the user that sends a request."""
        key = request.cookies.get(COOKIE, "")
        login = self._logins.get(key)
        if login is not None and self._seconds() >= login.ends:
            del self._logins[key]
            return None
        return login

    def add(self, user: str, credentials: Credentials) -> str:
        """Return the cookie's value for a user that has logged in."""
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
        """End the login of the user that sends a request."""
        self._logins.pop(request.cookies.get(COOKIE, ""), None)
