"""What is made of TLS files, and made anew when they change; and whom a certificate names."""

import logging
import os
import re
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from lacuna.errors import UserError

log = logging.getLogger("lacuna")

T = TypeVar("T")

_LOOK_SECONDS: Final = 1.0
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)
#: What tells one content of the files from another: the modification time in ns, the size and the inode of each.
_Stamp = tuple[tuple[int, int, int], ...]
#: Attributes of a name, as RFC 4514 shortens them.
_SHORT: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


class Watched(Generic[T]):
    """What `make` makes of files. Files that cannot be used leave the earlier one in use, and the log says so."""

    def __init__(self, files: Sequence[str], make: Callable[[], T]) -> None:
        """Raises UserError, as `make` does."""
        self._files = files
        self._make = make
        self._stamp = self._look()
        self._looked_at = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tls")
        #: The last look at the files, which may be under way.
        self.look: Future[None] | None = None
        self._made = make()

    def get(self, now: float) -> T:
        """Return it, as of `now` (loop time, seconds).

        Looks at the files once a second at most, in a thread: a password may come from a command, which takes its time.
        """
        if now >= self._looked_at + _LOOK_SECONDS and (self.look is None or self.look.done()):
            self.look_now(now)
        return self._made

    def look_now(self, now: float) -> "Future[None]":
        """Look at the files, in a thread; return a future that is done once changes are in use."""
        self._looked_at = now
        self.look = self._thread.submit(self._reload)
        return self.look

    def _reload(self) -> None:
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self._made = self._make()
        except UserError as error:
            log.error(
                "TLS files have changed and cannot be used, so the earlier ones stay in use: %s",
                error,
            )
        else:
            log.info("TLS files have changed: new connections use them")

    def _look(self) -> _Stamp:
        stamps = []
        for path in self._files:
            try:
                found = os.stat(path)
            except OSError as error:
                raise UserError(f"the TLS file {path} cannot be read: {error.strerror}") from error
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return tuple(stamps)


def trust_authorities(context: ssl.SSLContext, path: str, key: str) -> None:
    """Have a context accept certificates that the authorities in a PEM file signed. Raises UserError, with the key."""
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"{key}: {path} cannot be used: {error}") from error


def trust_alone(context: ssl.SSLContext, certificates: Iterable[str]) -> None:
    """Have a context accept these certificates (PEM), whoever signed them, and no other."""
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    for certificate in certificates:
        context.load_verify_locations(cadata=certificate)


def first_certificate(path: str) -> str:
    """Return the first certificate in a PEM file, which is that of who presents it. Raises UserError."""
    try:
        found = _CERTIFICATE.search(Path(path).read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the TLS file {path} cannot be read: {error}") from error
    if found is None:
        raise UserError(f"the TLS file {path} has no certificate in PEM")
    return found[0]


def subject_of(certificate: Mapping[str, Any]) -> str:
    """Return whom a certificate is for (RFC 4514), from what `getpeercert` returns of it."""
    parts = []
    for attributes in reversed(certificate.get("subject", ())):
        named = (f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in attributes)
        parts.append("+".join(named))
    return ",".join(parts)


def _escaped(value: str) -> str:
    text = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    text = re.sub(r"^([ #])", r"\\\1", text)
    return re.sub(r"(?<!\\) $", r"\\ ", text)
