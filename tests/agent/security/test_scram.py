"""SCRAM, checked with the examples of its RFCs and with dishonest clients."""

import base64
import re
from collections.abc import Callable

import pytest

from lacuna.agent.security.sasl.mechanism import (
    MOST_PASSWORD_TOKEN_BYTES,
    Authenticated,
    AuthenticationFailed,
)
from lacuna.agent.security.sasl.scram import ScramExchange
from lacuna.agent.security.sasl.users import SHA_256, SHA_512, Users, Verifier, verifier
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.security.tokens import DelegationTokens
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.v1.security_pb2 import DelegationToken, ScramCredential
from tests.agent.security.sasl_clients import ScramClient
from tests.doubles.clock import ManualClock

NAMES = {SHA_256: "SCRAM-SHA-256", SHA_512: "SCRAM-SHA-512"}
WRONG = "the user does not exist, or the password is wrong"


async def no_tokens(_token_id: str, _mechanism: int) -> None:
    return None


def users(**passwords: str) -> Users:
    return Users(Security(), {name: password.encode() for name, password in passwords.items()})


def exchange(known: Users | None = None, mechanism: int = SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, known or users(alice="secret"), no_tokens)


async def test_the_example_of_rfc_7677() -> None:
    kept = verifier(b"pencil", SHA_256, base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    security = Security()
    security.credentials["user", SHA_256] = ScramCredential(
        user="user", mechanism=SHA_256, **kept._asdict()
    )
    server = ScramExchange(
        SHA_256, Users(security), no_tokens, lambda: b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    first = await server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first.token == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = await server.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert final.outcome == Authenticated(Principal("User", "user"))


@pytest.mark.parametrize("mechanism", NAMES)
async def test_each_mechanism_has_a_verifier_of_its_own(mechanism: int) -> None:
    client = ScramClient("alice", "secret", NAMES[mechanism])
    server = exchange(mechanism=mechanism)
    first = await server.respond(client.first)
    final = await server.respond(client.final(first.token))
    assert client.trusts(final.token)
    assert final.outcome == Authenticated(Principal("User", "alice"))


async def test_names_are_escaped() -> None:
    """RFC 5802, section 5.1."""
    known = Users(Security(), {"a,b=c": b"secret"})
    client = ScramClient("a,b=c", "secret")
    assert client.first == b"n,,n=a=2Cb=3Dc,r=nonce"
    server = exchange(known)
    first = await server.respond(client.first)
    final = await server.respond(client.final(first.token))
    assert final.outcome == Authenticated(Principal("User", "a,b=c"))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x00",
        b"n",
        b"n,,",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"n,,n=,r=nonce",
        b"y,,n=alice,r=nonce",
        b"p=tls-unique,,n=alice,r=nonce",
        b"n,,m=ext,n=alice,r=nonce",
        b"n,,n=al=ice,r=nonce",
        b"n,,n=\xff\xfe,r=nonce",
        b"n,,n=alice,r=no nce",
        b"n,a=bob,n=alice,r=nonce",
        b"n,,n=alice,r=nonce,ext",
        b"c=biws,r=nonce,p=AAAA",
    ],
)
async def test_a_first_message_that_is_none_fails(first: bytes) -> None:
    """m= marks mandatory extensions, which RFC 5802 requires the server to reject."""
    with pytest.raises(AuthenticationFailed):
        await exchange().respond(first)


async def test_a_message_that_is_too_long_fails() -> None:
    server = exchange()
    first = b"n,,n=alice,r="
    longest = first + b"n" * (MOST_PASSWORD_TOKEN_BYTES - len(first))
    assert (await server.respond(longest)).outcome is None
    with pytest.raises(AuthenticationFailed, match="has more than 8192 bytes"):
        await exchange().respond(longest + b"n")
    with pytest.raises(AuthenticationFailed, match="has more than 8192 bytes"):
        await server.respond(bytes(MOST_PASSWORD_TOKEN_BYTES + 1))


@pytest.mark.parametrize("first", [b"n,a=x\ny,n=%b,r=a", b"n,,n=%b=\n,r=a", b"n,,n=%b\xff\n,r=a"])
async def test_a_name_that_nobody_has_proved_is_not_repeated(first: bytes) -> None:
    """It would end up in the log."""
    with pytest.raises(AuthenticationFailed) as failure:
        await exchange().respond(first % b"mallory")
    assert "mallory" not in str(failure.value)
    assert str(failure.value).isprintable()


async def test_an_exchange_that_has_ended_keeps_nothing_and_takes_nothing() -> None:
    client = ScramClient("alice", "secret", nonce="n" * 5000)
    server = exchange()
    final = client.final((await server.respond(client.first)).token)
    assert (await server.respond(final)).outcome is not None
    assert server._expected + server._auth_message == b""
    for again in (final, client.first):
        with pytest.raises(AuthenticationFailed, match="does not belong to this exchange"):
            await server.respond(again)


async def test_all_agents_of_a_cluster_ask_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing agents does not reveal which users exist, are in the file, or are made up."""
    # New salts are used immediately, however busy the machine is.
    monkeypatch.setattr("lacuna.agent.security.sasl.users._MOST_WAIT_SECONDS", 200.0)
    secrets = {"one": b"", "other": b""}
    agents = [
        Users(Security(), {"admin": b"secret"}, lambda name=name: secrets[name])  # type: ignore[misc]
        for name in secrets
    ]

    def salts(user: str, mechanism: int) -> list[bytes]:
        return [(each.find(user, mechanism) or each.decoy(user, mechanism)).salt for each in agents]

    def are_equal() -> set[bool]:
        found = [salts(user, number) for user in ("admin", "nobody") for number in NAMES]
        assert all(re.fullmatch(rb"[0-9a-z]{20,26}", each) for pair in found for each in pair)
        return {one == other for one, other in found}

    assert are_equal() == {False}  # no control plane has told them anything
    for leader in (b"first leader", b"second leader"):
        secrets["one"] = leader
        assert are_equal() == {False}
        secrets["other"] = leader
        assert are_equal() == {True}
    for mechanism in NAMES:
        client = ScramClient("admin", "secret", NAMES[mechanism])
        server = exchange(agents[0], mechanism)
        final = client.final((await server.respond(client.first)).token)
        assert (await server.respond(final)).outcome is not None


async def test_all_agents_of_a_cluster_ask_for_a_token_in_the_same_way() -> None:
    security = Security()
    security.tokens["id"] = DelegationToken(token_id="id", owner="User:alice", expiry_ms=1 << 60)
    settings = SecuritySettings(token_key="command:printf 0123456789abcdef")
    one, other = [
        await DelegationTokens(settings, security, ManualClock()).find("id", SHA_256)
        for _ in range(2)
    ]
    assert one is not None
    assert one == other


def _replaced(pattern: bytes, by: bytes) -> Callable[[bytes], bytes]:
    return lambda final: re.sub(pattern, by, final)


def _with_another_character_after(prefix: bytes) -> Callable[[bytes], bytes]:
    def spoil(final: bytes) -> bytes:
        before, _, after = final.partition(prefix)
        return before + prefix + (b"A" if after[:1] != b"A" else b"B") + after[1:]

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        _with_another_character_after(b"p="),
        _replaced(rb"p=.*", b"p="),
        _replaced(rb"p=.*", b"p=AAAA"),
        _replaced(rb"p=.*", b"p=" + base64.b64encode(bytes(32))),
        _replaced(rb"p=.*", b"p=!!!!"),
        _replaced(rb",p=.*", b""),
        _replaced(rb"c=biws", b"c=eSws"),  # y,, : the client saw no channel binding
        _replaced(rb"c=biws", b"c=cD10bHMtdW5pcXVlLCw="),
        _with_another_character_after(b"r=nonce"),
        _replaced(rb"r=[^,]*", b"r=nonce"),
        _replaced(rb",p=", b",x=y,p="),
        lambda final: final[: len(final) // 2],
        lambda final: final + b",",
        lambda _: b"",
    ],
)
async def test_a_final_message_that_was_changed_fails(spoil: Callable[[bytes], bytes]) -> None:
    client = ScramClient("alice", "secret")
    server = exchange()
    final = client.final((await server.respond(client.first)).token)
    assert spoil(final) != final
    with pytest.raises(AuthenticationFailed):
        await server.respond(spoil(final))


@pytest.mark.parametrize("changed", [{"binding": "eSws"}, {"nonce": "nonceother"}])
async def test_a_proof_of_another_binding_or_nonce_fails(changed: dict[str, str]) -> None:
    """This applies even with the password, since a proof is valid only for its own exchange."""
    client = ScramClient("alice", "secret")
    server = exchange()
    first = (await server.respond(client.first)).token
    with pytest.raises(AuthenticationFailed, match="does not belong to this exchange"):
        await server.respond(client.final(first, **changed))


async def test_what_was_recorded_is_worth_nothing() -> None:
    client = ScramClient("alice", "secret")
    server = exchange()
    recorded = client.final((await server.respond(client.first)).token)
    assert (await server.respond(recorded)).outcome is not None
    again = exchange()
    await again.respond(client.first)
    with pytest.raises(AuthenticationFailed):
        await again.respond(recorded)


async def test_unknown_users_fail_as_wrong_passwords_do() -> None:
    """The steps, the answers and the form of the bytes are always the same."""
    known = users(alice="secret")
    for name in ("alice", "nobody"):
        client = ScramClient(name, "wrong")
        server = exchange(known)
        first = (await server.respond(client.first)).token
        # A salt is a number in base 36, as Kafka's tools make it: 26 digits at most, rarely fewer than 24.
        shape = re.fullmatch(rb"r=nonce[^,]{32},s=([A-Za-z0-9+/=]+),i=4096", first)
        assert shape
        assert re.fullmatch(rb"[0-9a-z]{1,26}", base64.b64decode(shape[1]))
        with pytest.raises(AuthenticationFailed) as failure:
            await server.respond(client.final(first))
        assert (str(failure.value), failure.value.told) == (WRONG, "")
        salts = {(await exchange(known).respond(client.first)).token.split(b",")[1] for _ in "ab"}
        assert salts == {b"s=" + shape[1]}


@pytest.mark.parametrize("digits", [23, 24, 25, 26])
async def test_salts_of_every_length_log_in(digits: int) -> None:
    kept = verifier(b"secret", SHA_256, b"z" * digits)
    security = Security()
    security.credentials["alice", SHA_256] = ScramCredential(
        user="alice", mechanism=SHA_256, **kept._asdict()
    )
    client = ScramClient("alice", "secret")
    server = exchange(Users(security))
    final = await server.respond(client.final((await server.respond(client.first)).token))
    assert final.outcome == Authenticated(Principal("User", "alice"))


async def test_a_token_logs_in_as_its_owner_and_only_where_the_client_says_that_it_is_one() -> None:
    owner = Authenticated(Principal("User", "owner"), 99, is_token=True)
    kept = verifier(b"hmac", SHA_256)

    async def find(token_id: str, mechanism: int) -> tuple[Verifier, Authenticated] | None:
        return (kept, owner) if (token_id, mechanism) == ("id", SHA_256) else None

    for more, is_known in ((",tokenauth=true", True), ("", False), (",tokenauth=truely", False)):
        client = ScramClient("id", "hmac", more=more)
        server = ScramExchange(SHA_256, users(), find)
        final = client.final((await server.respond(client.first)).token)
        if is_known:
            assert (await server.respond(final)).outcome == owner
        else:
            with pytest.raises(AuthenticationFailed, match=WRONG):
                await server.respond(final)
