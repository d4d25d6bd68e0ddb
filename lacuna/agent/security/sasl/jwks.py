"""The public keys of an issuer of JWTs: a JWK set (RFC 7517) in a file or behind a URL, which is reread periodically.

An unknown key id makes the agent reread the set, since the issuer may have begun to use a new key. Such reads are at
least ten seconds apart, so that clients with invented key ids cannot overload the issuer. A set that is due to be
reread, or whose file has changed, is reread before its keys are used, so a removed key is no longer accepted. If the
set cannot be read, the known keys stay in use.
"""

import asyncio
import http.client
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener, url2pathname

from lacuna.agent.security.listeners import Listener
from lacuna.base.errors import UserError
from lacuna.base.stamp import Stamp, stamp_of

log = logging.getLogger("lacuna.agent")

_MOST_BYTES: Final = 1 << 20
_MOST_KEYS: Final = 1000
#: The timeout for connecting, and between two pieces of the answer.
_PIECE_SECONDS: Final = 5.0
_ALL_SECONDS: Final = 10.0
_SHORTEST_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 1.0
_PIECE_BYTES: Final = 1 << 16

#: The fields of a public key. The rest of a JWK, above all a private key, is dropped.
_PUBLIC: Final = ("kty", "crv", "n", "e", "x", "y", "alg", "kid")
_KINDS: Final = ("RSA", "EC", "OKP")

#: A public key in the format of RFC 7517.
Jwk = Mapping[str, str]


class Jwks:
    """The keys behind one URL."""

    def __init__(
        self, url: str, refresh_ms: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`url` is https, http or file; `now` returns seconds.

        Raises UserError for any other URL, or for a file that cannot be used.
        """
        self._url = url
        self._now = now
        self._refresh_seconds = refresh_ms / 1000
        self._keys: Sequence[Jwk] = ()
        self._due = self._next = self._looked_at = -math.inf
        #: Identifies a version of the file; None if there is no file.
        self._stamp: Stamp | None = None
        #: The current read.
        self.reading: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jwks")
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http", "file") or not (parts.netloc or parts.path):
            raise UserError(
                "sasl.oauthbearer.jwks.endpoint.url must be a URL that begins with https://, http:// or file://"
            )
        #: The URL without parts that may be secret.
        self.name = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        #: Whether the keys come over a network without TLS.
        self.is_plain = (
            parts.scheme == "http" and not Listener(host=parts.hostname or "").is_loopback
        )
        self._file = Path(url2pathname(parts.path)) if parts.scheme == "file" else None
        if self._file is not None:
            self._stamp = _stamp(self._file)
            try:
                self._keys = read_jwks(_read(url))
            except (OSError, ValueError) as error:
                raise UserError(f"the JWK set {self.name} cannot be used: {error}") from error
            self._due = now() + self._refresh_seconds

    async def find(self, kid: str | None) -> Sequence[Jwk]:
        """Return the keys with this id, or all keys if it is None. Rereads the set if it is due or no key matches."""
        now = self._now()
        if self._has_changed(now):
            self._due = self._next = now
        if not self._keys or now >= self._due:
            await self._read_again(now)
        found = self._known(kid)
        if not found:
            await self._read_again(now)
            found = self._known(kid)
        return found

    def _has_changed(self, now: float) -> bool:
        """Return whether the set's file has changed since it was last read. Checks at most once a second."""
        if self._file is None or self.reading is not None or now < self._looked_at + _LOOK_SECONDS:
            return False
        self._looked_at = now
        before, self._stamp = self._stamp, _stamp(self._file)
        return self._stamp != before

    def _known(self, kid: str | None) -> Sequence[Jwk]:
        return [each for each in self._keys if kid is None or each.get("kid") == kid]

    async def _read_again(self, now: float) -> None:
        self._begin(now)
        if self.reading is not None:
            # A client that leaves must not end a read that others wait for.
            await asyncio.wait((self.reading,), timeout=_ALL_SECONDS if self._keys else None)

    def _begin(self, now: float) -> None:
        """Start reading the set, unless it is being read or was read a moment ago."""
        if self.reading is None and now >= self._next:
            self._next = now + _SHORTEST_SECONDS
            self.reading = asyncio.get_running_loop().create_task(self._read_set(), name="jwks")

    async def _read_set(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            keys = read_jwks(await loop.run_in_executor(self._thread, _read, self._url))
        except (OSError, ValueError, http.client.HTTPException) as error:
            log.warning(
                "the JWK set %s cannot be read, so the known keys (%d) stay in use: %s",
                self.name,
                len(self._keys),
                error,
            )
            self._due = self._now() + _SHORTEST_SECONDS
        else:
            self._keys = keys
            self._due = self._now() + self._refresh_seconds
        finally:
            self.reading = None


def _stamp(file: Path) -> Stamp | None:
    try:
        return stamp_of(file)
    except OSError:
        return None


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirects: an issuer's keys come only from the configured URL."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _read(url: str) -> bytes:
    """Return the content behind a URL. Raises OSError, ValueError or HTTPException."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(url2pathname(parts.path)).open("rb") as file:
            return _bounded(file)
    request = Request(url, headers={"Accept": "application/json"})  # noqa: S310 - its schemes are checked where it is set
    with build_opener(_NoRedirects).open(request, timeout=_PIECE_SECONDS) as answer:
        return _bounded(answer)


def _bounded(file: "IO[bytes] | http.client.HTTPResponse") -> bytes:
    end = time.monotonic() + _ALL_SECONDS
    content = bytearray()
    while piece := file.read1(_PIECE_BYTES):  # type: ignore[union-attr]  # files that are open in binary mode have it
        content += piece
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")
        if time.monotonic() > end:
            raise TimeoutError(f"it did not arrive within {_ALL_SECONDS:g} seconds")
    return bytes(content)


def read_jwks(content: bytes) -> Sequence[Jwk]:
    """Return the keys of a JWK set that can verify signatures, without secrets. Raises ValueError."""
    try:
        found = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise ValueError("it is not a JWK set, because it has no `keys` list")
    usable = [
        {name: each[name] for name in _PUBLIC if isinstance(each.get(name), str)}
        for each in keys[:_MOST_KEYS]
        if isinstance(each, dict) and each.get("kty") in _KINDS and each.get("use", "sig") == "sig"
    ]
    if not usable:
        raise ValueError("it has no key of type RSA, EC or OKP that can verify signatures")
    return usable
