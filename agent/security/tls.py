"""TLS of an agent's listeners: contexts made from files, and made anew when these change.

A connection keeps the context that it began with. Files that cannot be read leave the earlier context in use, and the
log says so; only at the start are they an error.
"""

import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lacuna.agent.security.settings import SecuritySettings
from lacuna.errors import UserError
from lacuna.secret import read_secret

log = logging.getLogger("lacuna.agent")

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_LOOK_SECONDS: Final = 1.0

#: What tells one content of the files from another: the modification time in ns, the size and the inode of each.
_Stamp = tuple[tuple[int, int, int], ...]


class Tls:
    """The TLS of listeners. `context(wants_certificate, now)` is the one for the next connection."""

    def __init__(self, settings: SecuritySettings) -> None:
        """Raises UserError for files or values that cannot be used."""
        self._settings = settings
        self._files = _files_of(settings)
        self._stamp = self._look()
        self._looked_at = 0.0
        self._contexts = self._make()

    def context(self, now: float, *, with_sasl: bool = False) -> ssl.SSLContext:
        """Return the context for a connection that begins at `now` (loop time, seconds).

        Clients of listeners with SASL are not asked for a certificate. Looks at the files once a second at most."""
        if now >= self._looked_at + _LOOK_SECONDS:
            self._looked_at = now
            self._reload()
        return self._contexts[with_sasl]

    def client_context(self) -> ssl.SSLContext:
        """Return the context with which this agent connects to others: its own certificate, its own authorities.

        Agents know each other by the authority: their certificates need not name the addresses at which they listen.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        self._trust(context)
        certificate, key = self._pairs()[0]
        _load(context, certificate, key, self._settings)
        return context

    def _reload(self) -> None:
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self._contexts = self._make()
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

    def _make(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Return the contexts of listeners without and with SASL."""
        return self._context(self._settings.client_auth), self._context("none")

    def _context(self, client_auth: str) -> ssl.SSLContext:
        if self._settings.keystore:
            return self._one(client_auth, self._settings.keystore, "")
        contexts = [self._one(client_auth, *pair) for pair in self._pairs()]
        if len(contexts) > 1:
            names = [_names(Path(certificate)) for certificate, _ in self._pairs()]
            contexts[0].sni_callback = _chooser(contexts, names)
        return contexts[0]

    def _pairs(self) -> Sequence[tuple[str, str]]:
        settings = self._settings
        if settings.keystore:
            return [(settings.keystore, "")]
        certificates, keys = _listed(settings.certificate), _listed(settings.key)
        if len(certificates) != len(keys):
            raise UserError(
                f"ssl.certificate.location names {len(certificates)} files and ssl.key.location {len(keys)}: "
                "name a key for each certificate"
            )
        return list(zip(certificates, keys, strict=True))

    def _one(self, client_auth: str, certificate: str, key: str) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        _limit_versions(context, settings.tls_versions)
        if settings.cipher_suites:
            try:
                context.set_ciphers(settings.cipher_suites)
            except ssl.SSLError as error:
                raise UserError(
                    f"ssl.cipher.suites names no suite that OpenSSL has: {settings.cipher_suites}"
                ) from error
        _load(context, certificate, key, settings)
        context.verify_mode = _CLIENT_AUTH[client_auth]
        if client_auth != "none":
            self._trust(context)
        return context

    def _trust(self, context: ssl.SSLContext) -> None:
        path = self._settings.authorities
        if not path:
            raise UserError(
                "certificates of others are to be checked, and no authority is known: name its PEM file with --tls-ca"
            )
        try:
            context.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise UserError(f"ssl.ca.location: {path} cannot be used: {error}") from error


def _files_of(settings: SecuritySettings) -> Sequence[str]:
    named = [*_listed(settings.certificate), *_listed(settings.key)]
    return [*named, *(each for each in (settings.keystore, settings.authorities) if each)]


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _limit_versions(context: ssl.SSLContext, names: str) -> None:
    unknown = set(_listed(names)) - set(_VERSIONS)
    if unknown or not _listed(names):
        raise UserError(
            f"ssl.enabled.protocols is {names!r}: choose TLSv1.2, TLSv1.3 or both, with a comma between"
        )
    chosen = sorted(_VERSIONS[each] for each in _listed(names))
    context.minimum_version, context.maximum_version = chosen[0], chosen[-1]


def _load(context: ssl.SSLContext, certificate: str, key: str, settings: SecuritySettings) -> None:
    if settings.keystore:
        _load_keystore(context, settings)
        return
    password = _secret(settings.key_password, "ssl.key.password")
    try:
        # Without a password OpenSSL would ask for it on the terminal.
        context.load_cert_chain(certificate, key, lambda: password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise UserError(
            f"the certificate {certificate} and the key {key} cannot be used: {error}"
        ) from error


def _load_keystore(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    password = _secret(settings.keystore_password, "ssl.keystore.password")
    try:
        content = Path(settings.keystore).read_bytes()
        key, certificate, chain = pkcs12.load_key_and_certificates(content, password or None)
    except (OSError, ValueError) as error:
        raise UserError(f"the keystore {settings.keystore} cannot be used: {error}") from error
    if key is None or certificate is None:
        raise UserError(f"the keystore {settings.keystore} has no key with a certificate")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem += b"".join(each.public_bytes(Encoding.PEM) for each in (certificate, *chain))
    # The ssl module reads files only. This one is the owner's alone, and is gone at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)


def _secret(reference: str, setting: str) -> bytes:
    return read_secret(reference, setting) if reference else b""


def _names(certificate: Path) -> Sequence[str]:
    """Return the host names of the first certificate in a PEM file, in small letters."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return [name.lower() for name in names.get_values_for_type(x509.DNSName)]


def _chooser(
    contexts: Sequence[ssl.SSLContext], names: Sequence[Sequence[str]]
) -> Callable[[ssl.SSLObject, str, ssl.SSLContext], None]:
    by_name = {
        name: context
        for context, its_names in reversed(list(zip(contexts, names, strict=True)))
        for name in its_names
    }

    def choose(connection: ssl.SSLObject, name: str, _: ssl.SSLContext) -> None:
        wanted = (name or "").lower()  # None for a client that asks for no name
        wildcard = f"*.{wanted.partition('.')[2]}"
        found = by_name.get(wanted) or by_name.get(wildcard)
        if found is not None:
            connection.context = found

    return choose
