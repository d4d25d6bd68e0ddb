"""Listeners in Kafka's syntax, principals, and the names derived from certificates (KIP-371)."""

import pytest

from lacuna.agent.security.listeners import Listener, Protocol, parse_listeners
from lacuna.agent.security.mapping import MappingRulesError, PrincipalRules
from lacuna.base.errors import UserError
from lacuna.controlplane.shared.principal import (
    ANONYMOUS,
    Principal,
    parse_principal,
    parse_principals,
)


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
        ("SSL://0.0.0.0:1", None, "", "give an address that they can use with --advertise"),
        ("://127.0.0.1:1", None, "", "is not a listener"),
        ("SSL://127.0.0.1", None, "", "is not an address: write HOST:PORT"),
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
        # What Java's replacements mean: escapes, and groups that are not there.
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
