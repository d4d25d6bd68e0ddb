"""Sessions with a stopped clock: every transition between states."""

from contextlib import nullcontext
from weakref import WeakSet

import pytest

from lacuna.agent.security.authentication import Authentication, NotNow, UnsupportedMechanism
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.sasl.mechanism import Answer, Authenticated, AuthenticationFailed
from lacuna.controlplane.shared.principal import ANONYMOUS, Principal
from tests.doubles.clock import ManualClock

PRODUCE, HANDSHAKE, API_VERSIONS, AUTHENTICATE = 0, 17, 18, 36
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
SASL = Listener("SASL_SSL", Protocol.SASL_SSL)


class Scripted:
    """An exchange of two tokens; `outcome` is the result of the second, if it is correct."""

    outcome: Authenticated = Authenticated(ALICE)

    def __init__(self) -> None:
        self._count = 0

    async def respond(self, token: bytes) -> Answer:
        if token == b"wrong":
            raise AuthenticationFailed("wrong")
        self._count += 1
        return Answer(b"%d" % self._count, self.outcome if self._count == 2 else None)


class Connection:
    """A session on a listener with SASL, and its clock."""

    def __init__(self, longest_ms: int = 0) -> None:
        self.clock = ManualClock()
        self.outcome = Authenticated(ALICE)
        self.steps: list[tuple[bool, bool]] = []
        #: Those that are still referenced.
        self.exchanges: WeakSet[Scripted] = WeakSet()
        self.session = Authentication(
            SASL, self.clock, {"A": self._make, "B": self._make}, longest_ms
        )
        self.session.on_step = lambda: self.steps.append(
            (self.session.has_authenticated, self.session.sends_tokens)
        )

    def _make(self) -> Scripted:
        exchange = Scripted()
        exchange.outcome = self.outcome
        self.exchanges.add(exchange)
        return exchange

    async def log_in(self, mechanism: str = "A", *, sends_tokens: bool = False) -> int:
        self.session.choose(mechanism, sends_tokens=sends_tokens)
        assert (await self.session.authenticate(b"one")) == ((b"1", None, None), 0)
        answer, lifetime_ms = await self.session.authenticate(b"two")
        assert answer.token == b"2"
        return lifetime_ms

    def serves(self, api_key: int = PRODUCE) -> bool:
        return self.session.is_open or self.session.admits(api_key)


async def test_without_sasl_everything_is_served_and_sasl_makes_no_sense() -> None:
    session = Authentication(Listener(), ManualClock(), {"A": Scripted})
    assert session.is_open
    assert session.has_authenticated
    assert session.principal == ANONYMOUS
    with pytest.raises(NotNow):
        session.choose("A", sends_tokens=False)
    with pytest.raises(NotNow):
        await session.authenticate(b"one")
    assert not session.is_over


async def test_before_authentication_only_what_it_takes_is_served() -> None:
    connection = Connection()
    session = connection.session
    for _ in range(2):  # before the handshake, and after it
        served = [key for key in range(90) if connection.serves(key)]
        assert served == [HANDSHAKE, API_VERSIONS, AUTHENTICATE]
        assert not session.has_authenticated
        if not session.mechanism:
            session.choose("A", sends_tokens=False)
    await session.authenticate(b"one")
    assert not connection.serves()
    await session.authenticate(b"two")
    assert connection.serves()
    assert session.is_open
    assert (session.principal, session.is_token, session.mechanism) == (ALICE, False, "A")


async def test_a_mechanism_that_is_not_enabled_ends_the_connection() -> None:
    connection = Connection()
    with pytest.raises(UnsupportedMechanism):
        connection.session.choose("PLAIN", sends_tokens=False)
    assert connection.session.is_over


async def test_a_token_without_a_handshake_ends_the_connection() -> None:
    connection = Connection()
    with pytest.raises(NotNow):
        await connection.session.authenticate(b"one")
    assert connection.session.is_over


async def test_a_wrong_token_ends_the_connection_and_nothing_is_known() -> None:
    connection = Connection()
    connection.session.choose("A", sends_tokens=False)
    await connection.session.authenticate(b"one")
    with pytest.raises(AuthenticationFailed):
        await connection.session.authenticate(b"wrong")
    assert connection.session.is_over
    assert not connection.serves()
    assert connection.session.principal == ANONYMOUS


@pytest.mark.parametrize(("last", "is_right"), [(b"two", True), (b"wrong", False)])
async def test_an_exchange_that_has_ended_is_dropped(last: bytes, is_right: bool) -> None:
    """Its client's messages may be large, and the connection may stay open for a long time."""
    connection = Connection(5000)
    for _ in range(2):
        connection.session.choose("A", sends_tokens=False)
        await connection.session.authenticate(b"one")
        assert len(connection.exchanges) == 1
        with nullcontext() if is_right else pytest.raises(AuthenticationFailed):
            await connection.session.authenticate(last)
        assert len(connection.exchanges) == 0
        assert connection.serves() == is_right
        if not is_right:
            break
        connection.clock.advance(4000)


async def test_who_fails_to_authenticate_again_is_known_no_more() -> None:
    connection = Connection(5000)
    await connection.log_in()
    connection.clock.advance(4000)
    connection.session.choose("A", sends_tokens=False)
    with pytest.raises(AuthenticationFailed):
        await connection.session.authenticate(b"wrong")
    assert not connection.session.has_authenticated
    assert not connection.serves()
    with pytest.raises(NotNow):
        connection.session.choose("A", sends_tokens=False)


async def test_an_exchange_cannot_be_begun_twice() -> None:
    """As in Kafka. Otherwise, a client could try one mechanism after another on one connection."""
    connection = Connection()
    connection.session.choose("A", sends_tokens=False)
    with pytest.raises(NotNow):
        connection.session.choose("B", sends_tokens=False)
    assert connection.session.is_over


async def test_a_token_after_the_last_one_ends_the_connection() -> None:
    connection = Connection()
    await connection.log_in()
    with pytest.raises(NotNow):
        await connection.session.authenticate(b"two")
    assert connection.session.is_over


async def test_tokens_without_headers_are_read_until_the_exchange_is_complete() -> None:
    connection = Connection()
    await connection.log_in(sends_tokens=True)
    assert connection.steps == [(False, True), (True, False)]


async def test_who_need_not_authenticate_again_is_told_so_and_stays() -> None:
    connection = Connection()
    assert await connection.log_in() == 0
    connection.clock.advance(1 << 40)
    with pytest.raises(NotNow):
        connection.session.choose("A", sends_tokens=False)
    assert connection.serves()
    assert not connection.session.is_over


@pytest.mark.parametrize(
    ("longest_ms", "credentials_ms", "expected"),
    [(5000, None, 5000), (5000, 9000, 5000), (5000, 3000, 3000), (0, 3000, 3000)],
)
async def test_a_session_lasts_as_long_as_the_shorter_bound(
    longest_ms: int, credentials_ms: int | None, expected: int
) -> None:
    connection = Connection(longest_ms)
    now_ms = connection.clock.now_ms()
    expiry_ms = None if credentials_ms is None else now_ms + credentials_ms
    connection.outcome = Authenticated(ALICE, expiry_ms, is_token=True)
    assert await connection.log_in() == expected
    assert connection.session.is_token
    assert not connection.session.is_open
    connection.clock.advance(expected - 1)
    assert connection.serves()
    connection.clock.advance(1)
    assert not connection.serves()
    assert connection.session.has_expired
    assert connection.serves(HANDSHAKE)
    assert connection.serves(AUTHENTICATE)


async def test_credentials_that_have_expired_already_fail() -> None:
    connection = Connection()
    connection.outcome = Authenticated(ALICE, connection.clock.now_ms())
    with pytest.raises(AuthenticationFailed, match="have expired"):
        await connection.log_in()
    assert connection.session.is_over
    assert not connection.serves()


@pytest.mark.parametrize("passed_ms", [4000, 5000, 1 << 40])
async def test_who_authenticates_again_goes_on_even_if_late(passed_ms: int) -> None:
    """Kafka also accepts this after the end of the session, since a client with nothing to send comes late."""
    connection = Connection(5000)
    for _ in range(3):
        assert await connection.log_in() == 5000
        assert connection.serves()
        connection.clock.advance(passed_ms)
    connection.session.choose("A", sends_tokens=False)
    assert not connection.serves()  # not while it is in progress


async def test_who_authenticates_again_at_once_is_refused_and_stays() -> None:
    connection = Connection(5000)
    await connection.log_in()
    connection.clock.advance(999)
    with pytest.raises(NotNow):
        connection.session.choose("A", sends_tokens=False)
    assert connection.serves()
    assert not connection.session.is_over


async def test_another_principal_is_refused() -> None:
    connection = Connection(5000)
    await connection.log_in()
    connection.clock.advance(4000)
    connection.outcome = Authenticated(BOB)
    with pytest.raises(AuthenticationFailed) as failure:
        await connection.log_in()
    assert failure.value.told == "Cannot change principals during re-authentication"
    assert connection.session.is_over
    assert connection.session.principal == ALICE


async def test_another_mechanism_is_refused() -> None:
    connection = Connection(5000)
    await connection.log_in()
    connection.clock.advance(4000)
    with pytest.raises(NotNow):
        connection.session.choose("B", sends_tokens=False)
    assert connection.session.is_over
