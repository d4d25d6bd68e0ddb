"""TLS between control planes, agents and jobs: each presents a certificate, and trusts those of one authority."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from lacuna.base.errors import UserError
from lacuna.base.secret import read_secret
from lacuna.base.setting import check_settings, setting, settings_of
from lacuna.base.tls import Watched, first_certificate, trust_alone, trust_authorities

_ALPN: Final = "h2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTlsSettings:
    """The files of one end, and whom it takes for part of the cluster. Raises SettingsError."""

    certificate: str = setting(
        "controlplane.ssl.certificate.location",
        "",
        "PEM file with the certificate of this process for connections between control planes, agents and jobs. With "
        "it, a control plane that listens on TCP accepts only TLS.",
        option="--control-tls-cert",
    )
    key: str = setting(
        "controlplane.ssl.key.location",
        "",
        "PEM file with the key of that certificate.",
        option="--control-tls-key",
    )
    key_password: str = setting(
        "controlplane.ssl.key.password",
        "",
        "The password of that key, if it has one. A reference: file:PATH, env:NAME or command:LINE.",
    )
    authorities: str = setting(
        "controlplane.ssl.ca.location",
        "",
        "PEM file with the authority that signed the certificates of all of them. A control plane then rejects peers "
        "without such a certificate. Without this file, each process trusts only its own certificate.",
        option="--control-tls-ca",
    )
    principals: str = setting(
        "controlplane.cluster.principals",
        "",
        "Control planes and agents by the subjects of their certificates, such as User:CN=agent,O=example, separated "
        "by semicolons. Other peers may only read and run jobs. Empty: every peer with a certificate counts as one.",
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def by_key(self) -> dict[str, str | None]:
        """Return them by their keys."""
        return {row.key: getattr(self, name) for name, row in settings_of(type(self)).items()}

    @property
    def is_given(self) -> bool:
        """Whether connections use TLS."""
        return bool(self.certificate or self.authorities)


NO_TLS: Final = ControlTlsSettings()


def control_tls_settings(
    given: Mapping[str, str | None], environment: Mapping[str, str]
) -> ControlTlsSettings:
    """Return the settings given by key, or else those of the environment. Raises SettingsError."""
    found = {
        name: given.get(row.key) or environment.get(row.variable) or str(row.default)
        for name, row in settings_of(ControlTlsSettings).items()
    }
    return ControlTlsSettings(**found)


@dataclass(frozen=True)
class ControlPlace:
    """Where control planes are: HOST:PORT, several with commas between, or unix:PATH; and the files to reach them with.

    It has no secrets, so that Spark may send it to its executors.
    """

    address: str
    tls: ControlTlsSettings = NO_TLS

    def __str__(self) -> str:
        """Return the address."""
        return self.address


class _Contexts(NamedTuple):
    server: ssl.SSLContext | None
    client: ssl.SSLContext


class ControlTls:
    """The contexts of one end. Files that change are read again, and used by the next connections."""

    def __init__(self, settings: ControlTlsSettings) -> None:
        """Raises UserError for files that cannot be used."""
        if bool(settings.certificate) != bool(settings.key):
            raise UserError(
                "a certificate needs its key, and a key its certificate: name both with --control-tls-cert and "
                "--control-tls-key"
            )
        self._settings = settings
        self._principals = {
            each.strip().removeprefix("User:") for each in settings.principals.split(";")
        } - {""}
        files = (settings.certificate, settings.key, settings.authorities)
        self._contexts = Watched([each for each in files if each], self._make)

    @property
    def asks_for_certificates(self) -> bool:
        """Whether who presents no certificate is refused."""
        return bool(self._settings.authorities)

    def is_cluster(self, subject: str) -> bool:
        """Return whether the subject of a certificate is a control plane or an agent."""
        return not self._principals or subject in self._principals

    def client(self) -> ssl.SSLContext:
        """Return the context of a connection to a control plane."""
        return self._current().client

    @cached_property
    def server(self) -> ssl.SSLContext:
        """The context of a listener. Each connection gets one that is made from the files as they are then.

        Raises UserError without a certificate."""
        listening = self._current().server
        if listening is None:
            raise UserError(
                "a control plane with TLS needs a certificate: name its PEM files with --control-tls-cert and "
                "--control-tls-key"
            )

        def choose(connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
            connection.context = self._current().server or listening

        # Not the context of the others: it would call this for ever.
        context = self._server_context()
        context.sni_callback = choose
        return context

    def _current(self) -> _Contexts:
        return self._contexts.get(asyncio.get_running_loop().time())

    def _make(self) -> _Contexts:
        server = self._server_context() if self._settings.certificate else None
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # They know each other by the authority: a standby that takes over may be at any address.
        client.check_hostname = False
        self._dress(client)
        if self._settings.authorities:
            trust_authorities(client, self._settings.authorities, "controlplane.ssl.ca.location")
        else:
            trust_alone(client, [first_certificate(self._settings.certificate)])
        return _Contexts(server, client)

    def _server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A session that is resumed would not be checked against an authority that has changed.
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
        context.num_tickets = 0
        self._dress(context)
        if self._settings.authorities:
            context.verify_mode = ssl.CERT_REQUIRED
            trust_authorities(context, self._settings.authorities, "controlplane.ssl.ca.location")
        return context

    def _dress(self, context: ssl.SSLContext) -> None:
        """Give a context what both ends have: the versions, the protocol and the certificate."""
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols([_ALPN])
        settings = self._settings
        if not settings.certificate:
            return
        reference = settings.key_password
        password = read_secret(reference, "controlplane.ssl.key.password") if reference else b""
        try:
            # Without a password OpenSSL would ask for it on the terminal.
            context.load_cert_chain(settings.certificate, settings.key, lambda: password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise UserError(
                f"the certificate {settings.certificate} and the key {settings.key} cannot be used: {error}"
            ) from error


def made_of(settings: ControlTlsSettings) -> ControlTls | None:
    """Return the TLS that settings describe; None if they describe none. Raises UserError."""
    return ControlTls(settings) if settings.is_given else None
