"""DescribeClientQuotas v0-v1 (KIP-546): the quotas of the entities that a filter matches."""

from collections.abc import Sequence
from typing import Final

from lacuna.agent.api import Api, Call
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.quotas.alterations import CLIENT, ENTITY_TYPES, IP, USER
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.hosts import plain_host
from lacuna.controlplane.shared.security import Entity
from lacuna.controlplane.shared.topic_configs import shorten
from lacuna.wire.messages.describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS_REQUEST,
    DESCRIBE_CLIENT_QUOTAS_RESPONSE,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


async def handle(call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Answer with the quotas of each matching entity."""
    code, message = _invalid(request.components)
    if code:
        return _failed(code, message)
    quotas = (await current_view(call.context)).security.quotas
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                [EntityData(kind, name) for kind, name in entity],
                [ValueData(key, value) for key, value in sorted(values.items())],
            )
            for entity, values in quotas.items()
            if _matches(entity, request.components, request.strict)
        ],
    )


def refuse(
    _call: Call, _request: DescribeClientQuotasRequest, error_code: int
) -> DescribeClientQuotasResponse:
    """Answer with the error and no entries."""
    return _failed(error_code, None)


def _failed(error_code: int, message: str | None) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error_code, error_message=message, entries=None)


def _invalid(components: Sequence[ComponentData]) -> tuple[int, str]:
    kinds = [each.entity_type for each in components]
    for component in components:
        kind = component.entity_type
        if kind not in ENTITY_TYPES:
            what = shorten(kind)
            return (
                (ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {what}")
                if kind
                else (ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
            )
        if kinds.count(kind) > 1:
            return ErrorCode.INVALID_REQUEST, f"Duplicate filter component entity type {kind}"
        if not _EXACT <= component.match_type <= _ANY:
            return ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}"
        if (component.match_type == _EXACT) != (component.match is not None):
            return (
                ErrorCode.INVALID_REQUEST,
                "Request specified MATCH_TYPE_EXACT, but did not specify a match."
                if component.match_type == _EXACT
                else "Give a match only with MATCH_TYPE_EXACT.",
            )
    if IP in kinds and {USER, CLIENT} & set(kinds):
        return (
            ErrorCode.INVALID_REQUEST,
            (
                "Invalid entity filter component combination: ip cannot be combined with other "
                "entity types."
            ),
        )
    return ErrorCode.NONE, ""


def _matches(entity: Entity, components: Sequence[ComponentData], strict: bool) -> bool:
    names = dict(entity)
    if strict and set(names) != {each.entity_type for each in components}:
        return False
    for component in components:
        if component.entity_type not in names:
            return False
        name = names[component.entity_type]
        if component.match_type == _DEFAULT and name is not None:
            return False
        match = component.match
        if component.entity_type == IP and match is not None:
            match = plain_host(match)
        if component.match_type == _EXACT and name != match:
            return False
    return True


API = Api(
    request=DESCRIBE_CLIENT_QUOTAS_REQUEST,
    response=DESCRIBE_CLIENT_QUOTAS_RESPONSE,
    max_version=1,
    handle=handle,
    refuse=refuse,
    guard=on_cluster(Operation.DESCRIBE_CONFIGS),
)
