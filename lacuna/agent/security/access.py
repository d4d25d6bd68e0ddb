"""Decides whether a client is admitted, based on TLS on the agent's listeners and the agent's SASL mechanisms."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from lacuna.agent.clock import WallClock
from lacuna.agent.security.assignments import CutAssignments
from lacuna.agent.security.authentication import Authentication
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.mapping import MappingRulesError, PrincipalRules
from lacuna.agent.security.peers import PEER, PEER_MECHANISM, PeerIdentity
from lacuna.agent.security.sasl.jwks import Jwks
from lacuna.agent.security.sasl.jwts import Claims, JwtValidator, UnsecuredValidator, Validator
from lacuna.agent.security.sasl.mechanism import Exchange, Mechanisms
from lacuna.agent.security.sasl.oauthbearer import OAuthBearerExchange
from lacuna.agent.security.sasl.plain import PlainExchange, PlainPasswords
from lacuna.agent.security.sasl.scram import ScramExchange
from lacuna.agent.security.sasl.users import SHA_256, SHA_512, Users, read_users
from lacuna.agent.security.settings import SecuritySettings, listed
from lacuna.agent.security.tls import Tls
from lacuna.agent.security.tokens import DelegationTokens
from lacuna.base.client_security import ClientSecurity
from lacuna.base.errors import UserError
from lacuna.base.tls import subject_of
from lacuna.controlplane.shared.authorizing import authorizer_of
from lacuna.controlplane.shared.complaints import Complaints
from lacuna.controlplane.shared.config_values import printable
from lacuna.controlplane.shared.principal import ANONYMOUS, USER, Principal
from lacuna.controlplane.shared.security import Security

log = logging.getLogger("lacuna.agent")

_OAUTHBEARER: Final = "OAUTHBEARER"
_Make = Callable[[], Exchange]


class UnknownSubject(Exception):
    """The subject of a client's certificate cannot be read, or no rule maps it to a principal."""


class Access:
    """Creates the session of each connection. Raises UserError for invalid settings."""

    def __init__(
        self,
        settings: SecuritySettings,
        listeners: Sequence[Listener],
        security: Security,
        clock: WallClock,
        peers: PeerIdentity | None = None,
    ) -> None:
        """`peers` authenticates agents to each other. Without it, no agent can connect to a listener with SASL."""
        self.settings = settings
        self.peers = peers
        self._first = listeners[0]
        self._clock = clock
        try:
            self._rules = PrincipalRules(
                "" if settings.mapping_rules.strip() == "DEFAULT" else settings.mapping_rules
            )
        except MappingRulesError as error:
            raise UserError(str(error)) from error
        self.tls = self._tls(listeners)
        #: Delegation tokens.
        self.tokens = DelegationTokens(settings, security, clock)
        self._users: Users | None = None
        self._mechanisms = self._made(listeners, security)
        #: None if there is no authorizer, in which case all clients may do anything.
        self.authorizer = authorizer_of(settings, security, {PEER})
        self.cut_assignments = CutAssignments()
        self._listeners = listeners
        #: Limits the rate of log lines for each host whose clients could not authenticate.
        self.complaints = Complaints()

    def _tls(self, listeners: Sequence[Listener]) -> Tls | None:
        encrypted = [str(each) for each in listeners if each.protocol.has_tls]
        if encrypted and not self.settings.names_certificate():
            raise UserError(
                f"{encrypted[0]} needs a certificate: specify its PEM files with --tls-cert and --tls-key, or a "
                "PKCS#12 file with ssl.keystore.location"
            )
        if (given := self.settings.of_tls()) and not encrypted:
            raise UserError(
                f"{given} is set, but no listener uses TLS: add one with --listen SSL://HOST:PORT "
                "or SASL_SSL://HOST:PORT"
            )
        return Tls(self.settings) if encrypted else None

    def _made(self, listeners: Sequence[Listener], security: Security) -> Mechanisms:
        wanted = listed(self.settings.mechanisms)
        has_sasl = any(each.protocol.has_sasl for each in listeners)
        if self.settings.names_issuer() and not (has_sasl and _OAUTHBEARER in wanted):
            raise UserError(
                "OAUTHBEARER settings are given, but OAUTHBEARER is not in use: add it to "
                "sasl.enabled.mechanisms, and add a listener with SASL"
            )
        if not has_sasl and (given := self.settings.of_sasl()):
            raise UserError(
                f"{given} is set, but no listener uses SASL: add one with --listen "
                "SASL_SSL://HOST:PORT"
            )
        if not has_sasl:
            return {}
        file = self.settings.users_file
        secret = self._secret_of_cluster
        self._users = users = Users(security, read_users(Path(file)) if file else None, secret)
        find_token = self.tokens.find
        makers: Mapping[str, Callable[[], _Make]] = {
            "SCRAM-SHA-256": lambda: partial(ScramExchange, SHA_256, users, find_token),
            "SCRAM-SHA-512": lambda: partial(ScramExchange, SHA_512, users, find_token),
            "PLAIN": lambda: partial(PlainExchange, PlainPasswords(users)),
            _OAUTHBEARER: lambda: partial(
                OAuthBearerExchange, self._validator(), self.settings.oauth_scopes
            ),
        }
        unknown = [each for each in wanted if each not in makers]
        if unknown or not wanted:
            raise UserError(
                f"sasl.enabled.mechanisms is {self.settings.mechanisms!r}; choose from "
                f"{', '.join(makers)}"
            )
        made = {name: makers[name]() for name in wanted}
        if self.peers is not None:
            nobody = Users(Security(), secret=secret)
            made[PEER_MECHANISM] = partial(ScramExchange, SHA_256, nobody, self.peers.find)
        return made

    def _secret_of_cluster(self) -> bytes:
        return b"" if self.peers is None else self.peers.secret

    def check_users(self) -> None:
        """Raise UserError if no client could log in, even to add users. The control plane's users must be known."""
        is_open = any(not each.protocol.has_sasl for each in self._listeners)
        if is_open or self._users is None or self._users or _OAUTHBEARER in self._mechanisms:
            return
        raise UserError(
            f"{self._first} requires a user and a password, but there are no users, so no client "
            "could log in: specify a file of initial users with --users-file, with lines such as "
            'admin = "file:/run/secrets/admin"'
        )

    def is_of_file(self, user: str) -> bool:
        return self._users is not None and self._users.is_of_file(user)

    def to_peers(self, now: float) -> ClientSecurity:
        """Return how to connect to other agents at `now` (loop time) if their first listener uses the same protocol."""
        protocol = self._first.protocol
        return ClientSecurity(
            protocol=protocol.value,
            made_context=self.tls.client_context(now) if protocol.has_tls and self.tls else None,
            credentials=self.peers.credentials() if protocol.has_sasl and self.peers else None,
        )

    def _validator(self) -> Validator:
        settings = self.settings
        claims = Claims(settings, self._clock, requires_iat=not settings.oauth_unsecured)
        if settings.oauth_unsecured:
            if settings.oauth_jwks:
                raise UserError(
                    "sasl.oauthbearer.unsecured accepts unsigned tokens, but "
                    "sasl.oauthbearer.jwks.endpoint.url specifies keys for checking signatures: set "
                    "only one of them"
                )
            log.warning(
                "sasl.oauthbearer.unsecured is set: ANY client that can connect can claim ANY "
                "identity, since tokens need no signature. Use this for development only"
            )
            return UnsecuredValidator(claims)
        if not settings.oauth_jwks:
            raise UserError(
                "OAUTHBEARER needs the keys that sign tokens: set "
                "sasl.oauthbearer.jwks.endpoint.url"
            )
        keys = Jwks(settings.oauth_jwks, settings.oauth_refresh_ms)
        if keys.is_plain:
            log.warning(
                "%s is not encrypted: an attacker who can change the traffic can forge tokens; "
                "use https://",
                keys.name,
            )
        return JwtValidator(claims, keys)

    def warn(self) -> None:
        """Warn about each listener that clients can use without authentication, or whose traffic others can read."""
        for listener in self._listeners:
            _warn_of(listener, self.settings)

    def session(self, listener: Listener, certificate: bytes | None = None) -> Authentication:
        """Return the session for a new connection. `certificate` is in DER. Raises UnknownSubject."""
        principal = ANONYMOUS
        if certificate is not None and not listener.protocol.has_sasl:
            principal = self._of_certificate(certificate)
        longest_ms = self.settings.max_reauth_ms
        return Authentication(listener, self._clock, self._mechanisms, longest_ms, principal)

    def _of_certificate(self, certificate: bytes) -> Principal:
        try:
            subject = subject_of(certificate)
        except ValueError as error:
            raise UnknownSubject(str(error)) from error
        name = self._rules.name(subject)
        if not name:
            raise UnknownSubject(
                f"no rule in ssl.principal.mapping.rules matches the certificate of {printable(subject)}"
            )
        return Principal(USER, name)


_OPEN_TO_ALL: Final = (
    "%s accepts every client that can connect to it, %s: use SASL_SSL, or SSL with "
    "ssl.client.auth=required, or allow only trusted hosts to reach it"
)


def _warn_of(listener: Listener, settings: SecuritySettings) -> None:
    """Warn if clients can connect without authentication, or if others can read the traffic."""
    if listener.is_loopback:
        return
    asks = listener.protocol.has_sasl or (
        listener.protocol is Protocol.SSL and settings.client_auth == "required"
    )
    if not asks:
        how = "encrypted" if listener.protocol.has_tls else "and nothing is encrypted"
        log.warning(_OPEN_TO_ALL, listener, how)
    elif not listener.protocol.has_tls:
        shows_secrets = not {"PLAIN", _OAUTHBEARER}.isdisjoint(listed(settings.mechanisms))
        log.warning(
            "%s is not encrypted: others on the network can read the records%s; use SASL_SSL",
            listener,
            " and the secrets of clients" if shows_secrets else "",
        )
