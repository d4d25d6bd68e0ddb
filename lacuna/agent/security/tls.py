"""TLS contexts for an agent's listeners and for its connections to other agents, created from files.

A connection keeps the context with which it began.
"""

import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from lacuna.agent.security.settings import SecuritySettings, listed
from lacuna.base.errors import UserError, needing_extra
from lacuna.base.secret import read_secret
from lacuna.base.tls import Watched, first_certificate, trust_alone, trust_authorities

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class _Contexts(NamedTuple):
    """The contexts of listeners without and with SASL, and of connections to other agents."""

    without_sasl: ssl.SSLContext
    with_sasl: ssl.SSLContext
    to_peers: ssl.SSLContext


class Tls:
    """The contexts of one agent. `now` is always the start of the connection, in loop time (seconds)."""

    def __init__(self, settings: SecuritySettings) -> None:
        """Raises UserError for files or values that cannot be used."""
        self._settings = settings
        self.watched = Watched(_files_of(settings), self._make)

    def context(self, now: float, *, with_sasl: bool = False) -> ssl.SSLContext:
        """Return the context of a listener. Clients of listeners with SASL need no certificate."""
        contexts = self.watched.get(now)
        return contexts.with_sasl if with_sasl else contexts.without_sasl

    def client_context(self, now: float) -> ssl.SSLContext:
        """Return the context for this agent's connections to others."""
        return self.watched.get(now).to_peers

    def _make(self) -> _Contexts:
        return _Contexts(
            self._context(self._settings.client_auth), self._context("none"), self._to_peers()
        )

    def _to_peers(self) -> ssl.SSLContext:
        """Return a context with this agent's own certificate and authorities.

        Agents trust every certificate that the authority has signed, so their certificates need not name the addresses
        at which they listen. Without an authority, each agent accepts only its own certificate, which all agents may
        share.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        certificate, key = self._pairs()[0]
        own = _load(context, certificate, key, self._settings)
        if self._settings.authorities:
            trust_authorities(context, self._settings.authorities, "ssl.ca.location")
        else:
            trust_alone(context, [own])
        return context

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
        certificates, keys = listed(settings.certificate), listed(settings.key)
        if len(certificates) != len(keys):
            raise UserError(
                f"ssl.certificate.location names {len(certificates)} files, but ssl.key.location "
                f"names {len(keys)}: specify one key for each certificate"
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
                    "ssl.cipher.suites names no suite that OpenSSL supports: "
                    f"{settings.cipher_suites}"
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
                "the certificates of clients must be verified, but no authority is known: "
                "specify an authority's PEM file with --tls-ca"
            )
        trust_authorities(context, path, "ssl.ca.location")


def _files_of(settings: SecuritySettings) -> Sequence[str]:
    named = [*listed(settings.certificate), *listed(settings.key)]
    return [*named, *(each for each in (settings.keystore, settings.authorities) if each)]


def _limit_versions(context: ssl.SSLContext, names: str) -> None:
    unknown = set(listed(names)) - set(_VERSIONS)
    if unknown or not listed(names):
        raise UserError(
            f"ssl.enabled.protocols is {names!r}; choose TLSv1.2, TLSv1.3 or both, separated by a "
            "comma"
        )
    chosen = sorted(_VERSIONS[each] for each in listed(names))
    context.minimum_version, context.maximum_version = chosen[0], chosen[-1]


def _load(context: ssl.SSLContext, certificate: str, key: str, settings: SecuritySettings) -> str:
    """Configure a context to present a certificate, and return the certificate (PEM) without its chain."""
    if settings.keystore:
        return _load_keystore(context, settings)
    password = _secret(settings.key_password, "ssl.key.password")
    try:
        # Without a password, OpenSSL would prompt for it on the terminal.
        context.load_cert_chain(certificate, key, lambda: password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise UserError(
            f"the certificate {certificate} and the key {key} cannot be used: {error}"
        ) from error
    return first_certificate(certificate)


def _load_keystore(context: ssl.SSLContext, settings: SecuritySettings) -> str:
    with needing_extra("ssl.keystore.location", "security"):
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
    # The ssl module reads only files. This one is readable only by the owner, and is deleted immediately.
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError as error:
            raise UserError(f"the keystore {settings.keystore} cannot be used: {error}") from error
    return certificate.public_bytes(Encoding.PEM).decode()


def _secret(reference: str, setting: str) -> bytes:
    return read_secret(reference, setting) if reference else b""


def _names(certificate: Path) -> Sequence[str]:
    """Return the host names in the first certificate of a PEM file, in lower case."""
    with needing_extra("more than one file in ssl.certificate.location", "security"):
        from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"the certificate {certificate} cannot be read: {error}") from error
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
        wanted = (name or "").lower()  # None for a client that requests no name
        wildcard = f"*.{wanted.partition('.')[2]}"
        found = by_name.get(wanted) or by_name.get(wildcard)
        if found is not None:
            connection.context = found

    return choose
