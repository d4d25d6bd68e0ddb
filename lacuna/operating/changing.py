"""Conversions for commands and the console: of configs with units into plain configs, and of passwords into SCRAM
credentials.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from hashlib import pbkdf2_hmac
from typing import Final

from lacuna.agent.security.sasl.users import HASHES, LEAST_ITERATIONS
from lacuna.controlplane.client.times import seconds_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import TOPIC_CONFIGS
from lacuna.operating.exchanges.access import ALTER_USER_SCRAM_CREDENTIALS
from lacuna.operating.refusal import Refusal
from lacuna.wire.client import Ask
from lacuna.wire.messages import security as wire
from lacuna.wire.messages.security import ScramCredentialUpsertion

_BYTES: Final = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([KMGT]iB)", re.IGNORECASE)
_SALT_BYTES: Final = 24


def with_unit(key: str, value: str) -> tuple[str, str]:
    """Return a topic config's full name and its value without a unit.

    retention=7d becomes retention.ms=604800000, retention=1GiB becomes retention.bytes=1073741824, and
    segment.bytes=64MiB becomes segment.bytes=67108864.
    """
    seconds, size = seconds_of(value), _SIZE.fullmatch(value.strip())
    for ending, number in (
        (".ms", None if seconds is None else round(seconds * 1000)),
        (".bytes", int(size[1]) * _BYTES[size[2].lower()] if size else None),
    ):
        name = key if key in TOPIC_CONFIGS else f"{key}{ending}"
        if number is not None and name in TOPIC_CONFIGS and name.endswith(ending):
            return name, str(number)
    return key, value


def word_of(name: str) -> str:
    """Convert an enum member's name for display, such as ALTER_CONFIGS to AlterConfigs."""
    return "".join(part.capitalize() for part in name.split("_"))


async def set_password(
    ask: Ask, user: str, password: bytes, iterations: int = LEAST_ITERATIONS
) -> Sequence[Refusal]:
    """Store a password for all mechanisms, and return any refusals. The password itself is not sent."""
    changes = await asyncio.to_thread(_upsertions, user, password, iterations)
    return await _alter(ask, wire.AlterUserScramCredentialsRequest((), changes))


async def remove_user(ask: Ask, user: str) -> Sequence[Refusal]:
    """Remove a user's passwords, and return any refusals, such as RESOURCE_NOT_FOUND if there are no passwords.

    Any other refusal ends the removal.
    """
    missing: list[Refusal] = []
    for mechanism in HASHES:
        deletion = wire.ScramCredentialDeletion(user, mechanism)
        refused = await _alter(ask, wire.AlterUserScramCredentialsRequest([deletion], ()))
        if any(each.error_code != ErrorCode.RESOURCE_NOT_FOUND for each in refused):
            return refused
        missing += refused
    return missing[:1] if len(missing) == len(HASHES) else ()


async def _alter(ask: Ask, request: wire.AlterUserScramCredentialsRequest) -> Sequence[Refusal]:
    response = await ask(*ALTER_USER_SCRAM_CREDENTIALS, request)
    return [
        Refusal(f"user {each.user}", each.error_code, each.error_message)
        for each in response.results
        if each.error_code
    ]


def _upsertions(user: str, password: bytes, iterations: int) -> list[ScramCredentialUpsertion]:
    """Return the changes that store a password. Computing them takes milliseconds."""
    changes = []
    for mechanism, name in HASHES.items():
        salt = os.urandom(_SALT_BYTES)
        salted = pbkdf2_hmac(name, password, salt, iterations)
        changes.append(ScramCredentialUpsertion(user, mechanism, iterations, salt, salted))
    return changes
