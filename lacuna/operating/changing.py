"""What commands and the console send to change a cluster: configs in a user's units, and passwords in SCRAM's form."""

import os
import re
from hashlib import pbkdf2_hmac
from typing import Final

from lacuna.agent.security.sasl.users import HASHES, LEAST_ITERATIONS
from lacuna.controlplane.client.times import seconds_of
from lacuna.controlplane.shared.topic_configs import TOPIC_CONFIGS
from lacuna.wire.messages.security import ScramCredentialUpsertion

_BYTES: Final = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([KMGT]iB)", re.IGNORECASE)
_SALT_BYTES: Final = 24


def with_unit(key: str, value: str) -> tuple[str, str]:
    """Return the name and the value of a topic config, whose value may have a unit, and whose name may lack its own.

    retention=7d is retention.ms=604800000, retention=1GiB is retention.bytes=1073741824, and segment.bytes=64MiB is
    segment.bytes=67108864.
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


def upsertions(
    user: str, password: bytes, iterations: int = LEAST_ITERATIONS
) -> list[ScramCredentialUpsertion]:
    """Return the changes that store a password for all mechanisms. The password is not in them. Takes milliseconds."""
    changes = []
    for mechanism, name in HASHES.items():
        salt = os.urandom(_SALT_BYTES)
        salted = pbkdf2_hmac(name, password, salt, iterations)
        changes.append(ScramCredentialUpsertion(user, mechanism, iterations, salt, salted))
    return changes
