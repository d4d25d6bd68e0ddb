"""Security settings of an agent. The keys are Kafka's, or librdkafka's for PEM files, for which Kafka has no names."""

from dataclasses import dataclass
from typing import Final

from lacuna.base.setting import check_settings, setting, settings_of
from lacuna.controlplane.shared.authorizing import AuthorizerSettings

_REFERENCE: Final = "A reference: file:PATH, env:NAME or command:LINE."


def listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings(AuthorizerSettings):
    """How clients are authenticated and authorized. Raises SettingsError."""

    protocols: str = setting(
        "listener.security.protocol.map",
        "",
        "The security protocols of listeners that are not named after one, such as "
        "EXTERNAL:SASL_SSL,INTERNAL:PLAINTEXT.",
    )
    certificate: str = setting(
        "ssl.certificate.location",
        "",
        "PEM file with the certificate of TLS listeners and the chain to its authority. If several files are "
        "given, separated by commas, the agent uses the certificate for the name that the client requests (SNI), "
        "or else the first.",
        option="--tls-cert",
        metavar="FILE",
        panel="Clients",
    )
    key: str = setting(
        "ssl.key.location",
        "",
        "PEM file with the private key of the certificate, one file for each certificate.",
        option="--tls-key",
        metavar="FILE",
        panel="Clients",
    )
    key_password: str = setting(
        "ssl.key.password", "", f"The password of the key, if it has one. {_REFERENCE}"
    )
    keystore: str = setting(
        "ssl.keystore.location",
        "",
        "PKCS#12 file with a certificate and its key, instead of the PEM files.",
    )
    keystore_password: str = setting(
        "ssl.keystore.password", "", f"The password of the PKCS#12 file. {_REFERENCE}"
    )
    authorities: str = setting(
        "ssl.ca.location",
        "",
        "PEM file with the certificate authorities that sign the certificates of clients and of other agents.",
        option="--tls-ca",
        metavar="FILE",
        panel="Clients",
    )
    client_auth: str = setting(
        "ssl.client.auth",
        "none",
        "Whether clients that connect to listeners with the protocol SSL need a certificate.",
        choices=("none", "requested", "required"),
    )
    tls_versions: str = setting(
        "ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "The TLS versions that clients may use."
    )
    cipher_suites: str = setting(
        "ssl.cipher.suites",
        "",
        "Cipher suites for TLS 1.2 under their OpenSSL names, separated by colons. If empty, OpenSSL chooses.",
    )
    mapping_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "Rules for deriving a principal's name from the subject of a client's certificate (KIP-371).",
    )
    mechanisms: str = setting(
        "sasl.enabled.mechanisms",
        "SCRAM-SHA-256,SCRAM-SHA-512",
        "Mechanisms of listeners with SASL: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER.",
    )
    users_file: str = setting(
        "sasl.users.file",
        "",
        "TOML file of the initial users, who exist before any client can add others. Each is specified as NAME = "
        '"file:PATH", a reference to a password.',
        option="--users-file",
        metavar="FILE",
        panel="Clients",
    )
    max_reauth_ms: int = setting(
        "connections.max.reauth.ms",
        0,
        "The time after which clients of listeners with SASL must authenticate again. 0: only when credentials expire.",
    )
    failure_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        100,
        "How long an agent delays the answer to a failed authentication, which slows down guessing.",
        most=10_000,
    )
    token_key: str = setting(
        "delegation.token.secret.key",
        "",
        "The key for delegation tokens: 16 bytes or more, the same for all agents. If empty, there are no tokens.  "
        + _REFERENCE,
    )
    token_most_ms: int = setting(
        "delegation.token.max.lifetime.ms",
        7 * 86_400_000,
        "The maximum lifetime of a delegation token, including renewals.",
        least=1,
    )
    token_expiry_ms: int = setting(
        "delegation.token.expiry.time.ms",
        86_400_000,
        "How long a delegation token is valid unless it is renewed.",
        least=1,
    )
    oauth_jwks: str = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        "URL (https:// or file://) of the JWK set whose keys verify OAUTHBEARER tokens.",
    )
    oauth_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "How often the agent rereads these keys. A token with an unknown key triggers an immediate read.",
        least=1000,
    )
    oauth_issuer: str = setting(
        "sasl.oauthbearer.expected.issuer",
        "",
        "The issuer (iss) that tokens must have. If empty, any issuer that uses these keys is accepted.",
    )
    oauth_audience: str = setting(
        "sasl.oauthbearer.expected.audience",
        "",
        "The audiences (aud), separated by commas. A token must have one of them. If empty, "
        "tokens must not have an audience.",
    )
    oauth_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "The maximum difference between the issuer's clock and the agent's clock.",
        most=3600,
    )
    oauth_scope: str = setting(
        "sasl.oauthbearer.scope.claim.name", "scope", "The claim that contains a token's scopes."
    )
    oauth_scopes: str = setting(
        "sasl.oauthbearer.required.scopes",
        "",
        "Scopes that tokens must have, separated by commas.",
    )
    oauth_sub: str = setting(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        "The claim that contains the name of a token's principal.",
    )
    oauth_unsecured: bool = setting(
        "sasl.oauthbearer.unsecured",
        False,
        "For development only: accept unsigned tokens, which let any client claim any identity.",
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def names_issuer(self) -> bool:
        """Return whether any setting names the issuer of OAUTHBEARER tokens."""
        given = self.oauth_jwks, self.oauth_issuer, self.oauth_audience, self.oauth_scopes
        return self.oauth_unsecured or any(given)

    def of_tls(self) -> str:
        """Return the key of a setting that was given but affects only listeners with TLS, or ""."""
        return self._given("ssl.") if self.client_auth == "none" else "ssl.client.auth"

    def of_sasl(self) -> str:
        """Return the key of a setting that was given but affects only listeners with SASL, or ""."""
        return self._given("sasl.users.") or self._given("delegation.token.secret.")

    def _given(self, prefix: str) -> str:
        rows = settings_of(type(self)).items()
        return next(
            (
                row.key
                for name, row in rows
                if row.key.startswith(prefix) and row.default == "" and getattr(self, name)
            ),
            "",
        )

    def names_certificate(self) -> bool:
        return bool(self.certificate or self.keystore)
