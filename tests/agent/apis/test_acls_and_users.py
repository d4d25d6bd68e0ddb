"""DescribeAcls, CreateAcls, DeleteAcls, DescribeUserScramCredentials and AlterUserScramCredentials over the wire."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import security as wire
from tests.agent.apis.clusters import Setup
from tests.agent.harness import RawClient
from tests.agent.plane import cluster

TOPIC, ALLOW, READ = 2, 3, 3


@pytest.mark.parametrize("version", range(4))
async def test_acls_are_disabled(setup: Setup, version: int) -> None:
    """Each ACL or filter gets an error, because none would have an effect."""
    asked = wire.DescribeAclsRequest(TOPIC, "t", operation=READ, permission_type=ALLOW)
    described = await setup.client.call(version, asked)
    assert described.error_code == ErrorCode.SECURITY_DISABLED
    assert described.resources == ()
    acl = wire.AclCreation(
        TOPIC, "t", principal="User:a", host="*", operation=READ, permission_type=ALLOW
    )
    created = await setup.client.call(version, wire.CreateAclsRequest([acl, acl]))
    assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    acls = wire.DeleteAclsFilter(TOPIC, "t", operation=READ, permission_type=ALLOW)
    deleted = await setup.client.call(version, wire.DeleteAclsRequest([acls]))
    (result,) = deleted.filter_results
    assert (result.error_code, result.matching_acls) == (ErrorCode.SECURITY_DISABLED, ())


@pytest.fixture
async def guarded() -> AsyncIterator[Setup]:
    """A cluster with an authorizer, and a client that may do anything."""
    settings = SecuritySettings(authorizer=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS")
    async with (
        cluster(security=settings) as running,
        RawClient.connected(running.server.port) as client,
    ):
        yield Setup(running, client)


def acl(name: str, **other: Any) -> wire.AclCreation:
    made = wire.AclCreation(TOPIC, name, 3, "User:a", "*", READ, ALLOW)
    return made._replace(**other)


async def create(setup: Setup, *acls: wire.AclCreation, version: int = 3) -> list[int]:
    answer = await setup.client.call(version, wire.CreateAclsRequest(acls))
    return [each.error_code for each in answer.results]


async def names(setup: Setup, version: int = 3) -> list[str]:
    asked = wire.DescribeAclsRequest(1, None, 1 if version else 3, None, None, 1, 1)
    answer = await setup.client.call(version, asked)
    assert answer.error_code == ErrorCode.NONE
    return [each.resource_name for each in answer.resources for _ in each.acls]


async def delete(setup: Setup, *names: str, version: int = 3) -> list[tuple[int, list[str]]]:
    filters = [wire.DeleteAclsFilter(TOPIC, name, 3, None, None, 1, 1) for name in names]
    answer = await setup.client.call(version, wire.DeleteAclsRequest(filters))
    return [
        (each.error_code, [one.resource_name for one in each.matching_acls])
        for each in answer.filter_results
    ]


@pytest.mark.parametrize("version", range(4))
async def test_acls_are_kept(guarded: Setup, version: int) -> None:
    """Adding an existing ACL is not an error and adds no duplicate."""
    assert await create(guarded, acl("t"), acl("u"), acl("t"), version=version) == [0, 0, 0]
    assert await names(guarded, version) == ["t", "u"]
    assert await delete(guarded, "t", "t", "x", version=version) == [
        (0, ["t"]),
        (0, ["t"]),
        (0, []),
    ]
    assert await names(guarded, version) == ["u"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 4},
        {"resource_type": 1},
        {"resource_type": 8},
        {"resource_type": -1},
        {"resource_name": ""},
        {"resource_name": "x" * 1025},
        {"resource_pattern_type": 2},
        {"principal": "a"},
        {"principal": "User:"},
        {"host": ""},
        {"operation": 1},
        {"operation": 16},
        {"permission_type": 1},
        {"permission_type": 4},
    ],
)
async def test_an_acl_that_makes_no_sense_is_refused_alone(
    guarded: Setup, wrong: dict[str, Any]
) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    assert await create(guarded, acl("bad", **wrong), acl("good")) == [invalid, 0]
    assert await names(guarded) == ["good"]


async def test_one_request_changes_only_so_many(
    guarded: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is 10,000 in Kafka, and lower here to keep the test fast."""
    acls = [acl(f"t{number}") for number in range(3)]
    assert await create(guarded, *acls) == [0, 0, 0]
    monkeypatch.setattr("lacuna.agent.apis.k29_acls.MOST_AT_ONCE", 2)
    invalid = ErrorCode.INVALID_REQUEST
    assert await create(guarded, *acls) == [invalid] * 3
    assert await delete(guarded, "t0", "t1", "t2") == [(invalid, [])] * 3
    assert len(await names(guarded)) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type_filter": 0},
        {"pattern_type_filter": 9},
        {"operation": 0},
        {"permission_type": 9},
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(
    guarded: Setup, wrong: dict[str, Any]
) -> None:
    filters = wire.DeleteAclsFilter(TOPIC, None, 1, None, None, 1, 1)._replace(**wrong)
    described = await guarded.client.call(3, wire.DescribeAclsRequest(*filters))
    assert described.error_code == ErrorCode.INVALID_REQUEST
    deleted = await guarded.client.call(3, wire.DeleteAclsRequest([filters]))
    assert deleted.filter_results[0].error_code == ErrorCode.INVALID_REQUEST


SHA_256, SHA_512 = 1, 2


def upsert(
    name: str, mechanism: int = SHA_256, iterations: int = 4096
) -> wire.ScramCredentialUpsertion:
    return wire.ScramCredentialUpsertion(name, mechanism, iterations, b"s", b"p")


async def alter(
    setup: Setup,
    deletions: Sequence[wire.ScramCredentialDeletion] = (),
    upsertions: Sequence[wire.ScramCredentialUpsertion] = (),
) -> dict[str, ErrorCode]:
    altered = await setup.client.call(
        0, wire.AlterUserScramCredentialsRequest(deletions, upsertions)
    )
    return {each.user: ErrorCode(each.error_code) for each in altered.results}


async def test_credentials_are_set_and_deleted(setup: Setup) -> None:
    done = await alter(setup, [], [upsert("u"), upsert("u", SHA_512), upsert("v")])
    assert done == {"u": ErrorCode.NONE, "v": ErrorCode.NONE}
    gone = wire.ScramCredentialDeletion("u", SHA_256)
    assert await alter(setup, [gone]) == {"u": ErrorCode.NONE}
    assert await alter(setup, [gone]) == {"u": ErrorCode.RESOURCE_NOT_FOUND}
    answer = await setup.client.call(0, wire.DescribeUserScramCredentialsRequest(None))
    found = {each.user: list(each.credential_infos) for each in answer.results}
    assert found == {
        "u": [wire.CredentialInfo(SHA_512, 4096)],
        "v": [wire.CredentialInfo(SHA_256, 4096)],
    }


@pytest.mark.parametrize(
    ("upsertions", "code"),
    [
        ([upsert("u", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsert("u", iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsert("u", iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsert("u"), upsert("u")], ErrorCode.DUPLICATE_RESOURCE),
        ([upsert("")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
async def test_an_invalid_change_is_refused_and_the_others_are_made(
    setup: Setup, upsertions: list[wire.ScramCredentialUpsertion], code: ErrorCode
) -> None:
    done = await alter(setup, [], [*upsertions, upsert("other")])
    assert done == {upsertions[0].name: code, "other": ErrorCode.NONE}


async def test_the_password_of_a_user_of_the_file_is_not_set(tmp_path: Path) -> None:
    """It would have no effect. Credentials set before the user was added to the file can be deleted."""
    (tmp_path / "password").write_text("secret")
    (tmp_path / "users.toml").write_text(f'admin = "file:{tmp_path}/password"\n')
    listeners = (Listener(), Listener("SASL", Protocol.SASL_PLAINTEXT))
    security = SecuritySettings(users_file=str(tmp_path / "users.toml"))
    async with (
        cluster(AgentSettings(listeners=listeners), security) as running,
        RawClient.connected(running.server.port) as client,
    ):
        altered = await client.call(
            0,
            wire.AlterUserScramCredentialsRequest([], [upsert("admin", SHA_512), upsert("other")]),
        )
        refused, made = altered.results
        assert (refused.user, refused.error_code) == ("admin", ErrorCode.UNACCEPTABLE_CREDENTIAL)
        assert "in this agent's sasl.users.file" in (refused.error_message or "")
        assert (made.user, made.error_code) == ("other", ErrorCode.NONE)
        setup = Setup(running, client)
        gone = [wire.ScramCredentialDeletion("admin", SHA_512)]
        assert await alter(setup, gone) == {"admin": ErrorCode.RESOURCE_NOT_FOUND}


async def test_credentials_are_described(setup: Setup) -> None:
    """No user has any. Naming a user twice returns an error, as in Kafka."""

    async def described(names: list[str] | None) -> list[tuple[str, int]]:
        users = None if names is None else [wire.UserName(name) for name in names]
        answer = await setup.client.call(0, wire.DescribeUserScramCredentialsRequest(users))
        assert answer.error_code == ErrorCode.NONE
        return [(each.user, each.error_code) for each in answer.results]

    assert await described(None) == []
    assert await described(["u", "v", "v"]) == [
        ("u", ErrorCode.RESOURCE_NOT_FOUND),
        ("v", ErrorCode.DUPLICATE_RESOURCE),
    ]
