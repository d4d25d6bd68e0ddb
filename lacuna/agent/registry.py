"""The Kafka APIs that are served, and the versions that ApiVersions advertises.

The advertised versions are those of Kafka 4.4 and the earlier ones that old clients send (KIP-896). A test compares
them with Kafka's answer in tests/golden/api_versions_kafka_4_4.json.
"""

import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from lacuna.agent.api import Api
from lacuna.wire import messages
from lacuna.wire.layout import Message
from lacuna.wire.peers import ASK_CONTROL_REQUEST, READ_CHUNK_REQUEST

API_VERSIONS_KEY = 18
ADD_PARTITIONS_TO_TXN_KEY = 24
ADD_OFFSETS_TO_TXN_KEY = 25


class Registry:
    __slots__ = ("_advertised", "_apis", "header_versions")

    def __init__(self, apis: Iterable[Api[Any, Any]]) -> None:
        """Raises ValueError if two APIs have the same key."""
        self._apis: dict[int, Api[Any, Any]] = {}
        for api in apis:
            if api.key in self._apis:
                raise ValueError(f"API {api.key} is registered twice")
            self._apis[api.key] = api
        self._advertised = _advertised(self._apis.values())
        #: The request header version of every served request, by api key << 16 | version.
        self.header_versions = {
            api.key << 16 | version: request_header_version(api.key, version)
            for api in self._apis.values()
            for version in range(api.min_version, api.max_version + 1)
        }

    def get(self, api_key: int, version: int) -> Api[Any, Any] | None:
        """Return the API with this key, or None if it does not serve the version. ApiVersions serves every version."""
        api = self._apis.get(api_key)
        if api is None or api_key == API_VERSIONS_KEY:
            return api
        return api if api.min_version <= version <= api.max_version else None

    def apis(self) -> Iterable[Api[Any, Any]]:
        return self._apis.values()

    def advertised(self) -> Mapping[int, tuple[int, int]]:
        """Return the first and the last advertised version of each API, in the order of the API keys."""
        return self._advertised

    def takes(self, api_key: int, version: int) -> bool:
        """Whether requests in this version are served. Requests in other versions close the connection, as in Kafka."""
        return self.get(api_key, version) is not None


def _advertised(apis: Iterable[Api[Any, Any]]) -> dict[int, tuple[int, int]]:
    advertised = {}
    for api in sorted(apis, key=lambda api: api.key):
        low, high = api.advertised or (api.min_version, api.max_version)
        if low <= high:
            advertised[api.key] = max(low, api.min_version), min(high, api.max_version)
    return advertised


@lru_cache(maxsize=1024)
def request_header_version(api_key: int, version: int) -> int:
    """Return the version of the request header: 2 if it ends with tagged fields, else 1."""
    return 2 if _requests()[api_key].is_flexible(version) else 1


@cache
def _requests() -> Mapping[int, Message[Any]]:
    own: tuple[Message[Any], ...] = (READ_CHUNK_REQUEST, ASK_CONTROL_REQUEST)
    found = {each.api_key: each for each in own}
    for module_info in pkgutil.iter_modules(messages.__path__):
        module = import_module(f"{messages.__name__}.{module_info.name}")
        for name, message in vars(module).items():
            if name.endswith("_REQUEST"):
                found[message.api_key] = message
    return found


@cache
def api_names() -> Mapping[int, str]:
    return {
        key: request.body.make.__name__.removesuffix("Request")
        for key, request in _requests().items()
    }


def response_header_version(api_key: int, version: int) -> int:
    """Return the response header's version: 1 with tagged fields, else 0; always 0 for ApiVersions (KIP-511)."""
    if api_key == API_VERSIONS_KEY:
        return 0
    return request_header_version(api_key, version) - 1
