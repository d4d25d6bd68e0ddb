"""Security settings of an agent. Keys are Kafka's, and librdkafka's for the PEM files that Kafka has no names for."""

from dataclasses import dataclass
from typing import Final

from lacuna.controlplane.shared.authorizing import AuthorizerSettings
from lacuna.setting import check_settings, setting, settings_of

_REFERENCE: Final = "A reference: file:PATH, env:NAME or command:LINE."


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings(AuthorizerSettings):
    """How clients are authenticated, and what they may do. Raises SettingsError."""

    protocols: str = setting(
        "listener.security.protocol.map",
        "",
        "The security protocol of each listener whose name is none, as EXTERNAL:SASL_SSL,INTERNAL:PLAINTEXT.",
    )
    certificate: str = setting(
        "ssl.certificate.location",
        "",
        "PEM file with the certificate of TLS listeners and the chain to its authority. "
        "Of several with commas between, the one is used whose name the client asks for (SNI), or the first.",
        option="--tls-cert",
    )
    key: str = setting(
        "ssl.key.location",
        "",
        "PEM file with the key of the certificate; as many as there are certificates.",
        option="--tls-key",
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
        "PEM file with the authorities that client certificates, and the certificates of other agents, are signed by.",
        option="--tls-ca",
    )
    client_auth: str = setting(
        "ssl.client.auth",
        "none",
        "Whether clients of listeners with the protocol SSL need a certificate.",
        choices=("none", "requested", "required"),
    )
    tls_versions: str = setting(
        "ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "Versions of TLS that clients may use."
    )
    cipher_suites: str = setting(
        "ssl.cipher.suites",
        "",
        "Cipher suites for TLS 1.2, as OpenSSL names them, with colons between. Empty for OpenSSL's choice.",
    )
    mapping_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "Rules that make a principal's name of the subject of a client's certificate (KIP-371).",
    )
    mechanisms: str = setting(
        "sasl.enabled.mechanisms",
        "SCRAM-SHA-256,SCRAM-SHA-512",
        "Mechanisms of listeners with SASL: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER.",
    )
    users_file: str = setting(
        "sasl.users.file",
        "",
        'TOML file of users that are there before anybody can add others, each as NAME = "file:PATH", a reference to '
        "a password.",
        option="--users-file",
    )
    max_reauth_ms: int = setting(
        "connections.max.reauth.ms",
        0,
        "Clients of listeners with SASL must authenticate again after this long. 0: only when credentials expire.",
    )
    failure_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        100,
        "A client whose authentication failed is told so after this long, which makes guessing slow.",
        most=10_000,
    )
    token_key: str = setting(
        "delegation.token.secret.key",
        "",
        "The key of delegation tokens, 16 bytes or more, the same for all agents; without it there are none. "
        + _REFERENCE,
    )
    token_most_ms: int = setting(
        "delegation.token.max.lifetime.ms",
        7 * 86_400_000,
        "How long a delegation token can be renewed at most.",
        least=1,
    )
    token_expiry_ms: int = setting(
        "delegation.token.expiry.time.ms",
        86_400_000,
        "How long a delegation token is valid until it has to be renewed.",
        least=1,
    )
    oauth_jwks: str = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        "Where the keys are that sign the tokens of OAUTHBEARER: a JWK set behind https:// or in a file://.",
    )
    oauth_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "How often these keys are read again. A token with another key has them read at once.",
        least=1000,
    )
    oauth_issuer: str = setting(
        "sasl.oauthbearer.expected.issuer",
        "",
        "The issuer (iss) that tokens must have. Empty: any whose keys these are.",
    )
    oauth_audience: str = setting(
        "sasl.oauthbearer.expected.audience",
        "",
        "The audiences (aud), with commas between, of which tokens must have one. Empty: tokens must have none.",
    )
    oauth_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "How far the clock of the issuer may be from an agent's.",
        most=3600,
    )
    oauth_scope: str = setting(
        "sasl.oauthbearer.scope.claim.name", "scope", "The claim that has the scopes of a token."
    )
    oauth_scopes: str = setting(
        "sasl.oauthbearer.required.scopes",
        "",
        "Scopes that tokens must have, with commas between.",
    )
    oauth_sub: str = setting(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        "The claim that has the name of a token's principal.",
    )
    oauth_unsecured: bool = setting(
        "sasl.oauthbearer.unsecured",
        False,
        "For development: take tokens that nobody has signed, so that everybody can be anybody.",
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def names_issuer(self) -> bool:
        """Return whether anything is said about whose tokens OAUTHBEARER takes."""
        given = self.oauth_jwks, self.oauth_issuer, self.oauth_audience, self.oauth_scopes
        return self.oauth_unsecured or any(given)

    def of_tls(self) -> str:
        """Return the key of a setting that is given and has an effect only on listeners with TLS, or ""."""
        return self._given("ssl.") if self.client_auth == "none" else "ssl.client.auth"

    def of_sasl(self) -> str:
        """Return the key of a setting that is given and has an effect only on listeners with SASL, or ""."""
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
        """Return whether a certificate is configured."""
        return bool(self.certificate or self.keystore)
