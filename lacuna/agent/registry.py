"""The Kafka APIs that are served, and the versions that ApiVersions advertises.

The advertised versions are those that Kafka 4.1 advertises, and the earlier ones that old clients send, as far as they
are served. An API that Kafka does not advertise is served without being advertised.
"""

import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from lacuna.agent.api import Api
from lacuna.wire import messages
from lacuna.wire.layout import Message
from lacuna.wire.peers import READ_CHUNK_KEY, READ_CHUNK_REQUEST

API_VERSIONS_KEY = 18
ADD_PARTITIONS_TO_TXN_KEY = 24
ADD_OFFSETS_TO_TXN_KEY = 25

# Apache Kafka 4.1.0's answer to ApiVersions, without APIs that an agent will never serve. A test compares it with the
# capture in tests/golden/api_versions_kafka_4_1.json. Kafka serves 71 and 72 too (KIP-714), but advertises them only if
# a plugin receives the metrics; here they are never advertised (adr/0017).
KAFKA_4_1: Mapping[int, tuple[int, int]] = MappingProxyType(
    {
        0: (0, 13),
        1: (4, 18),
        2: (1, 10),
        3: (0, 13),
        8: (2, 9),
        9: (1, 9),
        10: (0, 6),
        11: (0, 9),
        12: (0, 4),
        13: (0, 5),
        14: (0, 5),
        15: (0, 6),
        16: (0, 5),
        17: (0, 1),
        18: (0, 4),
        19: (2, 7),
        20: (1, 6),
        21: (0, 2),
        22: (0, 5),
        23: (2, 4),
        24: (0, 5),
        25: (0, 4),
        26: (0, 5),
        27: (1, 1),
        28: (0, 5),
        29: (1, 3),
        30: (1, 3),
        31: (1, 3),
        32: (1, 4),
        33: (0, 2),
        34: (1, 2),
        35: (1, 4),
        36: (0, 2),
        37: (0, 3),
        38: (1, 3),
        39: (1, 2),
        40: (1, 2),
        41: (1, 3),
        42: (0, 2),
        43: (0, 2),
        44: (0, 1),
        45: (0, 1),
        46: (0, 0),
        47: (0, 0),
        48: (0, 1),
        49: (0, 1),
        50: (0, 0),
        51: (0, 0),
        55: (0, 2),
        57: (0, 2),
        60: (0, 2),
        61: (0, 0),
        64: (0, 0),
        65: (0, 0),
        66: (0, 2),
        68: (0, 1),
        69: (0, 1),
        74: (0, 1),
        75: (0, 0),
    }
)
# The first versions advertised, if they are served, of APIs whose early versions Kafka 4.0 removed (KIP-896): old
# clients still send them.
BEFORE_KAFKA_4: Mapping[int, int] = MappingProxyType(
    {1: 0, 2: 0, 8: 0, 9: 0, 19: 0, 20: 0, 23: 0, 32: 0, 35: 0}
)


class Registry:
    """The served APIs."""

    __slots__ = ("_advertised", "_apis", "header_versions")

    def __init__(self, apis: Iterable[Api[Any, Any]]) -> None:
        """Raises ValueError if two APIs have one key."""
        self._apis: dict[int, Api[Any, Any]] = {}
        for api in apis:
            if api.key in self._apis:
                raise ValueError(f"API {api.key} is registered twice")
            self._apis[api.key] = api
        self._advertised = _as_kafka_advertises(self._apis)
        #: The request header's version of all that is served, by api key << 16 | version.
        self.header_versions = {
            api.key << 16 | version: request_header_version(api.key, version)
            for api in self._apis.values()
            for version in range(api.min_version, api.max_version + 1)
        }

    def get(self, api_key: int, version: int) -> Api[Any, Any] | None:
        """Return the API that serves a version, or None. ApiVersions serves every version."""
        api = self._apis.get(api_key)
        if api is None or api_key == API_VERSIONS_KEY:
            return api
        return api if api.min_version <= version <= api.max_version else None

    def apis(self) -> Iterable[Api[Any, Any]]:
        """Return all served APIs."""
        return self._apis.values()

    def advertised(self) -> Mapping[int, tuple[int, int]]:
        """Return key -> (first version, last version), ordered by key, as ApiVersions advertises them."""
        return self._advertised

    def takes(self, api_key: int, version: int) -> bool:
        """Whether requests of this version are served; others close the connection, as in Kafka."""
        return self.get(api_key, version) is not None


def _as_kafka_advertises(apis: Mapping[int, Api[Any, Any]]) -> dict[int, tuple[int, int]]:
    """Return Kafka 4.1's ranges, with the old versions that 4.0 removed, as far as they are served."""
    advertised = {}
    for key in sorted(apis.keys() & KAFKA_4_1.keys()):
        low = max(apis[key].min_version, BEFORE_KAFKA_4.get(key, KAFKA_4_1[key][0]))
        high = min(apis[key].max_version, KAFKA_4_1[key][1])
        if low <= high:
            advertised[key] = (low, high)
    return advertised


@lru_cache(maxsize=1024)
def request_header_version(api_key: int, version: int) -> int:
    """Return the version of the request header: 2 if it ends with tagged fields, else 1."""
    return 2 if _requests()[api_key].is_flexible(version) else 1


@cache
def _requests() -> Mapping[int, Message[Any]]:
    """Return the requests of lacuna.wire by API key."""
    found: dict[int, Message[Any]] = {READ_CHUNK_KEY: READ_CHUNK_REQUEST}
    for module_info in pkgutil.iter_modules(messages.__path__):
        module = import_module(f"{messages.__name__}.{module_info.name}")
        request = getattr(module, f"{module_info.name.upper()}_REQUEST")
        found[request.api_key] = request
    return found


@cache
def api_names() -> Mapping[int, str]:
    """Return the name of each API by its key, as Kafka writes it: Produce, Fetch."""
    return {
        key: request.body.make.__name__.removesuffix("Request")
        for key, request in _requests().items()
    }


def response_header_version(api_key: int, version: int) -> int:
    """Return the version of the response header: 1 with tagged fields, else 0; always 0 for ApiVersions (KIP-511)."""
    if api_key == API_VERSIONS_KEY:
        return 0
    return request_header_version(api_key, version) - 1
