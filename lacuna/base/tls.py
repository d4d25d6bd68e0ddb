"""Loads objects from TLS files, reloads them when the files change, and reads the subjects of certificates."""

import logging
import re
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from lacuna.base.errors import UserError
from lacuna.base.stamp import Stamp, stamp_of

log = logging.getLogger("lacuna")

T = TypeVar("T")

_LOOK_SECONDS: Final = 1.0
#: The longest time that a caller waits for changed files to load: their password may come from a slow command.
_MOST_WAIT_SECONDS: Final = 0.5
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)
#: Attributes with a name in RFC 2253. Java, and therefore Kafka, writes all others as numbers.
_NAMES: Final[Mapping[str, str]] = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_VERSION: Final = 0xA0
#: UTF8String, PrintableString, T61String, IA5String, GeneralString and BMPString, which Java writes as text.
_TEXTS: Final = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
_MOST_OF_OBJECT_ID: Final = 64


class Watched(Generic[T]):
    """The result of `make`, recreated whenever the files that it reads have changed and can be used."""

    def __init__(self, files: Sequence[str], make: Callable[[], T]) -> None:
        """Raises UserError if the files cannot be used."""
        self._files = files
        self._make = make
        self._stamp = self._look()
        self._looked_at = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tls")
        #: The last check of the files, which may still be in progress.
        self.look: Future[None] | None = None
        self._made = make()

    def get(self, now: float) -> T:
        """Return a result that reflects the files at `now` (loop time, in seconds) or at most one second earlier.

        Blocks while changed files are loaded. If loading takes too long, returns the earlier result instead.
        """
        if now >= self._looked_at + _LOOK_SECONDS and (self.look is None or self.look.done()):
            with suppress(TimeoutError):
                self.look_now(now).result(_MOST_WAIT_SECONDS)
        return self._made

    def look_now(self, now: float) -> "Future[None]":
        """Check the files in a thread, and return a future that is done once any changes have taken effect."""
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
        except (UserError, OSError, ValueError) as error:
            log.error(
                "the new TLS files cannot be used, so the previous ones stay in use: %s",
                error,
            )
        else:
            log.info("the TLS files have changed: new connections use the new files")

    def _look(self) -> list[Stamp]:
        stamps = []
        for path in self._files:
            try:
                stamps.append(stamp_of(path))
            except OSError as error:
                raise UserError(f"the TLS file {path} cannot be read: {error.strerror}") from error
        return stamps


def trust_authorities(context: ssl.SSLContext, path: str, key: str) -> None:
    """Make a context trust the authorities in a PEM file. Raises UserError, which names `key`."""
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"{key}: {path} cannot be used: {error}") from error


def trust_alone(context: ssl.SSLContext, certificates: Iterable[str]) -> None:
    """Make a context trust only these certificates (PEM), regardless of who signed them."""
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    for certificate in certificates:
        context.load_verify_locations(cadata=certificate)


def first_certificate(path: str) -> str:
    """Return the first certificate in a PEM file, which is the owner's own. Raises UserError."""
    try:
        match = _CERTIFICATE.search(Path(path).read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the TLS file {path} cannot be read: {error}") from error
    if match is None:
        raise UserError(f"the TLS file {path} contains no certificate in PEM format")
    return match[0]


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) as Java writes it (RFC 2253), so that ACLs name the same principals as
    in Kafka. Raises ValueError if it cannot be read.
    """
    try:
        parts = [
            "+".join(map(_attribute, _elements(each, _SET)))
            for each in _elements(_subject(certificate), _SEQUENCE)
        ]
    except (ValueError, IndexError) as error:
        raise ValueError(f"the subject of the certificate cannot be read: {error}") from error
    return ",".join(reversed(parts))


def _subject(certificate: bytes) -> bytes:
    (whole,) = _elements(certificate)
    fields = _elements(_elements(whole, _SEQUENCE)[0], _SEQUENCE)
    # Before the subject come the version, which is optional, the serial number, the algorithm, the issuer and the
    # validity.
    return fields[5 if fields[0][0] == _VERSION else 4]


def _attribute(element: bytes) -> str:
    name, value = _elements(element, _SEQUENCE)
    kind = _object_id(name)
    if kind in _NAMES and value[0] in _TEXTS:
        return f"{_NAMES[kind]}={_escaped(_content(value).decode('utf-8'))}"
    return f"{_NAMES.get(kind, kind)}=#{value.hex()}"


def _object_id(element: bytes) -> str:
    content = _content(element, _OBJECT_ID)
    if not content or content[-1] & 0x80 or len(content) > _MOST_OF_OBJECT_ID:
        raise ValueError("the type of an attribute is not valid")
    numbers = [0]
    for byte in content:
        numbers[-1] = numbers[-1] << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(0)
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:-1])))


def _elements(data: bytes, tag: int | None = None) -> list[bytes]:
    """Return the DER elements in `data` or, with `tag`, those inside an element with that tag."""
    if tag is not None:
        data = _content(data, tag)
    elements = []
    while data:
        _, end = _bounds(data)
        elements.append(data[:end])
        data = data[end:]
    return elements


def _content(element: bytes, tag: int | None = None) -> bytes:
    if tag is not None and element[0] != tag:
        raise ValueError(f"an element has the tag {element[0]}, not {tag}")
    return element[_bounds(element)[0] :]


def _bounds(data: bytes) -> tuple[int, int]:
    """Return where the content of the first element starts and ends."""
    if len(data) < 2 or data[0] & 0x1F == 0x1F:
        raise ValueError("an element does not begin with a one-byte tag and a length")
    begin, length = 2, data[1]
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(data[2:begin], "big") if 2 < begin <= 6 else len(data)
    if begin + length > len(data):
        raise ValueError("an element has no valid length")
    return begin, begin + length


def _escaped(value: str) -> str:
    text = re.sub(r'([,=+<>#;"\\])', r"\\\1", value).replace("\0", r"\00")
    begin, end = len(text) - len(text.lstrip(" \r")), len(text.rstrip(" \r"))
    # Java escapes spaces and carriage returns at both ends.
    return "".join(each if begin <= place < end else f"\\{each}" for place, each in enumerate(text))
