"""Security settings for Lacuna's own clients of agents, as in Kafka's client.properties."""

import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from lacuna.base.errors import UserError
from lacuna.base.sasl import SCRAM, Credentials, bearer, plain, scram
from lacuna.base.secret import read_secret

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", *SCRAM, "OAUTHBEARER")
_OPTION: Final = "--command-config"
_TOKEN_SECONDS: Final = 120.0
_KNOWN: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.token",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.ca.location",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)
#: Keys that are ignored, so that the same file also works with Kafka's own tools. They name Java classes or have no
#: effect here.
_IGNORED: Final = re.compile(
    r"sasl\.(login|kerberos|client\.callback)\..*|sasl\.oauthbearer\.jwt\.retriever\.class|"
    r"ssl\.(protocol|enabled\.protocols|provider|.*factory.*|engine\..*|secure\.random\.implementation)"
)
_JAAS_OPTION: Final = re.compile(
    r"""(\w+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))"""
)
_ESCAPED: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, kw_only=True)
class ClientSecurity:
    """The security protocol, TLS files (PEM) and credentials of a connection.

    If `authorities` is empty, the system's certificate authorities are trusted.
    """

    protocol: str = "PLAINTEXT"
    authorities: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = ""
    checks_host: bool = True
    credentials: Credentials | None = None
    #: The context to use instead of the files.
    made_context: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return f"ClientSecurity({self.protocol})"

    @property
    def has_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @cached_property
    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None without TLS. Raises UserError if a file cannot be used."""
        if not self.has_tls or self.made_context is not None:
            return self.made_context
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_host
        try:
            if self.authorities:
                context.load_verify_locations(cafile=self.authorities)
            else:
                context.load_default_certs()
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                f"ssl.ca.location: {self.authorities} is not a PEM file with certificate authorities: {error}"
            ) from error
        if self.certificate:
            try:
                # Without a password, OpenSSL would prompt for one on the terminal.
                context.load_cert_chain(
                    self.certificate, self.key or None, lambda: self.key_password.encode()
                )
            except (OSError, ssl.SSLError, ValueError) as error:
                raise UserError(
                    f"the certificate {self.certificate} and its key cannot be used: {error}"
                ) from error
        return context

    def librdkafka(self) -> dict[str, Any]:
        """Return the settings for librdkafka, the library behind confluent-kafka."""
        settings: dict[str, Any] = {"security.protocol": self.protocol}
        if self.has_tls:
            settings |= {
                "ssl.endpoint.identification.algorithm": "https" if self.checks_host else "none",
                **_given(
                    {
                        "ssl.ca.location": self.authorities,
                        "ssl.certificate.location": self.certificate,
                        "ssl.key.location": self.key or self.certificate,
                        "ssl.key.password": self.key_password,
                    }
                ),
            }
        credentials = self.credentials
        if credentials is not None:
            settings |= {"sasl.mechanism": credentials.mechanism}
            if (read_token := credentials.read_token) is not None:
                # The token is read again after this time. Files and commands are assumed to return tokens that are
                # valid for longer.
                settings["oauth_cb"] = lambda _: (read_token(), time.time() + _TOKEN_SECONDS)
            else:
                settings |= {
                    "sasl.username": credentials.user,
                    "sasl.password": credentials.password,
                }
        return settings


PLAINTEXT: Final = ClientSecurity()


def read_client_properties(path: Path) -> ClientSecurity:
    """Read a file such as Kafka's client.properties. Raises UserError, whose message contains no secrets."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"{_OPTION}: {path} cannot be read: {why}") from error
    try:
        return client_security(_properties(text))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """Return the security settings that properties describe. Raises UserError, whose message contains no secrets."""
    for key in properties:
        if key.startswith(("ssl.", "sasl.")) and key not in _KNOWN and not _IGNORED.fullmatch(key):
            raise UserError(f"{key} is not supported: use {', '.join(sorted(_KNOWN))}")
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise UserError(f"security.protocol is {protocol!r}: choose one of {', '.join(_PROTOCOLS)}")
    credentials = _credentials(properties) if protocol.startswith("SASL_") else None
    if not protocol.endswith("SSL"):
        return ClientSecurity(protocol=protocol, credentials=credentials)
    for kind in ("ssl.truststore.type", "ssl.keystore.type"):
        if properties.get(kind, "PEM").upper() != "PEM":
            raise UserError(
                f"{kind} is {properties[kind]}: only PEM files are supported, so convert the file to PEM"
            )
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").lower()
    certificate = _either(properties, "ssl.certificate.location", "ssl.keystore.location")
    return ClientSecurity(
        protocol=protocol,
        authorities=_either(properties, "ssl.ca.location", "ssl.truststore.location"),
        certificate=certificate,
        key=properties.get("ssl.key.location", ""),
        key_password=_secret(properties, "ssl.key.password"),
        checks_host=algorithm not in ("", "none"),
        credentials=credentials,
    )


def _credentials(properties: Mapping[str, str]) -> Credentials | None:
    """Return the credentials, or None if the properties contain none. The console then prompts for them."""
    mechanism = _either(properties, "sasl.mechanism", "sasl.mechanisms").upper()
    if not mechanism:
        return None
    if mechanism not in _MECHANISMS:
        raise UserError(f"sasl.mechanism is {mechanism!r}: choose one of {', '.join(_MECHANISMS)}")
    if mechanism == "OAUTHBEARER":
        return bearer(_token_of(properties))
    login = _jaas_options(properties.get("sasl.jaas.config", ""))
    user = properties.get("sasl.username") or login.get("username", "")
    password = _secret(properties, "sasl.password") or login.get("password", "")
    if not user or not password:
        raise UserError(
            f"{mechanism} needs a user and a password: set sasl.username and sasl.password, or sasl.jaas.config"
        )
    if mechanism == "PLAIN":
        return plain(user, password)
    return scram(mechanism, user, password, is_token=login.get("tokenauth", "") == "true")


def _token_of(properties: Mapping[str, str]) -> Callable[[], str]:
    url = properties.get("sasl.oauthbearer.token.endpoint.url", "")
    reference = properties.get("sasl.oauthbearer.token", "")
    if not reference and url.startswith("file:"):
        reference = "file:" + url.removeprefix("file:").removeprefix("//")
    if not reference:
        raise UserError(
            "OAUTHBEARER needs a token: set sasl.oauthbearer.token to file:PATH, env:NAME or "
            "command:LINE"
        )
    return lambda: read_secret(reference, "sasl.oauthbearer.token").decode().strip()


def _secret(properties: Mapping[str, str], key: str) -> str:
    """Return a secret, which is given either literally, as in Kafka, or as a reference. Raises UserError."""
    value = properties.get(key, "")
    if value.startswith(("file:", "env:", "command:")):
        try:
            return read_secret(value, key).decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{key}: the secret is not UTF-8") from error
    return value


def _either(properties: Mapping[str, str], first: str, second: str) -> str:
    return properties.get(first) or properties.get(second, "")


def _given(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _jaas_options(text: str) -> dict[str, str]:
    """Return the options of a login module, given as `CLASS required NAME="VALUE" …;`."""
    options = {}
    for name, double, single, bare in _JAAS_OPTION.findall(text):
        options[name] = _ESCAPED.sub(r"\1", double or single) or bare
    return options


def _properties(text: str) -> dict[str, str]:
    """Read Java properties: NAME=VALUE, NAME:VALUE or NAME VALUE. # and ! begin comments, and \\ continues a line."""
    values = {}
    lines = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text).splitlines()
    for line in (each.strip() for each in lines):
        if line and line[0] not in "#!":
            name, _, value = re.sub(r"\s*[=:\s]\s*", "\0", line, count=1).partition("\0")
            values[name] = _ESCAPED.sub(r"\1", value)
    return values
