"""What decides whether a client gets in: the TLS of an agent's listeners, and its SASL mechanisms."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.mapping import MappingRulesError, PrincipalRules
from lacuna.agent.security.principal import ANONYMOUS, USER, Principal
from lacuna.agent.security.sasl.mechanism import Exchange, Mechanisms
from lacuna.agent.security.sasl.plain import PlainExchange, PlainPasswords
from lacuna.agent.security.sasl.scram import ScramExchange
from lacuna.agent.security.sasl.users import SHA_256, SHA_512, Users, read_users
from lacuna.agent.security.session import Session
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.security.tls import Tls
from lacuna.controlplane.shared.security import Security
from lacuna.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lacuna.agent.clock import WallClock

log = logging.getLogger("lacuna.agent")

_Make = Callable[[], Exchange]


class UnknownSubject(Exception):
    """No rule makes a principal of the subject of a client's certificate."""


class Access:
    """Makes the session of each connection. Checks its settings when it is made, and raises UserError."""

    def __init__(
        self,
        settings: SecuritySettings,
        listeners: "Sequence[Listener]",
        security: Security,
        clock: "WallClock",
    ) -> None:
        self.settings = settings
        self._clock = clock
        try:
            self._rules = PrincipalRules(
                "" if settings.mapping_rules.strip() == "DEFAULT" else settings.mapping_rules
            )
        except MappingRulesError as error:
            raise UserError(str(error)) from error
        self.tls = self._tls(listeners)
        self._mechanisms = self._made(listeners, security)
        for listener in listeners:
            _warn_of(listener, settings)

    def _tls(self, listeners: "Sequence[Listener]") -> Tls | None:
        encrypted = [str(each) for each in listeners if each.protocol.has_tls]
        if encrypted and not self.settings.names_certificate():
            raise UserError(
                f"{encrypted[0]} needs a certificate: name its PEM files with --tls-cert and --tls-key, or a PKCS#12 "
                "file in ssl.keystore.location"
            )
        if self.settings.names_certificate() and not encrypted:
            raise UserError(
                "a certificate is given and no listener uses TLS: add one with --listen SSL://HOST:PORT or "
                "SASL_SSL://HOST:PORT"
            )
        return Tls(self.settings) if encrypted else None

    def _made(self, listeners: "Sequence[Listener]", security: Security) -> Mechanisms:
        if not any(each.protocol.has_sasl for each in listeners):
            return {}
        file = self.settings.users_file
        users = Users(security, read_users(Path(file)) if file else None)
        makers: Mapping[str, Callable[[], _Make]] = {
            "SCRAM-SHA-256": lambda: partial(ScramExchange, SHA_256, users),
            "SCRAM-SHA-512": lambda: partial(ScramExchange, SHA_512, users),
            "PLAIN": lambda: partial(PlainExchange, PlainPasswords(users)),
        }
        wanted = [each.strip() for each in self.settings.mechanisms.split(",") if each.strip()]
        unknown = [each for each in wanted if each not in makers]
        if unknown or not wanted:
            raise UserError(
                f"sasl.enabled.mechanisms is {self.settings.mechanisms!r}: choose among {', '.join(makers)}"
            )
        return {name: makers[name]() for name in wanted}

    def session(self, listener: Listener, certificate: bytes | None = None) -> Session:
        """Return the session of a new connection; `certificate` is the client's, in DER. Raises UnknownSubject."""
        principal = ANONYMOUS
        if certificate is not None and not listener.protocol.has_sasl:
            principal = self._of_certificate(certificate)
        longest_ms = self.settings.max_reauth_ms
        return Session(listener, self._clock, self._mechanisms, longest_ms, principal)

    def _of_certificate(self, certificate: bytes) -> Principal:
        from cryptography import x509

        subject = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
        name = self._rules.name(subject)
        if not name:
            raise UnknownSubject(
                f"no rule in ssl.principal.mapping.rules fits the certificate of {subject}"
            )
        return Principal(USER, name)


_OPEN_TO_ALL: Final = (
    "%s accepts everybody who can connect to it, %s: put SASL_SSL or SSL with ssl.client.auth=required in its place, "
    "or let only hosts that you trust reach it"
)


def _warn_of(listener: Listener, settings: SecuritySettings) -> None:
    """Say it loudly if others can connect, and need not say who they are or can be listened to."""
    if listener.is_loopback:
        return
    asks = listener.protocol.has_sasl or (
        listener.protocol is Protocol.SSL and settings.client_auth == "required"
    )
    if not asks:
        how = "encrypted" if listener.protocol.has_tls else "and nothing is encrypted"
        log.warning(_OPEN_TO_ALL, listener, how)
    elif not listener.protocol.has_tls:
        log.warning(
            "%s is not encrypted: whoever sees the traffic can read the records%s; use SASL_SSL",
            listener,
            " and the passwords" if "PLAIN" in settings.mechanisms.split(",") else "",
        )
