"""OAUTHBEARER: its messages, the accepted tokens, and the source of their keys."""

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from lacuna.agent.security.access import Access
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.sasl import jwks
from lacuna.agent.security.sasl.jwks import Jwks, read_jwks
from lacuna.agent.security.sasl.jwts import (
    Claims,
    JwtValidator,
    TokenRefused,
    UnsecuredValidator,
)
from lacuna.agent.security.sasl.mechanism import Authenticated, AuthenticationFailed
from lacuna.agent.security.sasl.oauthbearer import OAuthBearerExchange, read_first_message
from lacuna.agent.security.settings import SecuritySettings
from lacuna.base.errors import UserError
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.shared.security import Security
from tests.agent.security.issuer import AUDIENCE, NAME, Issuer
from tests.doubles.clock import ManualClock

CLOCK = ManualClock()
NOW = CLOCK.now_ms() // 1000
SASL = Listener("SASL_SSL", Protocol.SASL_SSL)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


def settings(**given: Any) -> SecuritySettings:
    return SecuritySettings(**{"oauth_issuer": NAME, "oauth_audience": AUDIENCE} | given)


class Stopwatch:
    """A clock that a test advances, in seconds."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def validator(issuer: Issuer, stopwatch: Stopwatch | None = None, **given: Any) -> JwtValidator:
    keys = Jwks(issuer.url, 3_600_000, stopwatch or Stopwatch())
    return JwtValidator(Claims(settings(**given), CLOCK, requires_iat=True), keys)


def validator_of(folder: Path, keys: list[dict[str, Any]]) -> JwtValidator:
    file = folder / "jwks.json"
    file.write_text(json.dumps({"keys": keys}))
    claims = Claims(settings(), CLOCK, requires_iat=True)
    return JwtValidator(claims, Jwks(file.as_uri(), 3_600_000))


# The messages.


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"n,,\x01auth=Bearer a.b.c\x01\x01", ("", "a.b.c")),
        (b"n,a=al=2Cice,\x01auth=bearer  a\x01\x01", ("al,ice", "a")),
        (b"n,,\x01logicalCluster=x=y\x01auth=Bearer a\x01poolId=z\x01\x01", ("", "a")),
    ],
)
def test_first_messages(message: bytes, expected: tuple[str, str]) -> None:
    assert read_first_message(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Basic a\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth1=Bearer a\x01\x01",
        b"n,a==,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a\x01\x01\x01",
    ],
)
def test_first_messages_that_are_none(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        read_first_message(message)


async def test_a_right_token_authenticates_its_subject_for_as_long_as_it_is_valid(
    issuer: Issuer,
) -> None:
    exchange = OAuthBearerExchange(validator(issuer, oauth_skew_seconds=10))
    token = issuer.token(NOW, lifetime=60)
    answer = await exchange.respond(b"n,a=alice,\x01auth=Bearer %b\x01\x01" % token.encode())
    alice = Authenticated(Principal("User", "alice"), (NOW + 70) * 1000)
    assert answer == (b"", alice, None)


async def test_a_wrong_token_is_refused_in_json_and_fails_once_that_is_confirmed(
    issuer: Issuer,
) -> None:
    expired = issuer.token(NOW - 1000).encode()
    for confirmation, reason, told in (
        (b"\x01", "has expired", '{"status":"invalid_token"}'),
        (b"n,,\x01auth=Bearer a\x01\x01", "did not acknowledge", ""),
    ):
        exchange = OAuthBearerExchange(validator(issuer))
        answer = await exchange.respond(b"n,,\x01auth=Bearer %b\x01\x01" % expired)
        assert (answer.token, answer.outcome) == (b'{"status":"invalid_token"}', None)
        assert answer.refusal is not None
        assert "has expired" in str(answer.refusal)
        with pytest.raises(AuthenticationFailed, match=reason) as failure:
            await exchange.respond(confirmation)
        assert failure.value.told == told


async def test_a_token_of_somebody_else_fails(issuer: Issuer) -> None:
    exchange = OAuthBearerExchange(validator(issuer))
    token = issuer.token(NOW).encode()
    with pytest.raises(AuthenticationFailed, match="asks to act as another user"):
        await exchange.respond(b"n,a=bob,\x01auth=Bearer %b\x01\x01" % token)


async def test_a_scope_that_is_missing_is_named(issuer: Issuer) -> None:
    exchange = OAuthBearerExchange(validator(issuer, oauth_scopes="kafka,more"), "kafka,more")
    token = issuer.token(NOW, scope="kafka").encode()
    answer = await exchange.respond(b"n,,\x01auth=Bearer %b\x01\x01" % token)
    assert json.loads(answer.token) == {"status": "insufficient_scope", "scope": "kafka,more"}


# The claims.


@pytest.mark.parametrize(
    ("claims", "given"),
    [
        ({}, {}),
        ({"exp": NOW - 29}, {}),
        ({"nbf": NOW + 30, "iat": NOW + 30}, {}),
        ({"aud": ["other", AUDIENCE]}, {}),
        ({"aud": "b"}, {"oauth_audience": "a, b"}),
        ({"aud": None}, {"oauth_audience": ""}),
        ({"iss": None}, {"oauth_issuer": ""}),
        ({"sub": None, "azp": "alice"}, {"oauth_sub": "azp"}),
        ({"scope": "a b"}, {"oauth_scopes": "a,b"}),
        ({"scp": ["b", "a"]}, {"oauth_scopes": "a,b", "oauth_scope": "scp"}),
    ],
)
async def test_tokens_that_are_taken(
    issuer: Issuer, claims: dict[str, Any], given: dict[str, Any]
) -> None:
    found = await validator(issuer, **given).validate(issuer.token(NOW, **claims))
    assert found.principal == Principal("User", "alice")


@pytest.mark.parametrize(
    ("claims", "given", "reason"),
    [
        ({"exp": NOW - 30}, {}, "has expired"),
        ({"exp": None}, {}, "claim exp does not contain a time"),
        ({"exp": "9999999999"}, {}, "claim exp does not contain a time"),
        ({"exp": True}, {}, "claim exp does not contain a time"),
        ({"exp": 1e300}, {}, "out of range"),
        ({"exp": float("inf")}, {}, "out of range"),
        ({"exp": float("nan")}, {}, "out of range"),
        ({"exp": -1}, {}, "out of range"),
        ({"exp": 10**400}, {}, "out of range"),
        ({"iat": None}, {}, "claim iat does not contain a time"),
        ({"iat": NOW + 31}, {}, "issued in the future"),
        ({"nbf": NOW + 31}, {}, "not valid yet"),
        ({"iss": "https://other.example"}, {}, "issuer of the token differs"),
        ({"iss": None}, {}, "issuer of the token differs"),
        ({"aud": "other"}, {}, "audience of the token differs"),
        ({"aud": None}, {}, "audience of the token differs"),
        ({"aud": {"kafka": 1}}, {}, "audience of the token differs"),
        ({"aud": "kafka"}, {"oauth_audience": ""}, "expected.audience is not set"),
        ({"sub": None}, {}, "claim sub does not contain a name"),
        ({"sub": ""}, {}, "claim sub does not contain a name"),
        ({"sub": 7}, {}, "claim sub does not contain a name"),
        ({"sub": "a\nb"}, {}, "claim sub does not contain a name"),
        ({"sub": "a" * 2000}, {}, "too long"),
        ({"scope": "other"}, {"oauth_scopes": "a"}, "lacks a required scope"),
        ({"scope": 7}, {"oauth_scopes": "a"}, "lacks a required scope"),
        ({}, {"oauth_scopes": "a"}, "lacks a required scope"),
    ],
)
async def test_tokens_that_are_refused(
    issuer: Issuer, claims: dict[str, Any], given: dict[str, Any], reason: str
) -> None:
    token = issuer.token(NOW, **claims)
    with pytest.raises(TokenRefused, match=reason) as refusal:
        await validator(issuer, **given).validate(token)
    assert not any(part in str(refusal.value) for part in token.split("."))


# The signatures.


def encoded(value: object) -> str:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def claims() -> dict[str, Any]:
    return {"iss": NAME, "aud": AUDIENCE, "sub": "alice", "iat": NOW, "exp": NOW + 60}


async def test_tokens_with_wrong_signatures_are_refused(issuer: Issuer) -> None:
    header, payload, signature = issuer.token(NOW).split(".")
    other = encoded(claims() | {"sub": "admin"})
    half = len(signature) // 2
    for token in (
        f"{header}.{other}.{signature}",
        f"{header}.{payload}.{signature[half:]}{signature[:half]}",
        f"{header}.{payload}.{signature[:-4]}",
        f"{header}.{payload}.",
        f"{header}.{payload}.{encoded(bytes(64))}",
    ):
        with pytest.raises(TokenRefused, match=r"signature of the token is invalid|cannot be read"):
            await validator(issuer).validate(token)


async def test_none_and_hmac_are_refused_even_with_a_right_signature(issuer: Issuer) -> None:
    """Algorithm confusion: the public key, which everyone has, as the secret of an HMAC."""
    public = issuer.keys[issuer.kid].public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        issuer.jwks(),
    ]
    for algorithm in ("HS256", "HS384", "HS512"):
        for secret in secrets:
            signed = f"{encoded({'alg': algorithm, 'kid': issuer.kid})}.{encoded(claims())}"
            made = jwt.get_algorithm_by_name(algorithm).sign(signed.encode(), secret)
            with pytest.raises(TokenRefused, match="not signed with one of RS256"):
                await validator(issuer).validate(f"{signed}.{encoded(made)}")
    for algorithm in ("none", "None", "NONE", "", "ES256K", "es256"):
        unsigned = f"{encoded({'alg': algorithm, 'kid': issuer.kid})}.{encoded(claims())}."
        with pytest.raises(TokenRefused, match="not signed with one of RS256"):
            await validator(issuer).validate(unsigned)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "..",
        f"{encoded([])}.e30.",
        f"{encoded({})}.e30.",
        f"{encoded({'alg': 1})}.e30.",
        f"{encoded({'alg': 'ES256', 'kid': 1})}.e30.",
        f"{encoded({'alg': 'ES256', 'kid': 'first', 'crit': ['b64'], 'b64': False})}.e30.",
        f"{encoded({'alg': 'ES256', 'kid': 'first', 'crit': ['x'], 'x': 1})}.e30.",
        f"{encoded(b'[' * 100_000)}.e30.",
        f"{encoded(b'{' + b'x' * 100)}.e30.",
        f"{'A' * 50_000}=.e30.",
    ],
)
async def test_what_is_no_token_is_refused(issuer: Issuer, token: str) -> None:
    for each in (
        validator(issuer),
        UnsecuredValidator(Claims(settings(), CLOCK, requires_iat=False)),
    ):
        with pytest.raises(TokenRefused):
            await each.validate(token)


async def test_each_algorithm_is_taken_with_a_key_of_its_type_only(tmp_path: Path) -> None:
    rsa_key = rsa.generate_private_key(65537, 2048)
    okp = ed25519.Ed25519PrivateKey.generate()
    keys: dict[str, Any] = {
        "RSA": (rsa_key, RSAAlgorithm.to_jwk(rsa_key.public_key(), as_dict=True)),
        "OKP": (okp, OKPAlgorithm.to_jwk(okp.public_key(), as_dict=True)),
    }
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    for name, curve in curves.items():
        key = ec.generate_private_key(curve)
        keys[name] = (key, ECAlgorithm.to_jwk(key.public_key(), as_dict=True))
    checked = validator_of(tmp_path, [{**jwk, "kid": kid} for kid, (_, jwk) in keys.items()])
    right = {"RSA": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"], "OKP": ["EdDSA"]}
    right |= {"P-256": ["ES256"], "P-384": ["ES384"], "P-521": ["ES512"]}
    for kid, algorithms in right.items():
        for algorithm in algorithms:
            token = jwt.encode(claims(), keys[kid][0], algorithm, {"kid": kid})
            assert (await checked.validate(token)).principal.name == "alice"
            for other in right.keys() - {kid}:
                token = jwt.encode(claims(), keys[kid][0], algorithm, {"kid": other})
                with pytest.raises(TokenRefused, match="has no key for the token"):
                    await checked.validate(token)


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits long")
async def test_a_key_is_used_only_for_what_it_is(tmp_path: Path) -> None:
    weak = rsa.generate_private_key(65537, 1024)
    key = ec.generate_private_key(ec.SECP256R1())
    public = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    keys = [
        {**RSAAlgorithm.to_jwk(weak.public_key(), as_dict=True), "kid": "weak"},
        {**public, "kid": "encryption", "use": "enc"},
        {**public, "kid": "other", "alg": "ES384"},
        {**public, "kid": "broken", "x": "AAAA"},
        {"kty": "oct", "k": encoded(b"secret" * 8), "kid": "symmetric"},
    ]
    checked = validator_of(tmp_path, keys)
    with pytest.raises(TokenRefused, match="fewer than 2048 bits"):
        await checked.validate(jwt.encode(claims(), weak, "RS256", {"kid": "weak"}))
    for kid in ("encryption", "other", "broken", "symmetric"):
        token = jwt.encode(claims(), key, "ES256", {"kid": kid})
        with pytest.raises(TokenRefused, match=r"no key for the token|cannot be used"):
            await checked.validate(token)


async def test_a_token_without_a_key_id_is_taken_if_only_one_key_fits(issuer: Issuer) -> None:
    token = jwt.encode(claims(), issuer.keys[issuer.kid], "ES256")
    assert (await validator(issuer).validate(token)).principal.name == "alice"
    issuer.keys["one more"] = ec.generate_private_key(ec.SECP256R1())
    try:
        with pytest.raises(TokenRefused, match="does not name the key"):
            await validator(issuer).validate(token)
    finally:
        del issuer.keys["one more"]


# The keys.


async def test_keys_are_fetched_once_for_all_who_wait(issuer: Issuer) -> None:
    checked, before = validator(issuer), issuer.served
    token = issuer.token(NOW)
    await asyncio.gather(*(checked.validate(token) for _ in range(10)))
    assert issuer.served == before + 1


async def test_a_new_key_is_fetched_and_unknown_ones_do_not_ask_again_and_again(
    issuer: Issuer,
) -> None:
    stopwatch = Stopwatch()
    checked = validator(issuer, stopwatch)
    old = issuer.token(NOW)
    await checked.validate(old)
    issuer.rotate("second")
    new = issuer.token(NOW)
    with pytest.raises(TokenRefused, match="has no key for the token"):
        await checked.validate(new)  # the set was read a moment ago
    stopwatch.now += 10
    before = issuer.served
    assert (await checked.validate(new)).principal.name == "alice"
    for number in range(20):
        with pytest.raises(TokenRefused, match="has no key for the token"):
            await checked.validate(issuer.token(NOW, headers={"kid": f"made up {number}"}))
    assert issuer.served == before + 1
    with pytest.raises(TokenRefused, match="has no key for the token"):
        await checked.validate(old)


async def test_keys_are_read_again_before_use_when_they_are_due(issuer: Issuer) -> None:
    stopwatch = Stopwatch()
    keys = Jwks(issuer.url, 60_000, stopwatch)
    (first,) = await keys.find(None)
    issuer.rotate("third")
    stopwatch.now += 59
    assert await keys.find(None) == [first]
    stopwatch.now += 1
    before = issuer.served
    found = await asyncio.gather(*(keys.find(None) for _ in range(10)))
    assert [key["kid"] for each in found for key in each] == ["third"] * 10
    assert issuer.served == before + 1


async def test_keys_that_cannot_be_read_when_they_are_due_stay_in_use(issuer: Issuer) -> None:
    stopwatch = Stopwatch()
    keys = Jwks(issuer.url, 60_000, stopwatch)
    before = await keys.find(None)
    issuer.answer = (500, b"no")
    try:
        for passed, asked in ((60, 1), (9, 0), (1, 1)):
            stopwatch.now += passed
            served = issuer.served
            assert await keys.find(None) == before
            assert issuer.served == served + asked
    finally:
        issuer.answer = None


async def test_a_file_of_keys_that_changes_is_read_before_the_next_use(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A removed key is never accepted again, however long it was unused."""
    file = tmp_path / "jwks.json"
    file.write_bytes(issuer.jwks())
    stopwatch = Stopwatch()
    keys = Jwks(file.as_uri(), 3_600_000, stopwatch)
    old = issuer.kid
    assert len(await keys.find(old)) == 1
    issuer.rotate("fourth")
    file.write_bytes(issuer.jwks())
    stopwatch.now += 0.9
    assert len(await keys.find(old)) == 1
    stopwatch.now += 0.1
    assert await keys.find(old) == []
    assert len(await keys.find("fourth")) == 1
    for spoil in (lambda: file.write_text("nonsense"), file.unlink):
        spoil()
        stopwatch.now += 1
        caplog.clear()
        assert len(await keys.find("fourth")) == 1
        assert "cannot be read, so the known keys (1) stay in use" in caplog.text
    issuer.rotate("fifth")
    file.write_bytes(issuer.jwks())
    stopwatch.now += 1
    assert len(await keys.find("fifth")) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"no"),
        (302, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b'{"keys": {}}'),
        (200, b'{"keys": []}'),
        (200, b"[" * 100_000),
        (200, b" " * ((1 << 20) + 1)),
    ],
)
async def test_keys_stay_in_use_while_the_set_cannot_be_read(
    issuer: Issuer, answer: tuple[int, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    stopwatch = Stopwatch()
    keys = Jwks(issuer.url, 3_600_000, stopwatch)
    assert len(await keys.find(issuer.kid)) == 1
    issuer.answer = answer
    try:
        stopwatch.now += 10
        with caplog.at_level(logging.WARNING, "lacuna.agent"):
            assert await keys.find("other") == []
        assert len(await keys.find(issuer.kid)) == 1
    finally:
        issuer.answer = None
    (said,) = caplog.messages
    assert "cannot be read, so the known keys (1) stay in use" in said


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer nothing until the client has left."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(1024):
            await writer.drain()


async def trickling(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send an answer that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "piece_seconds", "all_seconds", "reason"),
    [
        (silent, 0.1, 60.0, "timed out"),
        (trickling, 60.0, 0.2, "did not arrive within 0.2 seconds"),
    ],
)
async def test_an_issuer_that_does_not_answer_is_not_waited_for(
    answer: Any,
    piece_seconds: float,
    all_seconds: float,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(jwks, "_PIECE_SECONDS", piece_seconds)
    monkeypatch.setattr(jwks, "_ALL_SECONDS", all_seconds)
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        keys = Jwks(f"http://127.0.0.1:{port}/keys", 3_600_000)
        async with asyncio.timeout(60):
            assert await keys.find("a") == []
    assert reason in caplog.text


async def test_a_url_shows_no_secret(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    keys = Jwks("http://me:hidden@127.0.0.1:9/keys?code=hidden", 3_600_000)
    assert await keys.find("a") == []
    assert "http://127.0.0.1/keys cannot be read" in caplog.text
    assert "hidden" not in caplog.text


def test_private_keys_and_symmetric_ones_are_not_kept() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    private = ECAlgorithm.to_jwk(key, as_dict=True)
    assert "d" in private
    (kept,) = read_jwks(json.dumps({"keys": [private, {"kty": "oct", "k": "AAAA"}]}).encode())
    assert kept.keys() == {"kty", "crv", "x", "y"}


# The settings.


def access(listener: Listener = SASL, **given: Any) -> Access:
    given = {"certificate": "", "mechanisms": "OAUTHBEARER"} | given
    listener = Listener(listener.name, Protocol.SASL_PLAINTEXT) if listener is SASL else listener
    return Access(SecuritySettings(**given), (listener,), Security(), CLOCK)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "set sasl.oauthbearer.jwks.endpoint.url"),
        ({"oauth_issuer": NAME}, "set sasl.oauthbearer.jwks.endpoint.url"),
        ({"oauth_jwks": "ftp://h/keys"}, "must be a URL that begins with https://"),
        ({"oauth_jwks": "/keys"}, "must be a URL that begins with https://"),
        ({"oauth_jwks": "file:///no/such/file"}, "cannot be used"),
        ({"oauth_jwks": "https://h/k", "oauth_unsecured": True}, "set only one of them"),
        ({"oauth_jwks": "https://h/k", "mechanisms": "PLAIN"}, "OAUTHBEARER is not in use"),
        ({"oauth_issuer": NAME, "mechanisms": "PLAIN"}, "OAUTHBEARER is not in use"),
        ({"oauth_audience": "a", "listener": Listener()}, "OAUTHBEARER is not in use"),
    ],
)
def test_what_is_set_by_half_does_not_start(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        access(**given)


def test_what_is_dangerous_is_said_loudly(caplog: pytest.LogCaptureFixture) -> None:
    access(oauth_unsecured=True)
    assert "ANY client that can connect can claim ANY identity" in caplog.text
    access(oauth_jwks="http://issuer.example/keys")
    assert "http://issuer.example/keys is not encrypted" in caplog.text


async def test_unsecured_tokens_are_taken_only_where_that_is_asked_for(issuer: Issuer) -> None:
    unsecured = UnsecuredValidator(Claims(settings(), CLOCK, requires_iat=False))
    payload = encoded(claims())
    found = await unsecured.validate(f"{encoded({'alg': 'none'})}.{payload}.")
    assert found.principal == Principal("User", "alice")
    for token in (issuer.token(NOW), f"{encoded({'alg': 'none'})}.{payload}.AAAA"):
        with pytest.raises(TokenRefused, match="is signed"):
            await unsecured.validate(token)
