"""SASL over connections: rejected requests before authentication, tokens without headers, and reauthentication."""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from lacuna.agent.context import AgentContext
from lacuna.agent.security.access import Access
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.sasl.mechanism import MOST_TOKEN_BYTES
from lacuna.agent.security.sasl.plain import PlainPasswords
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.security import Security
from lacuna.wire.messages.security import (
    SaslHandshakeRequest,
)
from tests.agent.harness import RawClient, ScriptedControl, encode_request, make_context, serving
from tests.agent.security.issuer import AUDIENCE, NAME, Issuer
from tests.agent.security.sasl_clients import (
    ScramClient,
    handshake,
    log_in,
    log_in_plain,
    send_token,
)
from tests.doubles.clock import ManualClock

LISTENERS = (Listener("SASL_PLAINTEXT", Protocol.SASL_PLAINTEXT),)
API_VERSIONS, LIST_GROUPS, PRODUCE = 18, 16, 0


class Door:
    """An agent with SASL, its clock, and its clients."""

    def __init__(self, context: AgentContext, clock: ManualClock, port: int) -> None:
        self.context = context
        self.clock = clock
        self._port = port

    async def connect(self) -> RawClient:
        return await RawClient.connect(self._port)

    @property
    def failed(self) -> int:
        return self.context.metrics.authentications_failed


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
async def door(issuer: Issuer, tmp_path: Path) -> AsyncIterator[Door]:
    (tmp_path / "password").write_text("secret")
    users = tmp_path / "users.toml"
    users.write_text(f'alice = "file:{tmp_path}/password"\nbob = "file:{tmp_path}/password"\n')
    security = SecuritySettings(
        mechanisms="SCRAM-SHA-256,PLAIN,OAUTHBEARER",
        users_file=str(users),
        max_reauth_ms=5000,
        failure_delay_ms=0,
        oauth_jwks=issuer.url,
        oauth_issuer=NAME,
        oauth_audience=AUDIENCE,
    )
    clock = ManualClock()
    access = Access(security, LISTENERS, Security(), clock)
    context = make_context(ScriptedControl(), AgentSettings(listeners=LISTENERS), access=access)
    async with serving(context) as server:
        yield Door(context, clock, server.port)


async def is_served(client: RawClient) -> bool:
    """Whether an ordinary request is answered; otherwise the connection has closed."""
    try:
        answer = await client.ask(LIST_GROUPS, 0)
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    return bool(answer.error_code == 0)


def framed(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


async def log_in_without_headers(client: RawClient, scram: ScramClient) -> bytes:
    """Authenticate as clients before Kafka 1.0 did (KIP-43), and return the server's last token."""
    assert await handshake(client, scram.mechanism, version=0) == ErrorCode.NONE
    client.send(framed(scram.first))
    client.send(framed(scram.final(await client.frame())))
    return await client.frame()


async def test_who_has_authenticated_is_served(door: Door) -> None:
    client = await door.connect()
    scram = ScramClient("alice", "secret")
    answer = await log_in(client, scram)
    assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, 5000)
    assert scram.trusts(bytes(answer.auth_bytes))
    assert await is_served(client)
    other = await door.connect()
    assert (await log_in_plain(other, "bob", "secret")).error_code == ErrorCode.NONE
    assert await is_served(other)
    assert door.failed == 0


async def test_other_requests_before_authentication_close_the_connection(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    before = await door.connect()
    assert not await is_served(before)
    midway = await door.connect()
    assert await handshake(midway, "SCRAM-SHA-256") == ErrorCode.NONE
    assert (await midway.ask(API_VERSIONS, 0)).error_code == ErrorCode.NONE
    await send_token(midway, ScramClient("alice", "secret").first)
    assert not await is_served(midway)
    assert "sent API 16 before authenticating" in caplog.text


async def test_requests_that_come_along_with_a_wrong_token_are_not_served(door: Door) -> None:
    client = await door.connect()
    await handshake(client, "PLAIN")
    token = b"\0alice\0wrong"
    body = struct.pack(">i", len(token)) + token
    client.send(encode_request(36, 0, body) + encode_request(LIST_GROUPS, 0, b"", 2))
    assert (await client.frame())[:6] == struct.pack(">ih", 1, ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert await client.is_closed()
    assert door.context.control.calls == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("user", ["alice", "nobody"])
async def test_a_failure_tells_the_client_nothing_and_closes(
    door: Door, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    for mechanism in ("SCRAM-SHA-256", "PLAIN"):
        client = await door.connect()
        if mechanism == "PLAIN":
            answer = await log_in_plain(client, user, "wrong-secret")
        else:
            answer = await log_in(client, ScramClient(user, "wrong-secret"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {mechanism}"
        )
        assert await client.is_closed()
    assert door.failed == 2
    assert "wrong-secret" not in caplog.text


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("SCRAM-SHA-256", b"n,,n=alice,r=" + b"n" * 8192),
        ("PLAIN", b"\0alice\0secret" + b"t" * 8192),
        ("SCRAM-SHA-256", b"n,a=x,n=mallory\nFORGED,r=nonce"),
        ("PLAIN", b"x\0mallory\nFORGED\0secret"),
    ],
)
async def test_a_message_that_is_too_long_or_lies_fails_and_is_not_in_the_log(
    door: Door, mechanism: str, token: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    client = await door.connect()
    await handshake(client, mechanism)
    answer = await send_token(client, token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert await client.is_closed()
    (said,) = caplog.messages
    assert f"authentication by {mechanism} failed" in said
    assert said.isprintable()
    assert len(said) < 200
    assert "FORGED" not in said


async def test_a_failure_is_told_as_long_after_the_token_however_long_it_took_to_find(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the delay would reveal whether the user exists. The test advances the loop's clock."""
    loop, late = asyncio.get_running_loop(), 0.0
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + late)

    async def slowly(_self: PlainPasswords, _user: str, _password: bytes) -> bool:
        nonlocal late
        late += 200.0
        return False

    monkeypatch.setattr(PlainPasswords, "are_right", slowly)
    object.__setattr__(door.context.access.settings, "failure_delay_ms", 200_000)
    client = await door.connect()
    began = monotonic()
    answer = await log_in_plain(client, "alice", "wrong")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert monotonic() - began < 150


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "GSSAPI", "", "plain"])
async def test_no_way_down_to_a_mechanism_that_is_not_enabled(door: Door, mechanism: str) -> None:
    for version in (0, 1):
        client = await door.connect()
        answer = await client.call(version, SaslHandshakeRequest(mechanism))
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert list(answer.mechanisms) == ["SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"]
        assert await client.is_closed()


async def test_a_wrong_token_without_a_header_closes_without_an_answer(door: Door) -> None:
    client = await door.connect()
    await handshake(client, "PLAIN", version=0)
    client.send(framed(b"\0alice\0wrong"))
    assert await client.is_closed()
    assert door.failed == 1
    other = await door.connect()
    await handshake(other, "SCRAM-SHA-256", version=0)
    other.send(framed(b""))
    assert await other.is_closed()


async def test_a_token_that_is_too_large_is_not_even_read(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    for version in (0, 1):
        client = await door.connect()
        await handshake(client, "PLAIN", version=version)
        client.send(struct.pack(">i", MOST_TOKEN_BYTES + 1))
        assert await client.is_closed()
    said = f"exceeds the limit of {MOST_TOKEN_BYTES}"
    assert caplog.text.count(said) == 1  # once a minute


async def test_large_requests_are_taken_once_the_client_is_known(door: Door) -> None:
    client = await door.connect()
    await log_in_plain(client, "alice", "secret")
    # A Produce with acks=1 whose body is invalid, which is found only after all of it has been read.
    client.send(encode_request(PRODUCE, 3, b"\xff" * (2 * MOST_TOKEN_BYTES)))
    assert await client.is_closed()
    assert door.context.metrics.bytes_received > 2 * MOST_TOKEN_BYTES


async def test_a_refused_token_is_explained_and_logged_once_and_never_shown(
    door: Door, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    now = door.clock.now_ms() / 1000
    caplog.set_level(logging.DEBUG)
    for confirms in (True, False):
        token = issuer.token(now - 1000)
        client = await door.connect()
        await handshake(client, "OAUTHBEARER")
        answer = await send_token(client, b"n,,\x01auth=Bearer %b\x01\x01" % token.encode())
        assert answer.error_code == ErrorCode.NONE
        assert bytes(answer.auth_bytes) == b'{"status":"invalid_token"}'
        if confirms:
            answer = await send_token(client, b"\x01")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == '{"status":"invalid_token"}'
            assert await client.is_closed()
        else:  # as kafka-python
            await client.close()
        assert not any(part in caplog.text for part in token.split(".")[1:])
    assert door.failed == 2
    assert caplog.text.count("authentication by OAUTHBEARER failed: the token has expired") == 1


# Authenticating again (KIP-368).


@pytest.mark.parametrize("version", [0, 1])
async def test_who_does_not_authenticate_again_is_closed_at_its_next_request(
    door: Door, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """This includes clients without session support, such as those of SaslHandshake v0, which receive no lifetime."""
    client = await door.connect()
    scram = ScramClient("alice", "secret")
    await (log_in(client, scram) if version else log_in_without_headers(client, scram))
    door.clock.advance(4999)
    assert await is_served(client)
    door.clock.advance(1)
    assert not await is_served(client)
    assert door.context.metrics.sessions_expired == 1
    assert "User:alice had to authenticate again, but sent API 16 instead" in caplog.text


@pytest.mark.parametrize("versions", [(1, 1), (0, 0), (0, 1)])
async def test_who_authenticates_again_stays(door: Door, versions: tuple[int, int]) -> None:
    client = await door.connect()
    for version in versions:
        scram = ScramClient("alice", "secret")
        if version:
            assert (await log_in(client, scram)).session_lifetime_ms == 5000
        else:
            assert scram.trusts(await log_in_without_headers(client, scram))
        assert await is_served(client)
        door.clock.advance(6000)  # late, but in time for the handshake
    assert await handshake(client, "SCRAM-SHA-256") == ErrorCode.NONE
    assert not await is_served(client)  # not between the two


LEAVING: dict[int, tuple[int, dict[str, Any]]] = {
    11: (0, {"group_id": "g", "session_timeout_ms": 6000, "member_id": "", "protocol_type": "x"}),
    14: (0, {"group_id": "g", "generation_id": 1, "member_id": "m"}),
    22: (0, {"transactional_id": "x", "transaction_timeout_ms": 1000}),
    25: (0, {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, "group_id": "g"}),
    68: (0, {"group_id": "g", "member_id": "", "member_epoch": 0}),
}


@pytest.mark.parametrize("api_key", LEAVING)
async def test_commands_that_leave_something_name_the_principal(door: Door, api_key: int) -> None:
    client = await door.connect()
    await log_in_plain(client, "alice", "secret")
    version, fields = LEAVING[api_key]
    await client.ask(api_key, version, **fields)
    assert [each.principal for each in control_of(door).calls] == ["User:alice"]


def control_of(door: Door) -> ScriptedControl:
    control = door.context.control
    assert isinstance(control, ScriptedControl)
    return control
