"""Answers at any version: kio has classes for each, `build` fills those that a request asked in."""

import sys
from collections.abc import Mapping
from dataclasses import Field, fields
from datetime import timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

_ZERO_DELTA = timedelta(0)
_MILLISECOND = timedelta(milliseconds=1)


def version_of(request: Any) -> int:
    """The API version that a kio request (or one of its nested values) was read in."""
    return int(type(request).__version__)


def kio_versions(api_key: int) -> range:
    """The versions that kio has of an API. Raises KeyError for an API that it does not know."""
    versions = schema_name_map[api_key_map[api_key]]
    return range(min(versions), max(versions) + 1)


def request_class(api_key: int, version: int) -> Any:
    """kio's request class. Raises KeyError where there is none."""
    return _load(schema_name_map[api_key_map[api_key]][version][EntityType.request])


def response_class(api_key: int, version: int) -> Any:
    """kio's response class. Raises KeyError where there is none."""
    return _load(schema_name_map[api_key_map[api_key]][version][EntityType.response])


def build(request: Any, name: str, /, **values: Any) -> Any:
    """A value of the response class `name` (or one nested in it) at the version of `request`.

    Fields that this version lacks are left out, so that a handler says everything it knows once; a
    name that no version of the API has is a TypeError. `throttle_time` is filled with 0 and error
    codes may be plain integers. Fields with a default in the schema may be left out.
    """
    kind = type(request)
    return build_for(int(kind.__api_key__), int(kind.__version__), name, values)


def build_for(api_key: int, version: int, name: str, values: Mapping[str, Any]) -> Any:
    """As `build`, for a version that is known without a request."""
    cls, known, all_names = _shape(api_key, version, name)
    taken: dict[str, Any] = {}
    for field_name, value in values.items():
        kafka_type = known.get(field_name)
        if kafka_type is None:
            if field_name not in all_names:
                raise TypeError(f"no version of {name} has a field {field_name!r}")
            continue
        taken[field_name] = KafkaError(value) if kafka_type == "error_code" else value
    if "throttle_time" in known and "throttle_time" not in taken:
        taken["throttle_time"] = _ZERO_DELTA
    return cls(**taken)


def has_field(request: Any, name: str, field_name: str) -> bool:
    """True where the response class `name` has the field at the version of `request`."""
    kind = type(request)
    return field_name in _shape(int(kind.__api_key__), int(kind.__version__), name)[1]


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@lru_cache(maxsize=4096)
def _shape(api_key: int, version: int, name: str) -> tuple[Any, dict[str, str], frozenset[str]]:
    """The class, its fields with their Kafka types, and the names that any version of it has."""
    cls = _nested_class(api_key, version, name)
    if cls is None:
        raise TypeError(f"version {version} of API {api_key} has no class {name!r}")
    known = {field.name: _kafka_type(field) for field in fields(cls)}
    every: set[str] = set()
    for other in kio_versions(api_key):
        other_cls = _nested_class(api_key, other, name)
        if other_cls is not None:
            every.update(field.name for field in fields(other_cls))
    return cls, known, frozenset(every)


def _nested_class(api_key: int, version: int, name: str) -> Any:
    top = response_class(api_key, version)
    return getattr(sys.modules[top.__module__], name, None)


def _kafka_type(field: Field[Any]) -> str:
    return str(field.metadata.get("kafka_type", "entity"))


def milliseconds(delta: timedelta) -> int:
    """A duration as kio reads it, in milliseconds."""
    return delta // _MILLISECOND
