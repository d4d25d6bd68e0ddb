"""Decodes every API with impossible lengths, in a process limited to 16 GiB. See test_odd_clients.py.

It prints how many bodies it read. A reader that allocates memory for an array's claimed length ends it.
"""

import resource
import sys
from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuna.agent.api import Api, MalformedRequest
from lacuna.agent.apis import discover
from tests.agent.requests import requests
from tests.messages import encode_body

MOST_BYTES = 3 << 30
ABSURD = (
    (b"\x7f\xff\xff\xff", 4),
    (b"\x80\x00\x00\x00", 4),
    (b"\xff\xff\xff\xff\x07", 1),
    (b"\xff\xff\xff\xff\x0f", 1),
)


def bodies(api: Api[Any, Any], version: int) -> list[bytes]:
    """Return some well-formed bodies."""
    found: list[bytes] = []

    @settings(
        max_examples=2,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(requests(api.key, version), min_size=1, max_size=2))
    def collect(drawn: list[object]) -> None:
        found.extend(encode_body(api.key, version, request) for request in drawn)

    collect()
    return found


def main() -> None:
    """Decode each body with an absurd length at a few positions."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    random = Random(1)
    count = 0
    for api in discover().apis():
        for version in range(api.min_version, api.max_version + 1):
            for body in bodies(api, version):
                for at in random.sample(range(len(body) + 1), min(len(body) + 1, 6)):
                    for absurd, width in ABSURD:
                        changed = body[:at] + absurd + body[at + width :]
                        with suppress(MalformedRequest):
                            api.read(memoryview(changed), version)
                        count += 1
    sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main()
