"""Clients that try to authenticate get the error that authentication is not needed, as from Kafka without SASL."""

import pytest

from tests.agent.harness import RawClient, ScriptedControl, make_context, serving
from tests.messages import REQUESTS, names

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
    async with serving(make_context(ScriptedControl())) as server:
        client = await RawClient.connect(server.port)
        try:
            for version in versions:
                known = names(REQUESTS[api_key].body, version)
                more = {name: None for name in known if name.startswith("owner_principal")}
                answer = await client.ask(api_key, version, **fields, **more)
                assert answer.error_code == error
            ranges = await client.ask(18, 0)
        finally:
            await client.close()
    advertised = {each.api_key: (each.min_version, each.max_version) for each in ranges.api_keys}
    assert advertised[api_key] == (versions[0], versions[-1])
