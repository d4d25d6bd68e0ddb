"""Requests with the longest strings that can be encoded in versions before the flexible ones."""

from collections.abc import Iterator
from typing import Any

LONG = "x" * 32_767

_TOPIC = {"resource_type": 2, "resource_name": "t"}
_SET = {"config_operation": 0}
_ALTERED: tuple[dict[str, Any], ...] = (
    _TOPIC | {"configs": [_SET | {"name": LONG, "value": LONG}]},
    _TOPIC | {"configs": [_SET | {"name": LONG, "value": None}]},
    _TOPIC | {"configs": [_SET | {"name": "retention.ms", "value": LONG}]},
    _TOPIC | {"configs": [{"config_operation": 99, "name": LONG, "value": LONG}]},
    _TOPIC | {"resource_name": LONG, "configs": [_SET | {"name": "retention.ms", "value": "1"}]},
)
_CREATED: tuple[dict[str, Any], ...] = (
    {"name": LONG, "configs": []},
    {"name": "long", "configs": [{"name": LONG, "value": LONG}]},
    {"name": "long", "configs": [{"name": LONG, "value": None}]},
    {"name": "long", "configs": [{"name": "retention.ms", "value": LONG}]},
)
_NEW_TOPIC = {"num_partitions": 1, "replication_factor": 1, "assignments": []}
_AT_ONCE = {"timeout_ms": 9, "validate_only": False}
_GROWN = {"name": LONG, "count": 3, "assignments": None}


def _configs() -> Iterator[tuple[str, int, dict[str, Any]]]:
    for kind in (2, 4, 99):
        asked = {"resource_type": kind, "resource_name": LONG, "configuration_keys": None}
        yield "describe_configs", 1, {"resources": [asked], "include_synonyms": True}
    for resource in _ALTERED:
        yield "incremental_alter_configs", 0, {"resources": [resource], "validate_only": False}


def _topics() -> Iterator[tuple[str, int, dict[str, Any]]]:
    for topic in _CREATED:
        yield "create_topics", 2, _AT_ONCE | {"topics": [_NEW_TOPIC | topic]}
    yield "create_partitions", 0, _AT_ONCE | {"topics": [_GROWN]}
    yield "delete_topics", 1, {"topic_names": [LONG], "timeout_ms": 9}
    yield "metadata", 4, {"topics": [{"name": LONG}], "allow_auto_topic_creation": True}


#: API, version, fields of the request.
LONGEST: tuple[tuple[str, int, dict[str, Any]], ...] = (
    *_configs(),
    *_topics(),
    ("find_coordinator", 1, {"key": LONG, "key_type": 0}),
    ("find_coordinator", 1, {"key": LONG, "key_type": 9}),
    ("list_transactions", 0, {"state_filters": [LONG], "producer_id_filters": []}),
    ("init_producer_id", 1, {"transactional_id": LONG, "transaction_timeout_ms": 1000}),
    ("describe_groups", 0, {"groups": [LONG]}),
)
