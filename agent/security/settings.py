"""Security settings of an agent. Keys are Kafka's, and librdkafka's for the PEM files that Kafka has no names for."""

from dataclasses import dataclass
from typing import Final

from lacuna.setting import check_settings, setting

_REFERENCE: Final = "A reference: file:PATH, env:NAME or command:LINE."


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
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

    def __post_init__(self) -> None:
        check_settings(self)

    def names_certificate(self) -> bool:
        """Return whether a certificate is configured."""
        return bool(self.certificate or self.keystore)
