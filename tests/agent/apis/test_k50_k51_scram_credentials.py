"""DescribeUserScramCredentials and AlterUserScramCredentials: connections are not authenticated."""

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
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.agent.apis.clusters import Setup

SHA_256 = 1


async def test_no_credential_is_kept_or_found(setup: Setup) -> None:
    """An error for each user."""
    new = ScramCredentialUpsertion("u", SHA_256, 4096, b"s", b"p")
    gone = ScramCredentialDeletion("v", SHA_256)
    altered = await setup.client.call(
        ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
        ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
        0,
        AlterUserScramCredentialsRequest([gone], [new]),
    )
    assert [(each.user, each.error_code) for each in altered.results] == [
        ("v", ErrorCode.RESOURCE_NOT_FOUND),
        ("u", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ]


async def test_credentials_are_described(setup: Setup) -> None:
    """Nobody has any; a user named twice is refused, as in Kafka."""

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
