"""What has configs besides topics, and why AlterConfigs in either form refuses it.

Topics (2) have configs of their own. Agents (4, "broker"), their loggers (8), client metrics subscriptions (16,
KIP-714) and groups (32, KIP-848) are described, and what they have cannot be set here.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.schema import build
from agent.topic_names import is_legal
from controlplane.topic_configs import shorten

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

_UNALTERABLE: Final = {
    BROKER: "An agent's settings are given at its start and cannot be altered here.",
    BROKER_LOGGER: "The levels of an agent's loggers are given at its start and cannot be altered here.",
    CLIENT_METRICS: "No metrics of clients are collected here, so there is nothing to subscribe to.",
    GROUP: "Groups have no configs of their own here: the cluster's hold for all of them.",
}


def check_altered(
    resource: Any, resources: Sequence[Any], are_set: Sequence[bool]
) -> tuple[int, str] | None:
    """Error code and message of what can be told from the request alone; None: the control plane is to try it.

    `are_set` says which of the resource's configs get a value. Where none does there is nothing to take
    away from what has no configs of its own, and that succeeds: tools clear what they might have set.
    """
    invalid = int(KafkaError.invalid_request)
    kind, name = resource.resource_type, resource.resource_name
    if kind != TOPIC:
        if kind in _UNALTERABLE and not any(are_set):
            return 0, ""
        return invalid, _UNALTERABLE.get(kind, f"Unknown resource type {kind}")
    if Counter((each.resource_type, each.resource_name) for each in resources)[kind, name] > 1:
        return invalid, "The request names this resource more than once."
    if len({config.name for config in resource.configs}) < len(resource.configs):
        return invalid, "Error due to duplicate config keys"
    for config, is_set in zip(resource.configs, are_set, strict=True):
        if config.value is None and is_set:
            return invalid, f"Null value not supported for : {shorten(config.name)}"
    if not is_legal(name):
        return int(KafkaError.invalid_topic_exception), f"Topic name is invalid: {shorten(name)!r}"
    return None


def altered(request: Any, resource: Any, error_code: int, message: str) -> Any:
    """What became of a resource, in the answer of either form; no message is null."""
    return build(
        request,
        "AlterConfigsResourceResponse",
        error_code=error_code,
        error_message=message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
