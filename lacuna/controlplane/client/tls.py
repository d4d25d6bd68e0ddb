"""TLS between control planes, agents and jobs. Each presents a certificate, and trusts those that one authority has
issued.
"""

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lacuna.base.errors import UserError
from lacuna.base.secret import read_secret
from lacuna.base.setting import check_settings, setting, settings_of
from lacuna.base.tls import Watched, first_certificate, trust_alone, trust_authorities

_ALPN: Final = "h2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTlsSettings:
    """The TLS files of one end of a connection, and the peers accepted as part of the cluster. Raises SettingsError."""

    certificate: str = setting(
        "controlplane.ssl.certificate.location",
        "",
        "PEM file with the certificate of this process for connections between control planes, agents and jobs. With "
        "it, a control plane that listens on TCP accepts only TLS.",
        option="--control-tls-cert",
        metavar="FILE",
        panel="TLS to the control plane",
    )
    key: str = setting(
        "controlplane.ssl.key.location",
        "",
        "PEM file with the key of that certificate.",
        option="--control-tls-key",
        metavar="FILE",
        panel="TLS to the control plane",
    )
    key_password: str = setting(
        "controlplane.ssl.key.password",
        "",
        "The password of that key, if any, as a reference: file:PATH, env:NAME or command:LINE.",
    )
    authorities: str = setting(
        "controlplane.ssl.ca.location",
        "",
        "PEM file with the authority that signed the certificates of all control planes, agents and jobs. A control "
        "plane then rejects peers without such a certificate. Without this file, each process trusts only its own "
        "certificate.",
        option="--control-tls-ca",
        metavar="FILE",
        panel="TLS to the control plane",
    )
    principals: str = setting(
        "controlplane.cluster.principals",
        "",
        "The certificate subjects of control planes and agents, such as User:CN=agent,O=example, separated by "
        "semicolons. Peers with other subjects may only read and run jobs. If this is empty, every peer with a "
        "certificate counts as a control plane or agent.",
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def by_key(self) -> dict[str, str | None]:
        return {row.key: getattr(self, name) for name, row in settings_of(type(self)).items()}

    @property
    def is_given(self) -> bool:
        """Whether connections use TLS."""
        return bool(self.certificate or self.authorities)


NO_TLS: Final = ControlTlsSettings()


def control_tls_settings(
    given: Mapping[str, str | None], environment: Mapping[str, str]
) -> ControlTlsSettings:
    """Return the settings in `given`, by key; missing ones come from the environment. Raises SettingsError."""
    found = {
        name: given.get(row.key) or environment.get(row.variable) or str(row.default)
        for name, row in settings_of(ControlTlsSettings).items()
    }
    return ControlTlsSettings(**found)


@dataclass(frozen=True)
class ControlPlace:
    """The address of control planes (HOST:PORT, comma-separated if there are several, or unix:PATH), and the TLS files
    for connecting to them. It contains no secrets, so Spark may send it to its executors.
    """

    address: str
    tls: ControlTlsSettings = NO_TLS

    def __str__(self) -> str:
        return self.address


@dataclass(frozen=True, slots=True)
class Presented:
    """The certificates that a process presents and trusts, as PEM. If `authorities` is empty, it trusts only its own
    certificate.

    `context` verifies a peer in the same way, for code that needs the peer's certificate before gRPC connects.
    """

    certificate: bytes
    key: bytes
    authorities: bytes
    context: ssl.SSLContext


class ControlTls:
    """The certificates of one process. Changed files are reloaded for new connections."""

    def __init__(self, settings: ControlTlsSettings) -> None:
        """Raises UserError if the files cannot be used."""
        if bool(settings.certificate) != bool(settings.key):
            raise UserError(
                "a certificate and its key must be given together: specify both with --control-tls-cert and "
                "--control-tls-key"
            )
        self._settings = settings
        self._principals = {
            each.strip().removeprefix("User:") for each in settings.principals.split(";")
        } - {""}
        files = (settings.certificate, settings.key, settings.authorities)
        self._presented = Watched([each for each in files if each], self._read)

    @property
    def has_certificate(self) -> bool:
        """Whether this process can serve over TLS."""
        return bool(self._settings.certificate)

    @property
    def asks_for_certificates(self) -> bool:
        """Whether a server requires certificates from its clients."""
        return bool(self._settings.authorities)

    def is_cluster(self, subject: str) -> bool:
        """Whether a certificate's subject is that of a control plane or an agent."""
        return not self._principals or subject in self._principals

    def presented(self) -> Presented:
        """Return the current contents of the files. Any thread may call this."""
        return self._presented.get(time.monotonic())

    def _read(self) -> Presented:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Peers are trusted because of their authority rather than their address: a standby that takes over may have any
        # address.
        context.check_hostname = False
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols([_ALPN])
        certificate = key = authorities = b""
        if settings.certificate:
            certificate, key = self._own(context)
        if settings.authorities:
            trust_authorities(context, settings.authorities, "controlplane.ssl.ca.location")
            authorities = Path(settings.authorities).read_bytes()
        else:
            trust_alone(context, [first_certificate(settings.certificate)])
        return Presented(certificate, key, authorities, context)

    def _own(self, context: ssl.SSLContext) -> tuple[bytes, bytes]:
        """Return the certificate and its unencrypted key, after checking that the context can use both."""
        settings = self._settings
        reference = settings.key_password
        password = read_secret(reference, "controlplane.ssl.key.password") if reference else b""
        try:
            # Without a password, OpenSSL would prompt for it on the terminal.
            context.load_cert_chain(settings.certificate, settings.key, lambda: password)
            certificate = Path(settings.certificate).read_bytes()
            key = Path(settings.key).read_bytes()
            if b"ENCRYPTED" in key:
                key = _plain(key, password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise UserError(
                f"the certificate {settings.certificate} and the key {settings.key} cannot be used: {error}"
            ) from error
        return certificate, key


def _plain(key: bytes, password: bytes) -> bytes:
    """Return a key without its password, since gRPC cannot decrypt keys."""
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_pem_private_key,
        )
    except ImportError as error:
        raise UserError(
            "controlplane.ssl.key.password needs cryptography: pip install 'lacuna-log[security]', or store the key "
            "without a password"
        ) from error
    loaded = load_pem_private_key(key, password)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def made_of(settings: ControlTlsSettings) -> ControlTls | None:
    """Return the certificates that the settings describe, or None without TLS. Raises UserError."""
    return ControlTls(settings) if settings.is_given else None
