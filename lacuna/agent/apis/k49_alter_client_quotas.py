"""AlterClientQuotas v0-v1 (KIP-546): sets and removes quotas. Each entry is applied completely or not at all."""

from lacuna.agent.api import Api, Call
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.quotas.alterations import IP, invalid
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.hosts import plain_host
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.security_pb2 import AlterSecurity, Quota, QuotaEntity, SecurityChanges
from lacuna.wire.messages.alter_client_quotas import (
    ALTER_CLIENT_QUOTAS_REQUEST,
    ALTER_CLIENT_QUOTAS_RESPONSE,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
    EntryData,
)

_Outcome = tuple[int, str]


async def handle(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Apply the valid changes in one command, and answer each entry independently."""
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
    return AlterClientQuotasResponse(
        entries=[
            _result(entry, *(outcome if outcome[0] else done))
            for entry, outcome in zip(request.entries, outcomes, strict=True)
        ]
    )


def refuse(
    _call: Call, request: AlterClientQuotasRequest, error_code: int
) -> AlterClientQuotasResponse:
    """Answer every entry with the error."""
    return AlterClientQuotasResponse(
        entries=[_result(entry, error_code, "") for entry in request.entries]
    )


def _quota(entry: EntryData) -> Quota:
    parts = sorted(entry.entity, key=lambda part: part.entity_type)
    return Quota(
        entity=[QuotaEntity(type=part.entity_type, name=_name(part)) for part in parts],
        set={change.key: change.value for change in entry.ops if not change.remove},
        removed=[change.key for change in entry.ops if change.remove],
    )


def _name(part: EntityData) -> str | None:
    name = part.entity_name
    return plain_host(name) if part.entity_type == IP and name is not None else name


def _result(entry: EntryData, code: int, message: str) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(code, message or None, entry.entity)


API = Api(
    request=ALTER_CLIENT_QUOTAS_REQUEST,
    response=ALTER_CLIENT_QUOTAS_RESPONSE,
    max_version=1,
    handle=handle,
    refuse=refuse,
    guard=on_cluster(Operation.ALTER_CONFIGS),
    unavailable=ErrorCode.NOT_CONTROLLER,
    notes="a quota holds for all agents together; see [Quotas](security.md#quotas)",
)
