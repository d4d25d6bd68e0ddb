"""Validates quota changes, with Kafka's messages for invalid changes."""

from collections.abc import Sequence
from typing import Final

from lacuna.agent.quotas.limits import CONNECTIONS, CONSUMED, MUTATIONS, PRODUCED, REQUESTS
from lacuna.controlplane.shared.config_values import shorten
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.hosts import is_host
from lacuna.wire.messages.client_quotas import EntityData, OpData

USER: Final = "user"
CLIENT: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT, IP})

_OF_CLIENTS: Final = frozenset({PRODUCED, CONSUMED, REQUESTS, MUTATIONS})
_OF_IPS: Final = frozenset({CONNECTIONS})
_WHOLE: Final = frozenset({PRODUCED, CONSUMED, CONNECTIONS})
_LARGEST: Final = {CONNECTIONS: float((1 << 31) - 1)}
_LARGEST_OF_OTHERS: Final = float(1 << 62)
_MOST_OF_NAME: Final = 1024


def invalid(entity: Sequence[EntityData], changes: Sequence[OpData]) -> tuple[int, str]:
    """Return the error code and message for changes to an entity's quotas, or (NONE, "") if they are valid."""
    problem = _entity_problem(entity)
    if not problem:
        is_ip = entity[0].entity_type == IP
        known = _OF_IPS if is_ip else _OF_CLIENTS
        problem = next(filter(None, (_problem(change, known) for change in changes)), "")
    return (ErrorCode.INVALID_REQUEST, problem) if problem else (ErrorCode.NONE, "")


def _entity_problem(entity: Sequence[EntityData]) -> str:
    if not entity:
        return "Invalid empty client quota entity"
    kinds = [part.entity_type for part in entity]
    for part in entity:
        if part.entity_type not in ENTITY_TYPES:
            return f"Unhandled client quota entity type: {shorten(part.entity_type)}"
        if kinds.count(part.entity_type) > 1:
            return f"Duplicate client quota entity type: {part.entity_type}"
        if part.entity_name is not None and not 0 < len(part.entity_name) <= _MOST_OF_NAME:
            return f"Empty or too long {part.entity_type} not supported"
    if IP in kinds and len(kinds) > 1:
        return "Invalid entity combination: ip cannot be combined with other entity types"
    if IP in kinds and entity[0].entity_name is not None and not is_host(entity[0].entity_name):
        return (
            f"{shorten(entity[0].entity_name)} is not an IP address; quotas cannot be set for "
            "host names"
        )
    return ""


def _problem(change: OpData, known: frozenset[str]) -> str:
    if change.key not in known:
        return f"Invalid configuration key {shorten(change.key)}"
    if change.remove:
        return ""
    if change.value > _LARGEST.get(change.key, _LARGEST_OF_OTHERS):
        return f"Quota {change.key} is too large"
    if not change.value > 0:
        return f"Quota {change.key} must be greater than 0"
    if change.key in _WHOLE and change.value != int(change.value):
        return f"{change.key} cannot be a fractional value"
    return ""
