"""Decodes every API's requests with impossible lengths, in a process limited to 16 GiB. See test_odd_clients.py.

It prints how many bodies it has read. A reader that allocates memory for an array's claimed length crashes the process.
"""

import resource
import sys
from contextlib import suppress
from random import Random
from typing import Any

from lacuna.agent.api import Api, MalformedRequest
from lacuna.agent.apis import discover
from tests.golden import messages as golden
from tests.messages import encode_body

MOST_BYTES = 3 << 30
ABSURD = (
    (b"\x7f\xff\xff\xff", 4),
    (b"\x80\x00\x00\x00", 4),
    (b"\xff\xff\xff\xff\x07", 1),
    (b"\xff\xff\xff\xff\x0f", 1),
)


def bodies(api: Api[Any, Any], version: int) -> list[bytes]:
    """Return well-formed bodies: those that Kafka wrote or, for APIs that only Lacuna has, one with default values."""
    if api.key not in golden.API_NAMES:
        return [encode_body(api.key, version, api.request.body.make())]
    return [each.body for each in golden.requests(api.key) if each.version == version]


def main() -> None:
    """Decode each body with an absurd length in a few positions."""
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
