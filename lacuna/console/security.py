"""Prevents other sites and other machines from using the console through a visitor's browser.

Any site can make a browser send requests to the console. It cannot read the responses unless its own name resolves to
the console's address (DNS rebinding), so the Host header must be one of the console's names or an IP address, which
cannot be rebound. A request that changes something must come from one of the console's own pages. Either of two things
proves this: the Origin header, which browsers set and pages cannot forge, or a token that only these pages contain.
"""

import hmac
import secrets
from collections.abc import Collection
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lacuna.console.limits import QUERY_CHARACTERS

CONTENT_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "img-src 'self' data:",
        "script-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE: Final = frozenset({"GET", "HEAD"})
COOKIE: Final = "lacuna_console"


class Guard:
    """Middleware that rejects requests from other sites, and adds security headers to each response."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        """`names` are the console's host names in lower case."""
        self._app = app
        self._names = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refusal(scope, Headers(scope=scope))
        await (refused or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> PlainTextResponse | None:
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._knows(host):
            return _no(
                421,
                "this host name is not one of the console's: use its address, "
                "or start the console with --console-hosts NAME",
            )
        if len(scope["query_string"]) > QUERY_CHARACTERS:
            return _no(414, "the query string is too long: shorten it")
        if scope["method"] in _SAFE:
            return None
        if scope["method"] != "POST":
            return _no(405, "only GET and POST are supported")
        origin = urlsplit(headers.get("origin", ""))
        is_own = origin.scheme in ("http", "https") and origin.netloc.lower() == host.lower()
        if not is_own or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _no(403, "this request does not come from one of the console's pages")
        return None

    def _knows(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


class Tokens:
    """Tokens for forms, each bound to a browser's cookie and to the form's action."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def browser_of(self, headers: Headers) -> str:
        """Return the browser's cookie, or a new one if it has none."""
        try:
            sent = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            sent = None
        return sent.value if sent is not None and len(sent.value) == 32 else secrets.token_hex(16)

    def token(self, browser: str, action: str) -> str:
        """Return the token for a form with this `action`."""
        return hmac.new(self._key, f"{browser} {action}".encode(), sha256).hexdigest()

    def is_right(self, browser: str, action: str, token: str) -> bool:
        """Whether `token` is valid for this browser and action."""
        return hmac.compare_digest(
            self.token(browser, action).encode(), token.encode("utf-8", "replace")
        )


def _no(code: int, reason: str) -> PlainTextResponse:
    return PlainTextResponse(f"{reason}\n", code)
