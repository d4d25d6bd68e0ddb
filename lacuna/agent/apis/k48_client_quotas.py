"""DescribeClientQuotas v0-v1 (KIP-546): returns the quotas of the entities that a filter matches.

AlterClientQuotas v0-v1 (KIP-546): sets and removes quotas. Each entry is applied completely or not at all.
"""

from collections.abc import Sequence
from typing import Final

from lacuna.agent.api import Api, Call
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.quotas.alterations import CLIENT, ENTITY_TYPES, IP, USER, invalid
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.config_values import shorten
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.hosts import plain_host
from lacuna.controlplane.shared.security import Entity
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.security_pb2 import AlterSecurity, Quota, QuotaEntity, SecurityChanges
from lacuna.wire.messages import client_quotas as wire

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


async def describe(
    call: Call, request: wire.DescribeClientQuotasRequest
) -> wire.DescribeClientQuotasResponse:
    code, message = _invalid(request.components)
    if code:
        return _failed(code, message)
    quotas = (await current_view(call.context)).security.quotas
    return wire.DescribeClientQuotasResponse(
        entries=[
            wire.DescribeClientQuotasResponseEntryData(
                [wire.EntityData(kind, name) for kind, name in entity],
                [wire.ValueData(key, value) for key, value in sorted(values.items())],
            )
            for entity, values in quotas.items()
            if _matches(entity, request.components, request.strict)
        ],
    )


def _failed(error_code: int, message: str | None) -> wire.DescribeClientQuotasResponse:
    return wire.DescribeClientQuotasResponse(
        error_code=error_code, error_message=message, entries=None
    )


def _invalid(components: Sequence[wire.ComponentData]) -> tuple[int, str]:
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
                else "Specify a match only with MATCH_TYPE_EXACT.",
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


def _matches(entity: Entity, components: Sequence[wire.ComponentData], strict: bool) -> bool:
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


_Outcome = tuple[int, str]


async def alter(
    call: Call, request: wire.AlterClientQuotasRequest
) -> wire.AlterClientQuotasResponse:
    outcomes = [invalid(entry.entity, entry.ops) for entry in request.entries]
    valid = [
        entry
        for entry, (code, _) in zip(request.entries, outcomes, strict=True)
        if code == ErrorCode.NONE
    ]
    done: _Outcome = ErrorCode.NONE, ""
    if valid and not request.validate_only:
        changes = SecurityChanges(quotas=[_quota(entry) for entry in valid])
        command = Command(alter_security=AlterSecurity(changes=changes))
        reply = (await call.context.control.call(command)).security_altered
        done = reply.error_code, reply.error_message
    return wire.AlterClientQuotasResponse(
        entries=[
            _result(entry, *(outcome if outcome[0] else done))
            for entry, outcome in zip(request.entries, outcomes, strict=True)
        ]
    )


def _quota(entry: wire.EntryData) -> Quota:
    parts = sorted(entry.entity, key=lambda part: part.entity_type)
    return Quota(
        entity=[QuotaEntity(type=part.entity_type, name=_name(part)) for part in parts],
        set={change.key: change.value for change in entry.ops if not change.remove},
        removed=[change.key for change in entry.ops if change.remove],
    )


def _name(part: wire.EntityData) -> str | None:
    name = part.entity_name
    return plain_host(name) if part.entity_type == IP and name is not None else name


def _result(
    entry: wire.EntryData, code: int, message: str
) -> wire.AlterClientQuotasResponseEntryData:
    return wire.AlterClientQuotasResponseEntryData(code, message or None, entry.entity)


APIS = (
    Api(
        request=wire.DESCRIBE_CLIENT_QUOTAS_REQUEST,
        response=wire.DESCRIBE_CLIENT_QUOTAS_RESPONSE,
        handle=describe,
        refusal=lambda _call, _request, code: _failed(code, None),
        guard=on_cluster(Operation.DESCRIBE_CONFIGS),
    ),
    Api(
        request=wire.ALTER_CLIENT_QUOTAS_REQUEST,
        response=wire.ALTER_CLIENT_QUOTAS_RESPONSE,
        handle=alter,
        refusal=lambda _call, request, code: wire.AlterClientQuotasResponse(
            entries=[_result(each, code, "") for each in request.entries]
        ),
        guard=on_cluster(Operation.ALTER_CONFIGS),
        unavailable=ErrorCode.NOT_CONTROLLER,
        notes="a quota applies to all agents together; see [Quotas](security.md#quotas)",
    ),
)
