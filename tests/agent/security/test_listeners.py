"""Listeners in Kafka's syntax, principals and their names (KIP-371), and incomplete security settings."""

from pathlib import Path
from typing import Any

import pytest

from lacuna.agent.security.access import Access
from lacuna.agent.security.listeners import Listener, Protocol, parse_listeners
from lacuna.agent.security.mapping import MappingRulesError, PrincipalRules
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.errors import UserError
from lacuna.controlplane.shared.principal import (
    ANONYMOUS,
    Principal,
    parse_principal,
    parse_principals,
)
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.v1.security_pb2 import ScramCredential, SecurityChanges
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.doubles.clock import ManualClock


@pytest.mark.parametrize(
    ("text", "advertised", "protocols", "expected"),
    [
        ("127.0.0.1:9092", None, "", [Listener(port=9092)]),
        (
            "0.0.0.0:9092",
            "kafka.example:19092",
            "",
            [Listener(host="0.0.0.0", port=9092, advertised=("kafka.example", 19092))],
        ),
        (
            "PLAINTEXT://127.0.0.1:1, sasl_ssl://[::1]:2",
            None,
            "",
            [
                Listener(port=1),
                Listener("SASL_SSL", Protocol.SASL_SSL, "::1", 2),
            ],
        ),
        (
            "IN://127.0.0.1:1,OUT://0.0.0.0:2",
            "OUT://kafka.example:3",
            "IN:PLAINTEXT,out:sasl_plaintext",
            [
                Listener("IN", Protocol.PLAINTEXT, "127.0.0.1", 1),
                Listener("OUT", Protocol.SASL_PLAINTEXT, "0.0.0.0", 2, ("kafka.example", 3)),
            ],
        ),
    ],
)
def test_listeners(
    text: str, advertised: str | None, protocols: str, expected: list[Listener]
) -> None:
    assert list(parse_listeners(text, advertised, protocols)) == expected


@pytest.mark.parametrize(
    ("text", "advertised", "protocols", "message"),
    [
        ("A://127.0.0.1:1", None, "", "the listener A has no security protocol"),
        ("A://127.0.0.1:1", None, "A:TLS", "the listener A has no security protocol"),
        ("SSL://127.0.0.1:1,ssl://127.0.0.1:2", None, "", "two listeners are called SSL"),
        (
            "SSL://127.0.0.1:1",
            "OTHER://h:1",
            "",
            "names OTHER, which is not a listener; the listeners are SSL",
        ),
        ("SSL://0.0.0.0:1", None, "", "specify an address that they can reach with --advertise"),
        ("://127.0.0.1:1", None, "", "is not a listener"),
        ("SSL://127.0.0.1", None, "", "is not an address: use HOST:PORT"),
    ],
)
def test_listeners_that_cannot_work(
    text: str, advertised: str | None, protocols: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        parse_listeners(text, advertised, protocols)


@pytest.mark.parametrize(
    ("host", "is_loopback"), [("localhost", True), ("127.9.0.1", True), ("::1", True), ("h", False)]
)
def test_which_hosts_are_this_machine(host: str, is_loopback: bool) -> None:
    assert Listener(host=host).is_loopback == is_loopback


def test_principals() -> None:
    assert str(parse_principal("User:a:b=c")) == "User:a:b=c"
    assert parse_principals(" User:a; User:CN=b,O=c;") == {
        Principal("User", "a"),
        Principal("User", "CN=b,O=c"),
    }
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    for text in ("alice", ":alice", "User:", ""):
        with pytest.raises(ValueError, match="write TYPE:NAME"):
            parse_principal(text)


EXAMPLES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        # KIP-371 and Kafka's documentation.
        (EXAMPLES, "CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,C=Unknown", "serviceuser"),
        (
            EXAMPLES,
            "CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown",
            "adminuser@admin",
        ),
        (EXAMPLES, "cn=Kafka.Example,OU=x", "kafka.example"),
        (EXAMPLES, "O=Tests", "O=Tests"),
        ("RULE:^CN=(.*?),.*$/$1/U", "CN=alice,O=x", "ALICE"),
        ("DEFAULT", "CN=alice,O=x", "CN=alice,O=x"),
        ("", "CN=alice,O=x", "CN=alice,O=x"),
        ("RULE:^CN=(.*?),.*$/$1/", "O=x,CN=alice", None),
        # The meaning of Java's replacements: escapes, and missing groups.
        (r"RULE:^CN=(.*?),O=a\/b$/$1\/x\$1/", "CN=alice,O=a/b", "alice/x$1"),
        (r"RULE:^CN=(.*?)$/\d$1$7/", "CN=alice", "dalice$7"),
        (r"RULE:^CN=(.*?)(,O=x)?$/<$1$2>/", "CN=alice", "<alice>"),
        ("RULE:CN=a.*/x/", "CN=b,CN=a", None),
    ],
)
def test_rules_make_names_of_subjects(rules: str, subject: str, name: str | None) -> None:
    assert PrincipalRules(rules).name(subject) == name


@pytest.mark.parametrize(
    "rules", ["RULE", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "DEFAULT RULE:a/b/", "default"]
)
def test_rules_that_cannot_be_read(rules: str) -> None:
    with pytest.raises(MappingRulesError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)


SASL = Listener("SASL_PLAINTEXT", Protocol.SASL_PLAINTEXT)


def access(*listeners: Listener, kept: Security | None = None, **given: object) -> Access:
    return Access(SecuritySettings(**given), listeners, kept or Security(), ManualClock())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"authorities": "ca.pem"}, "ssl.ca.location is set, but no listener uses TLS"),
        ({"key": "key.pem"}, "ssl.key.location is set, but no listener uses TLS"),
        ({"client_auth": "required"}, "ssl.client.auth is set, but no listener uses TLS"),
        ({"users_file": "users.toml"}, "sasl.users.file is set, but no listener uses SASL"),
    ],
)
def test_what_no_listener_uses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        access(Listener(), **given)


def test_users_whom_nobody_could_add(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no users.*--users-file"):
        access(SASL).check_users()
    with (
        pytest.raises(UserError, match="there are no users"),
        Cluster(parts=AgentParts(agent=AgentSettings(listeners=(SASL,)))),
    ):
        pass
    (tmp_path / "password").write_text("secret")
    users = tmp_path / "users.toml"
    users.write_text(f'admin = "file:{tmp_path / "password"}"')
    kept = Security()
    credential = ScramCredential(user="alice", mechanism=1, stored_key=b"x")
    kept.apply(SecurityChanges(credentials=[credential]))
    for allowed in (
        access(Listener(), SASL),  # users are added without SASL
        access(SASL, users_file=str(users)),
        access(SASL, kept=kept),
        access(SASL, mechanisms="OAUTHBEARER", oauth_unsecured=True),
    ):
        allowed.check_users()
