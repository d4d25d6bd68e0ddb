"""Writes the files of a secured listener and its clients: certificates, a user with a password, and a token."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tests.agent.security.issuer import AUDIENCE, NAME, Issuer
from tests.certificates import Authority

MECHANISMS = "SCRAM-SHA-512,OAUTHBEARER,PLAIN"
USER, PASSWORD = "alice", "secret"
_TOKEN_SECONDS = 4 * 3600.0
_MODULES = "org.apache.kafka.common.security"

_LACUNA = """\
ssl.certificate.location = "{folder}/agent.pem"
ssl.key.location = "{folder}/agent.key"
sasl.enabled.mechanisms = "{mechanisms}"
sasl.users.file = "{folder}/users.toml"
sasl.oauthbearer.jwks.endpoint.url = "file://{folder}/keys.json"
sasl.oauthbearer.expected.issuer = "{issuer}"
sasl.oauthbearer.expected.audience = "{audience}"
"""
_KAFKA = """\
ssl.keystore.type=PEM
ssl.keystore.location={folder}/keystore.pem
sasl.enabled.mechanisms={mechanisms}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required user_{user}="{password}";
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config={modules}.oauthbearer.OAuthBearerLoginModule required;
listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class={modules}.oauthbearer.{package}OAuthBearerValidatorCallbackHandler
listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url=file://{folder}/keys.json
listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.issuer={issuer}
listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.audience={audience}
"""
#: Kafka 4.1.0 checks no signature unless it is told to; it does not heed this one with a listener's prefix.
_CHECKED = """\
sasl.oauthbearer.jwt.validator.class={modules}.oauthbearer.BrokerJwtValidator
"""


class Security:
    """Writes the folder. Lacuna sees it at `seen_as` if its path differs, for example in a container."""

    def __init__(self, folder: Path, seen_as: str = "") -> None:
        folder.mkdir()
        folder.chmod(0o755)  # the user in a container is another one
        self._folder = folder
        seen_as = seen_as or str(folder)
        authority, issuer = Authority(folder, "ca"), Issuer()
        own = authority.issue("agent")
        keystore = Path(own.key).read_text() + Path(own.certificate).read_text()
        (folder / "keystore.pem").write_text(keystore)
        (folder / "keys.json").write_bytes(issuer.jwks())
        (folder / "password").write_text(PASSWORD)
        (folder / "users.toml").write_text(f'{USER} = "file:{seen_as}/password"\n')
        self.config.write_text(_filled(_LACUNA, seen_as))
        self._token = issuer.token(time.time(), lifetime=_TOKEN_SECONDS)

    @property
    def authorities(self) -> Path:
        """Return the certificate of the authority as PEM."""
        return self._folder / "ca.pem"

    @property
    def config(self) -> Path:
        """Return Lacuna's config file, with everything but the listeners."""
        return self._folder / "lacuna.toml"

    def properties(self, kafka: str) -> str:
        """Return the same settings for a Kafka of this version. Before 4.0, its class for tokens is in
        another package.
        """
        folder = str(self._folder)
        if kafka.startswith("4."):
            return _filled(_KAFKA + _CHECKED, folder, package="")
        return _filled(_KAFKA, folder, package="secured.")

    @property
    def keys(self) -> str:
        """The URL of the token keys. Kafka reads it only if its command line allows the URL."""
        return f"file://{self._folder}/keys.json"

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment variables that programs read."""
        return {
            "COMPAT_CA": str(self.authorities),
            "COMPAT_USER": USER,
            "COMPAT_PASSWORD": PASSWORD,
            "COMPAT_TOKEN": self._token,
        }


def _filled(text: str, folder: str, **more: str) -> str:
    return text.format(
        folder=folder,
        mechanisms=MECHANISMS,
        user=USER,
        password=PASSWORD,
        issuer=NAME,
        audience=AUDIENCE,
        modules=_MODULES,
        **more,
    )
