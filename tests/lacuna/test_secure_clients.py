"""Tests the commands as clients of a cluster with TLS and SASL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.certificates import Authority
from tests.lacuna.conftest import with_lasting_leases

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal

SASL_SSL = Listener("SASL_SSL", Protocol.SASL_SSL)
SSL = Listener("SSL", Protocol.SSL)
PLAIN_TEXT = Listener("PLAINTEXT", Protocol.PLAINTEXT)


class Secured:
    """A cluster with a listener of each kind, and the files of its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        own = self.authority.issue("agent")
        self.client = self.authority.issue("alice", password="of the key")
        (folder / "password").write_text("secret\n")
        (folder / "users").write_text(f'alice = "file:{folder}/password"\n')
        self.cluster = Cluster(
            parts=AgentParts(
                agent=AgentSettings(listeners=(SASL_SSL, SSL, PLAIN_TEXT)),
                security=SecuritySettings(
                    certificate=own.certificate,
                    key=own.key,
                    authorities=self.authority.path,
                    client_auth="required",
                    mechanisms="SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
                    users_file=str(folder / "users"),
                ),
            )
        )

    def address(self, listener: Listener) -> str:
        ports = self.cluster.embedded.agents[0].server.ports
        return f"127.0.0.1:{ports[(SASL_SSL, SSL, PLAIN_TEXT).index(listener)]}"

    def properties(self, **settings: str) -> str:
        """Write a file of client.properties. _ stands for a dot."""
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
    # It asks every agent, at the address that this one tells.
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
    assert "certificate of this client, set ssl.certificate.location" in said(
        SSL, **{**scram, "security_protocol": "SSL"}
    )
    assert "--command-config" in refused("topics", "list", "-b", secured.address(SASL_SSL))
    assert "ssl.truststore.type is JKS" in said(SASL_SSL, **{**scram, "ssl_truststore_type": "JKS"})
    assert "ssl.crl is not supported" in said(SASL_SSL, **{**scram, "ssl_crl": "x"})
