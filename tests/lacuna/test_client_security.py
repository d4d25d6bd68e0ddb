"""Tests client.properties, how a client verifies a server, and the commands with TLS and SASL."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.sasl.scram import ScramExchange
from lacuna.agent.security.sasl.users import SHA_256, SHA_512, Users
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.client_security import ClientSecurity, client_security, read_client_properties
from lacuna.base.errors import UserError
from lacuna.base.sasl import SCRAM, Credentials, SaslError, scram
from lacuna.controlplane.shared.security import Security
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.agent.security.test_scram import no_tokens
from tests.certificates import Authority
from tests.lacuna.conftest import users_file, with_lasting_leases

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal

SASL = {"security.protocol": "SASL_SSL"}
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="al\\"ice" password="s;=e c" tokenauth="true";'
)


def read(folder: Path, text: str) -> ClientSecurity:
    path = folder / "client.properties"
    path.write_text(text)
    return read_client_properties(path)


def tokens(credentials: Credentials) -> bytes:
    return next(credentials.begin())


def test_a_file_of_java(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "! as Kafka's tools read it\n"
        "security.protocol: SASL_SSL\n"
        "  ssl.truststore.location = /ca.pem\n"
        "ssl.truststore.type=PEM\n"
        "ssl.endpoint.identification.algorithm=\n"
        "sasl.mechanism SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '    username="alice" \\\n'
        "    password='secret';\n"
        "sasl.login.class=com.example.Login\n"
        "request.timeout.ms=5000\n",
    )
    assert (found.protocol, found.authorities, found.checks_host) == ("SASL_SSL", "/ca.pem", False)
    assert found.credentials is not None
    assert (found.credentials.user, found.credentials.password) == ("alice", "secret")
    settings = found.librdkafka()
    assert settings["ssl.endpoint.identification.algorithm"] == "none"
    assert settings["sasl.mechanism"] == "SCRAM-SHA-256"


def test_a_login_module_with_what_has_to_be_escaped() -> None:
    jaas = {**SASL, "sasl.jaas.config": JAAS}
    found = client_security({**jaas, "sasl.mechanism": "PLAIN"})
    assert found.credentials is not None
    assert tokens(found.credentials) == b'\0al"ice\0s;=e c'
    token = client_security({**jaas, "sasl.mechanism": "SCRAM-SHA-256"})
    assert token.credentials is not None
    assert tokens(token.credentials).endswith(b",tokenauth=true")


def test_secrets_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "token").write_text("of the identity provider\n")
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "alice"}
    named = client_security(
        {**sasl, "sasl.mechanism": "PLAIN", "sasl.password": f"file:{tmp_path}/password"}
    )
    assert named.credentials is not None
    assert tokens(named.credentials) == b"\0alice\0secret"
    for key, place in (
        ("sasl.oauthbearer.token", f"file:{tmp_path}/token"),
        ("sasl.oauthbearer.token.endpoint.url", f"file://{tmp_path}/token"),
    ):
        bearer = client_security({**sasl, "sasl.mechanism": "OAUTHBEARER", key: place})
        assert bearer.credentials is not None
        sent = b"n,,\x01auth=Bearer of the identity provider\x01\x01"
        assert tokens(bearer.credentials) == sent
        assert bearer.librdkafka()["oauth_cb"]("")[0] == "of the identity provider"


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is 'TLS': choose one of PLAINTEXT"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism is 'GSSAPI'"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "a"}, "needs a user and a password"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "needs a token"),
        ({"ssl.keystore.password": "secret"}, "ssl.keystore.password is not supported"),
        ({"security.protocol": "SSL", "ssl.keystore.type": "JKS"}, "only PEM files"),
    ],
)
def test_what_cannot_be_is_said(properties: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said) as raised:
        client_security(properties)
    assert "secret" not in str(raised.value)


@pytest.mark.slow
@given(
    st.sampled_from(sorted(SCRAM)),
    st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text),
    st.text(min_size=1, max_size=20),
)
async def test_scram_with_our_server(mechanism: str, user: str, password: str) -> None:
    number = {"SCRAM-SHA-256": SHA_256, "SCRAM-SHA-512": SHA_512}[mechanism]
    server = ScramExchange(number, Users(Security(), {user: password.encode()}), no_tokens)
    client = scram(mechanism, user, password).begin()
    first = await server.respond(next(client))
    final = await server.respond(client.send(first.token))
    assert final.outcome is not None
    assert final.outcome.principal.name == user
    with pytest.raises(StopIteration):
        client.send(final.token)


async def test_a_server_must_know_the_password() -> None:
    server = ScramExchange(SHA_256, Users(Security(), {"alice": b"secret"}), no_tokens)
    client = scram("SCRAM-SHA-256", "alice", "secret").begin()
    first = await server.respond(next(client))
    client.send(first.token)
    with pytest.raises(SaslError, match="did not prove that it knows the password"):
        client.send(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"r=another,s=c2FsdA==,i=4096", "is not valid"),
        (b"r=NONCE,s=c2FsdA==,i=4096", "is not valid"),  # it adds nothing
        (b"r=NONCEx,s=c2FsdA==,i=1", "1 SCRAM iterations, which is outside the safe range"),
        (b"r=NONCEx,s=c2FsdA==,i=999999999", "outside the safe range"),
        (b"r=NONCEx,s=?,i=4096", "not valid Base64"),
        (b"e=other-error", "is not valid"),
    ],
)
def test_what_a_server_may_not_say(first: bytes, said: str) -> None:
    client = scram("SCRAM-SHA-256", "alice", "secret").begin()
    nonce = next(client).rpartition(b"r=")[2]
    with pytest.raises(SaslError, match=said):
        client.send(first.replace(b"NONCE", nonce))


SASL_SSL = Listener("SASL_SSL", Protocol.SASL_SSL)
SSL = Listener("SSL", Protocol.SSL)
PLAIN_TEXT = Listener("PLAINTEXT", Protocol.PLAINTEXT)


class Secured:
    """A cluster with a listener of each kind, and its clients' files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        own = self.authority.issue("agent")
        self.client = self.authority.issue("alice", password="of the key")
        self.cluster = Cluster(
            parts=AgentParts(
                agent=AgentSettings(listeners=(SASL_SSL, SSL, PLAIN_TEXT)),
                security=SecuritySettings(
                    certificate=own.certificate,
                    key=own.key,
                    authorities=self.authority.path,
                    client_auth="required",
                    mechanisms="SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
                    users_file=users_file(folder, "alice"),
                ),
            )
        )

    def address(self, listener: Listener) -> str:
        ports = self.cluster.embedded.agents[0].server.ports
        return f"127.0.0.1:{ports[(SASL_SSL, SSL, PLAIN_TEXT).index(listener)]}"

    def properties(self, **settings: str) -> str:
        """Write a client.properties file. In names, _ stands for a dot."""
        lines = [f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()]
        path = self.folder / "client.properties"
        path.write_text("# for tests\n" + "".join(lines))
        return str(path)

    def scram(self, mechanism: str = "SCRAM-SHA-512", password: str = "secret") -> dict[str, str]:
        login = f'username="alice" password="{password}";'
        return {
            "security_protocol": "SASL_SSL",
            "ssl_truststore_location": self.authority.path,
            "ssl_truststore_type": "PEM",
            "sasl_mechanism": mechanism,
            "sasl_jaas_config": f"org.apache.kafka.common.security.scram.ScramLoginModule required {login}",
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    found = Secured(tmp_path_factory.mktemp("secured"))
    with found.cluster as cluster:
        with_lasting_leases(cluster)
        yield found


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_commands_authenticate_with_a_password(
    secured: Secured, lacuna: Command, mechanism: str
) -> None:
    file = secured.properties(**secured.scram(mechanism))
    address = ("-b", secured.address(SASL_SSL), "--command-config", file)
    topic = f"t-{mechanism.lower()}"
    assert lacuna("topics", "create", topic, *address).code == 0
    written = lacuna("produce", topic, *address, stdin=b"one\ntwo\n")
    assert written.code == 0, written
    read = lacuna("consume", topic, "--until", "end", *address)
    assert read.out.splitlines() == ["one", "two"], read
    # It queries every agent, at the address that this one returns.
    assert lacuna("groups", "list", *address).code == 0


def test_commands_authenticate_with_a_certificate(secured: Secured, lacuna: Command) -> None:
    (secured.folder / "of the key").write_text("of the key\n")
    file = secured.properties(
        security_protocol="SSL",
        ssl_ca_location=secured.authority.path,
        ssl_certificate_location=secured.client.certificate,
        ssl_key_location=secured.client.key,
        ssl_key_password=f"file:{secured.folder}/of the key",
    )
    ran = lacuna("topics", "list", "-b", secured.address(SSL), LACUNA_COMMAND_CONFIG=file)
    assert (ran.code, ran.err) == (0, "")


def test_what_is_wrong_is_said(secured: Secured, refused: Refusal) -> None:
    def said(listener: Listener, **settings: str) -> str:
        file = secured.properties(**settings)
        return refused("topics", "list", "-b", secured.address(listener), "--command-config", file)

    scram = secured.scram()
    wrong = said(SASL_SSL, **secured.scram(password="wrong"))
    assert "rejected the credentials" in wrong
    assert "wrong" not in wrong.replace("wrong user", "")
    unknown = said(SASL_SSL, **{**scram, "ssl_truststore_location": secured.stranger.path})
    assert "is not trusted" in unknown
    assert "ssl.ca.location" in unknown
    assert "does not accept OAUTHBEARER: set sasl.mechanism to one of SCRAM-SHA-256" in said(
        SASL_SSL, **{**scram, "sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": "env:HOME"}
    )
    assert "security.protocol" in said(
        PLAIN_TEXT, **{**scram, "security_protocol": "SASL_PLAINTEXT"}
    )
    assert "TLS" in said(PLAIN_TEXT, **scram)
    assert "client certificate, set ssl.certificate.location" in said(
        SSL, **{**scram, "security_protocol": "SSL"}
    )
    assert "--command-config" in refused("topics", "list", "-b", secured.address(SASL_SSL))
    assert "ssl.truststore.type is JKS" in said(SASL_SSL, **{**scram, "ssl_truststore_type": "JKS"})
    assert "ssl.crl is not supported" in said(SASL_SSL, **{**scram, "ssl_crl": "x"})


def test_a_source_of_an_import_names_its_own_option(secured: Secured, refused: Refusal) -> None:
    source = ("import", "status", "--from", secured.address(SASL_SSL))
    assert "--source-config" in refused(*source)
    file = secured.properties(**secured.scram(password="wrong"))
    said = refused(*source, "--source-config", file)
    assert "the source: " in said
    assert "rejected the credentials" in said
