"""Tests `lacuna acls` and `lacuna users` on a cluster with ACLs, on which anonymous clients may do anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from lacuna.operating.agents import AgentParts
from lacuna.operating.changing import remove_user
from lacuna.testing import Cluster
from lacuna.wire.messages import security as wire
from tests.lacuna.conftest import users_file, with_lasting_leases

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lacuna.conftest import Command, Refusal


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster. Its second listener is for the user `shop`, who is in the agent's users file."""
    folder = tmp_path_factory.mktemp("guarded")
    security = SecuritySettings(
        authorizer=STANDARD_AUTHORIZER,
        super_users="User:ANONYMOUS",
        users_file=users_file(folder, "shop"),
    )
    listeners = (Listener(), Listener("SASL", Protocol.SASL_PLAINTEXT))
    parts = AgentParts(agent=AgentSettings(listeners=listeners), security=security)
    with Cluster(parts=parts) as cluster:
        yield with_lasting_leases(cluster)


@pytest.fixture
def asks_line(lacuna: Command, guarded: Cluster) -> Callable[[str], Any]:
    """A function that runs a command line with --json and returns the output."""

    def run(line: str) -> Any:
        ran = lacuna(*line.split(), "--json", LACUNA_BOOTSTRAP=guarded.bootstrap)
        assert (ran.code, ran.err) == (0, ""), ran
        return json.loads(ran.out)

    return run


def test_acls_are_added_listed_and_removed(asks_line: Callable[[str], Any]) -> None:
    """A dry run shows all of a producer's ACLs and changes nothing."""
    wanted = (
        "acls add --allow-principal User:alice --producer --topic orders --transactional-id shop"
    )
    of_alice = "acls list --principal User:alice"
    planned = asks_line(f"{wanted} --dry-run")
    assert asks_line(of_alice) == []
    added = asks_line(wanted)
    assert added == planned
    assert [(each["resource"], each["name"], each["operation"]) for each in added] == [
        ("Topic", "orders", "Write"),
        ("Topic", "orders", "Create"),
        ("Topic", "orders", "Describe"),
        ("TransactionalId", "shop", "Write"),
        ("TransactionalId", "shop", "Describe"),
    ]
    assert asks_line(of_alice) == added
    remove = "acls remove --topic orders"
    would = asks_line(f"{remove} --operation create --dry-run")
    assert [each["operation"] for each in would] == ["Create"]
    assert asks_line(f"{remove} --operation create") == would
    assert len(asks_line(f"{remove} --transactional-id shop")) == 4
    assert asks_line(of_alice) == []


def test_a_name_finds_the_acls_that_apply_to_it(asks_line: Callable[[str], Any]) -> None:
    asks_line("acls add --deny-principal User:bob --topic pay- --resource-pattern-type prefixed")
    asks_line("acls add --allow-principal User:bob --cluster --group g --allow-host 10.0.0.1")
    asks_line("acls add --allow-principal User:* --topic * --operation alter-configs")
    try:
        found = asks_line("acls list --topic pay-1 --resource-pattern-type match")
    finally:
        asks_line("acls remove --topic * --operation alter-configs")
    assert [(each["name"], each["permission"], each["operation"]) for each in found] == [
        ("*", "allow", "AlterConfigs"),
        ("pay-", "deny", "All"),
    ]
    of_bob = asks_line("acls list --principal User:bob")
    assert {(each["resource"], each["host"]) for each in of_bob} == {
        ("Topic", "*"),
        ("Group", "10.0.0.1"),
        ("Cluster", "10.0.0.1"),
    }


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("add --allow-principal User:a", "the ACL has no resource"),
        ("add --topic t", "the ACL has no principal"),
        ("add --topic t --allow-principal a", "write TYPE:NAME"),
        ("add --topic t --allow-principal User:a --operation fly", "AlterConfigs"),
        (
            "add --topic t --allow-principal User:a --resource-pattern-type any",
            "literal or prefixed",
        ),
        ("remove", "no resource is named"),
        ("list --resource-pattern-type x", "choose one of any, match, literal, prefixed"),
    ],
)
def test_acls_that_say_too_little_are_refused(
    refused: Refusal, guarded: Cluster, line: str, says: str
) -> None:
    assert says in refused("acls", *line.split(), LACUNA_BOOTSTRAP=guarded.bootstrap)


def test_users_are_added_listed_and_removed(
    lacuna: Command, asks_line: Callable[[str], Any], guarded: Cluster
) -> None:
    """The option names the source of the password, since a password is never an argument."""
    where = {"LACUNA_BOOTSTRAP": guarded.bootstrap, "OF_ALICE": "secret"}
    ran = lacuna("users", "add", "alice", "--password", "env:OF_ALICE", **where)
    assert (ran.code, ran.err) == (0, "")
    assert asks_line("users list") == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert lacuna("users", "remove", "alice", **where).code == 0
    assert asks_line("users list") == []
    assert lacuna("users", "remove", "alice", **where).err.startswith(
        "lacuna: the user alice does not exist"
    )


@pytest.mark.parametrize(
    ("answers", "returned", "asked"),
    [((0, 0), [], 2), ((91, 0), [], 2), ((0, 91), [], 2), ((91, 91), [91], 2), ((31, 0), [31], 1)],
)
async def test_a_refusal_ends_the_removal_of_a_user(
    answers: tuple[int, ...], returned: list[int], asked: int
) -> None:
    """A missing password (91) is not a refusal unless both are missing. Without permission (31), nothing changes."""
    left = list(answers)

    async def answer(*_: Any) -> Any:
        result = wire.AlterUserScramCredentialsResult("alice", left.pop(0))
        return wire.AlterUserScramCredentialsResponse(results=[result])

    assert [each.error_code for each in await remove_user(answer, "alice")] == returned
    assert len(answers) - len(left) == asked


def test_a_password_is_no_argument(refused: Refusal, guarded: Cluster) -> None:
    said = refused(
        "users", "add", "alice", "--password", "secret", LACUNA_BOOTSTRAP=guarded.bootstrap
    )
    assert "file:PATH, env:NAME or command:LINE" in said
    assert "secret must" not in said


def test_a_cluster_without_an_authorizer_says_so(refuse: Refusal) -> None:
    """Otherwise, an operator would believe that the ACL has an effect."""
    said = refuse("acls", "add", "--allow-principal", "User:alice", "--topic", "t")
    assert "the agents run without --authorizer" in said


def test_who_may_not_is_told_so(refused: Refusal) -> None:
    """The agent logs the denial as well."""
    security = SecuritySettings(authorizer=STANDARD_AUTHORIZER, super_users="User:admin")
    with Cluster(parts=AgentParts(security=security)) as cluster:
        for command in (("topics", "create", "t"), ("acls", "list"), ("users", "list")):
            said = refused(*command, LACUNA_BOOTSTRAP=cluster.bootstrap)
            assert "ACLs do not allow it" in said, command


def test_the_password_of_a_user_of_the_file_is_not_set(refused: Refusal, guarded: Cluster) -> None:
    where = {"LACUNA_BOOTSTRAP": guarded.bootstrap, "OF_SHOP": "other"}
    said = refused("users", "add", "shop", "--password", "env:OF_SHOP", **where)
    assert "shop: The user is in this agent's sasl.users.file" in said
    assert "remove the user from the file" in said


def test_who_may_write_and_read_needs_no_other_right(
    lacuna: Command, asks_line: Callable[[str], Any], guarded: Cluster, tmp_path: Path
) -> None:
    """`produce` and `consume` run over SASL as a user with only the ACLs for producing and consuming."""
    properties = tmp_path / "shop.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.username=shop\n"
        "sasl.password=secret\n"
    )
    guarded.create_topic("sold", 1)
    shop = {
        "LACUNA_BOOTSTRAP": f"127.0.0.1:{guarded.embedded.agents[0].server.ports[1]}",
        "LACUNA_COMMAND_CONFIG": str(properties),
    }
    for role in ("--producer", "--consumer --group g"):
        asks_line(f"acls add --allow-principal User:shop --topic sold {role}")
    assert lacuna("produce", "sold", stdin=b"hello\n", **shop).code == 0
    read = lacuna("consume", "sold", "--from", "earliest", "--until", "end", **shop)
    assert (read.code, read.out.strip()) == (0, "hello"), read
    shown = lacuna("topics", "describe", "sold", **shop)
    assert "ACLs do not allow DescribeConfigs" in shown.out + shown.err, shown
