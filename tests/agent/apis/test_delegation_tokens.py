"""The APIs of delegation tokens, and the error of every SASL API on a listener without SASL.

These are CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken, SaslHandshake and
SaslAuthenticate.
"""

import base64
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lacuna.agent.admin.delegation_tokens import is_allowed
from lacuna.agent.api import Call
from lacuna.agent.client import Peer
from lacuna.agent.clock import SystemWallClock
from lacuna.agent.security.authentication import Authentication
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import ANONYMOUS, Principal
from lacuna.wire.messages import security as wire
from tests.agent.harness import RawClient, ScriptedControl, client_of, make_context
from tests.agent.plane import Cluster, cluster
from tests.agent.security.sasl_clients import ScramClient, log_in, log_in_plain
from tests.messages import REQUESTS, names

SASL = Listener("SASL_PLAINTEXT", Protocol.SASL_PLAINTEXT)
OPEN = Listener()
HOUR = 3_600_000
USERS = ("alice", "bob", "carol", " alice ")
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
NOT_FOUND = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
EXPIRED = ErrorCode.DELEGATION_TOKEN_EXPIRED
MISMATCH = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
BOB = wire.CreatableRenewers("User", "bob")


class Tokens:
    """Clients of one cluster, and their requests about tokens."""

    def __init__(self, running: Cluster) -> None:
        self.running = running
        self.clients: list[RawClient] = []

    async def client(self, name: str = "") -> RawClient:
        """Return a client of the SASL listener or, without a name, of the one without authentication."""
        made = await RawClient.connect(self.running.server.ports[0 if name else 1])
        self.clients.append(made)
        if name:
            assert (await log_in_plain(made, name, "secret")).error_code == ErrorCode.NONE
        return made

    async def by_token(self, token_id: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Any:
        """Return a client that authenticates with a token, and the answer to its login."""
        made = await RawClient.connect(self.running.server.ports[0])
        self.clients.append(made)
        scram = ScramClient(token_id, password, mechanism, more=",tokenauth=true")
        return made, await log_in(made, scram)


@pytest.fixture
async def tokens(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Tokens]:
    """A cluster in which a key enables tokens; a test can pass a different key."""
    (tmp_path / "key").write_text("0123456789abcdef")
    (tmp_path / "password").write_text("secret")
    (tmp_path / "users.toml").write_text(
        "".join(f'"{name}" = "file:{tmp_path}/password"\n' for name in USERS)
    )
    security = SecuritySettings(
        mechanisms="SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        users_file=str(tmp_path / "users.toml"),
        token_key=getattr(request, "param", f"file:{tmp_path}/key"),
        token_most_ms=10 * HOUR,
        token_expiry_ms=2 * HOUR,
        failure_delay_ms=0,
    )
    async with cluster(AgentSettings(listeners=(SASL, OPEN)), security) as running:
        made = Tokens(running)
        yield made
        for client in made.clients:
            await client.close()


async def create(
    client: RawClient,
    renewers: Sequence[wire.CreatableRenewers] = (),
    most_ms: int = -1,
    owner: tuple[str | None, str | None] = (None, None),
) -> wire.CreateDelegationTokenResponse:
    request = wire.CreateDelegationTokenRequest(*owner, renewers, most_ms)
    answer: wire.CreateDelegationTokenResponse = await client.call(3, request)
    return answer


async def renew(client: RawClient, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = await client.call(2, wire.RenewDelegationTokenRequest(hmac, period_ms))
    return answer.error_code, answer.expiry_timestamp_ms


async def expire(client: RawClient, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = await client.call(2, wire.ExpireDelegationTokenRequest(hmac, period_ms))
    return answer.error_code, answer.expiry_timestamp_ms


async def describe(client: RawClient, *owners: str) -> Any:
    """Describe all tokens, or those of some owners."""
    named = [wire.DescribeDelegationTokenOwner("User", name) for name in owners] or None
    return await client.call(3, wire.DescribeDelegationTokenRequest(named))


def password(made: wire.CreateDelegationTokenResponse) -> str:
    return base64.b64encode(made.hmac).decode()


async def test_a_token_logs_in_as_its_owner(tokens: Tokens) -> None:
    alice = await tokens.client("alice")
    made = await create(alice)
    assert made.error_code == ErrorCode.NONE
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
    assert made.expiry_timestamp_ms == made.issue_timestamp_ms + 2 * HOUR
    assert made.max_timestamp_ms == made.issue_timestamp_ms + 10 * HOUR
    assert len(made.hmac) == 64
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512", "SCRAM-SHA-512"):
        client, answer = await tokens.by_token(made.token_id, password(made), mechanism)
        assert answer.error_code == ErrorCode.NONE
        assert 0 < answer.session_lifetime_ms <= 2 * HOUR
        assert (await client.ask(16, 0)).error_code == ErrorCode.NONE
    assert sessions(tokens) == {("User:alice", False), ("User:alice", True)}


def sessions(tokens: Tokens) -> set[tuple[str, bool]]:
    """Return the connected principals, and whether each used a token."""
    peers = tokens.running.server.peers()
    return {(str(peer.session.principal), peer.session.is_token) for peer in peers}


async def test_spaces_belong_to_names(tokens: Tokens) -> None:
    """Otherwise, " alice " would get a token for alice."""
    almost = await tokens.client(" alice ")
    made = await create(almost)
    _, answer = await tokens.by_token(made.token_id, password(made))
    assert answer.error_code == ErrorCode.NONE
    assert sessions(tokens) == {("User: alice ", False), ("User: alice ", True)}
    alice = await tokens.client("alice")
    assert list((await describe(alice)).tokens) == []
    assert await renew(alice, made.hmac) == (MISMATCH, -1)


async def test_what_is_no_token_fails_as_a_wrong_password_does(tokens: Tokens) -> None:
    made = await create(await tokens.client("alice"))
    answers = [
        (await tokens.by_token(made.token_id, "wrong"))[1],
        (await tokens.by_token("no-such-token", password(made)))[1],
        (await tokens.by_token("alice", "secret"))[1],  # a user is not a token
        await log_in(
            await RawClient.connect(tokens.running.server.port),
            ScramClient(made.token_id, password(made)),  # and a token is not a user
        ),
    ]
    assert {each.error_code for each in answers} == {ErrorCode.SASL_AUTHENTICATION_FAILED}
    assert len({each.error_message for each in answers}) == 1


async def test_who_has_a_token_may_not_ask_about_tokens_or_set_passwords(tokens: Tokens) -> None:
    """Clients that have not authenticated may not request tokens either."""
    made = await create(await tokens.client("alice"))
    with_token, _ = await tokens.by_token(made.token_id, password(made))
    for client in (with_token, await tokens.client()):
        assert (await create(client)).error_code == NOT_ALLOWED
        assert await renew(client, made.hmac) == (NOT_ALLOWED, -1)
        assert await expire(client, made.hmac) == (NOT_ALLOWED, -1)
        assert (await describe(client)).error_code == NOT_ALLOWED
    change = wire.ScramCredentialUpsertion("alice", 1, 4096, b"salt", b"password")
    altered = await with_token.call(0, wire.AlterUserScramCredentialsRequest((), [change]))
    assert [each.error_code for each in altered.results] == [NOT_ALLOWED]


@pytest.mark.parametrize(
    ("protocol", "principal", "is_token", "expected"),
    [
        (Protocol.PLAINTEXT, ANONYMOUS, False, False),
        (Protocol.SSL, ANONYMOUS, False, False),
        (Protocol.SSL, Principal("User", "CN=app"), False, True),
        (Protocol.SASL_PLAINTEXT, Principal("User", "alice"), False, True),
        (Protocol.SASL_SSL, Principal("User", "alice"), False, True),
        (Protocol.SASL_SSL, Principal("User", "alice"), True, False),
    ],
)
def test_over_which_connections_tokens_may_be_asked_for(
    protocol: Protocol, principal: Principal, is_token: bool, expected: bool
) -> None:
    session = Authentication(Listener("L", protocol), SystemWallClock(), principal=principal)
    session.is_token = is_token
    peer = Peer(host="h", port=1, session=session)
    assert is_allowed(Call(make_context(ScriptedControl()), peer, 3)) == expected


@pytest.mark.parametrize("tokens", [""], indirect=True)
async def test_without_a_key_there_are_no_tokens(tokens: Tokens) -> None:
    alice = await tokens.client("alice")
    made = await create(alice)
    assert (made.error_code, made.principal_name, made.hmac) == (DISABLED, "alice", b"")
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (-1,) * 3
    assert await renew(alice, b"x") == (DISABLED, -1)
    assert await expire(alice, b"x") == (DISABLED, -1)
    assert (await describe(alice)).error_code == DISABLED


async def test_tokens_that_cannot_be_made(tokens: Tokens) -> None:
    alice = await tokens.client("alice")
    for given, code in (
        ({"renewers": [wire.CreatableRenewers("Group", "g")]}, ErrorCode.INVALID_PRINCIPAL_TYPE),
        ({"owner": ("Group", "alice")}, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        ({"owner": ("User", "bob")}, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        ({"renewers": [BOB] * 21}, ErrorCode.INVALID_REQUEST),
        (
            {"renewers": [BOB, wire.CreatableRenewers("User", "n" * 1025)]},
            ErrorCode.INVALID_REQUEST,
        ),
    ):
        assert (await create(alice, **given)).error_code == code
    assert list((await describe(alice)).tokens) == []


async def test_names_and_renewers_have_bounds(tokens: Tokens) -> None:
    alice = await tokens.client("alice")
    longest = [wire.CreatableRenewers("User", f"{number:02}" + "n" * 1022) for number in range(20)]
    assert (await create(alice, longest)).error_code == ErrorCode.NONE
    (made,) = (await describe(alice)).tokens
    assert [each.principal_name for each in made.renewers] == [
        each.principal_name for each in longest
    ]


async def test_one_owner_has_so_many_tokens_and_the_log_says_why(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lacuna.controlplane.shared.security.MOST_TOKENS_OF_ONE", 1)
    alice, bob = await tokens.client("alice"), await tokens.client("bob")
    made = await create(alice)
    for _ in range(2):
        assert (await create(alice)).error_code == ErrorCode.POLICY_VIOLATION
    assert (await create(bob)).error_code == ErrorCode.NONE
    assert (await renew(alice, made.hmac))[0] == ErrorCode.NONE
    (line,) = [each for each in caplog.messages if "delegation token change for" in each]
    assert line.startswith(
        "a delegation token change for 'User:alice' was rejected: "
        "A cluster can have at most 1 delegation tokens per owner"
    )


async def test_a_token_lives_as_long_as_is_asked_for_at_most(tokens: Tokens) -> None:
    alice = await tokens.client("alice")
    made = await create(alice, most_ms=HOUR)
    lives = made.expiry_timestamp_ms, made.max_timestamp_ms
    assert lives == (made.issue_timestamp_ms + HOUR,) * 2
    longest = await create(alice, most_ms=100 * HOUR)
    assert longest.max_timestamp_ms == longest.issue_timestamp_ms + 10 * HOUR


async def test_owners_and_renewers_renew_and_nobody_else(tokens: Tokens) -> None:
    alice, bob, carol = [await tokens.client(name) for name in ("alice", "bob", "carol")]
    made = await create(alice, [BOB])
    assert await renew(carol, made.hmac) == (MISMATCH, -1)
    assert await renew(alice, b"unknown") == (NOT_FOUND, -1)
    for client in (alice, bob):
        code, expiry = await renew(client, made.hmac)
        assert code == ErrorCode.NONE
        assert made.expiry_timestamp_ms <= expiry < made.expiry_timestamp_ms + HOUR
    code, sooner = await renew(bob, made.hmac, HOUR)
    assert (code, sooner < made.expiry_timestamp_ms) == (ErrorCode.NONE, True)
    short = await create(alice, most_ms=HOUR)
    assert await renew(alice, short.hmac) == (ErrorCode.NONE, short.max_timestamp_ms)
    (one, _) = (await describe(alice)).tokens
    assert one.expiry_timestamp == sooner


async def test_a_token_that_has_expired_cannot_be_used_or_renewed(tokens: Tokens) -> None:
    alice = await tokens.client("alice")
    made = await create(alice, most_ms=1)
    while tokens.running.context.clock.now_ms() <= made.expiry_timestamp_ms:
        await alice.ask(18, 0)
    assert await renew(alice, made.hmac) == (EXPIRED, -1)
    assert await expire(alice, made.hmac) == (EXPIRED, -1)
    assert list((await describe(alice)).tokens) == []
    _, answer = await tokens.by_token(made.token_id, password(made))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_a_token_is_ended_sooner_or_at_once(tokens: Tokens) -> None:
    alice, carol = await tokens.client("alice"), await tokens.client("carol")
    made = await create(alice)
    assert await expire(carol, made.hmac) == (MISMATCH, -1)
    code, expiry = await expire(alice, made.hmac, HOUR)
    assert (code, expiry < made.expiry_timestamp_ms) == (ErrorCode.NONE, True)
    code, expiry = await expire(alice, made.hmac, 100 * HOUR)
    assert (code, expiry) == (ErrorCode.NONE, made.max_timestamp_ms)
    code, expiry = await expire(alice, made.hmac)
    assert code == ErrorCode.NONE
    assert expiry <= tokens.running.context.clock.now_ms()
    assert await expire(alice, made.hmac) == (NOT_FOUND, -1)
    _, answer = await tokens.by_token(made.token_id, password(made))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_tokens_are_described_to_those_whom_they_concern(tokens: Tokens) -> None:
    alice, bob, carol = [await tokens.client(name) for name in ("alice", "bob", "carol")]
    made = await create(alice, [BOB])
    own = await create(bob)
    assert list((await describe(carol)).tokens) == []
    (seen,) = (await describe(alice)).tokens
    assert (seen.principal_name, seen.token_requester_principal_name) == ("alice", "alice")
    assert (seen.token_id, bytes(seen.hmac)) == (made.token_id, made.hmac)
    assert seen.issue_timestamp == made.issue_timestamp_ms
    assert (seen.expiry_timestamp, seen.max_timestamp) == (
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )
    assert [tuple(each) for each in seen.renewers] == [("User", "bob")]
    for owners, ids in (
        ((), {made.token_id, own.token_id}),
        (("bob",), {made.token_id, own.token_id}),
        (("alice",), {made.token_id}),
        (("carol",), set()),
    ):
        assert {each.token_id for each in (await describe(bob, *owners)).tokens} == ids
    none = await bob.call(3, wire.DescribeDelegationTokenRequest([]))
    assert (none.error_code, list(none.tokens)) == (ErrorCode.NONE, [])


ILLEGAL_SASL_STATE, REQUEST_NOT_ALLOWED = 34, 64
NONE = -1
HANDSHAKE, AUTHENTICATE, CREATE, RENEW, EXPIRE, DESCRIBE = 17, 36, 38, 39, 40, 41


@pytest.mark.parametrize(
    ("api_key", "versions", "fields", "error"),
    [
        (HANDSHAKE, range(2), {"mechanism": "PLAIN"}, ILLEGAL_SASL_STATE),
        (AUTHENTICATE, range(3), {"auth_bytes": b"\0user\0secret"}, ILLEGAL_SASL_STATE),
        (CREATE, range(1, 4), {"renewers": (), "max_lifetime_ms": NONE}, REQUEST_NOT_ALLOWED),
        (RENEW, range(1, 3), {"hmac": b"", "renew_period_ms": NONE}, REQUEST_NOT_ALLOWED),
        (EXPIRE, range(1, 3), {"hmac": b"", "expiry_time_period_ms": NONE}, REQUEST_NOT_ALLOWED),
        (DESCRIBE, range(1, 4), {"owners": None}, REQUEST_NOT_ALLOWED),
    ],
)
async def test_an_error_of_its_own_and_the_connection_stays(
    api_key: int, versions: range, fields: dict[str, object], error: int
) -> None:
    async with client_of(make_context(ScriptedControl())) as client:
        for version in versions:
            known = names(REQUESTS[api_key].body, version)
            more = {name: None for name in known if name.startswith("owner_principal")}
            answer = await client.ask(api_key, version, **fields, **more)
            assert answer.error_code == error
        ranges = await client.ask(18, 0)
    advertised = {each.api_key: (each.min_version, each.max_version) for each in ranges.api_keys}
    assert advertised[api_key] == (versions[0], versions[-1])
