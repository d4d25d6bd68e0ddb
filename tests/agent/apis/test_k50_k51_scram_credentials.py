"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
    ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from lacuna.wire.messages.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
    DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.agent.apis.clusters import Setup
from tests.agent.harness import RawClient
from tests.agent.plane import cluster

SHA_256, SHA_512 = 1, 2


def upsert(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, b"s", b"p")


async def alter(
    setup: Setup,
    deletions: Sequence[ScramCredentialDeletion] = (),
    upsertions: Sequence[ScramCredentialUpsertion] = (),
) -> dict[str, ErrorCode]:
    altered = await setup.client.call(
        ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
        ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
        0,
        AlterUserScramCredentialsRequest(deletions, upsertions),
    )
    return {each.user: ErrorCode(each.error_code) for each in altered.results}


async def test_credentials_are_set_and_deleted(setup: Setup) -> None:
    done = await alter(setup, [], [upsert("u"), upsert("u", SHA_512), upsert("v")])
    assert done == {"u": ErrorCode.NONE, "v": ErrorCode.NONE}
    gone = ScramCredentialDeletion("u", SHA_256)
    assert await alter(setup, [gone]) == {"u": ErrorCode.NONE}
    assert await alter(setup, [gone]) == {"u": ErrorCode.RESOURCE_NOT_FOUND}
    answer = await setup.client.call(
        DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
        DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
        0,
        DescribeUserScramCredentialsRequest(None),
    )
    found = {each.user: list(each.credential_infos) for each in answer.results}
    assert found == {"u": [CredentialInfo(SHA_512, 4096)], "v": [CredentialInfo(SHA_256, 4096)]}


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
    setup: Setup, upsertions: list[ScramCredentialUpsertion], code: ErrorCode
) -> None:
    done = await alter(setup, [], [*upsertions, upsert("other")])
    assert done == {upsertions[0].name: code, "other": ErrorCode.NONE}


async def test_the_password_of_a_user_of_the_file_is_not_set(tmp_path: Path) -> None:
    """It would have no effect. Credentials from before the user was in the file can be deleted."""
    (tmp_path / "password").write_text("secret")
    (tmp_path / "users.toml").write_text(f'admin = "file:{tmp_path}/password"\n')
    listeners = (Listener(), Listener("SASL", Protocol.SASL_PLAINTEXT))
    security = SecuritySettings(users_file=str(tmp_path / "users.toml"))
    async with cluster(AgentSettings(listeners=listeners), security) as running:
        client = await RawClient.connect(running.server.port)
        altered = await client.call(
            ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
            ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
            0,
            AlterUserScramCredentialsRequest([], [upsert("admin", SHA_512), upsert("other")]),
        )
        refused, made = altered.results
        assert (refused.user, refused.error_code) == ("admin", ErrorCode.UNACCEPTABLE_CREDENTIAL)
        assert "in this agent's sasl.users.file" in (refused.error_message or "")
        assert (made.user, made.error_code) == ("other", ErrorCode.NONE)
        setup = Setup(running, client)
        gone = [ScramCredentialDeletion("admin", SHA_512)]
        assert await alter(setup, gone) == {"admin": ErrorCode.RESOURCE_NOT_FOUND}
        await client.close()


async def test_credentials_are_described(setup: Setup) -> None:
    """No user has any. A user named twice returns an error, as in Kafka."""

    async def described(names: list[str] | None) -> list[tuple[str, int]]:
        users = None if names is None else [UserName(name) for name in names]
        answer = await setup.client.call(
            DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
            DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
            0,
            DescribeUserScramCredentialsRequest(users),
        )
        assert answer.error_code == ErrorCode.NONE
        return [(each.user, each.error_code) for each in answer.results]

    assert await described(None) == []
    assert await described(["u", "v", "v"]) == [
        ("u", ErrorCode.RESOURCE_NOT_FOUND),
        ("v", ErrorCode.DUPLICATE_RESOURCE),
    ]
