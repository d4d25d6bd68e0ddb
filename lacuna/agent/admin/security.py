"""Shared code for the ACL APIs: validates ACLs and filters, and changes ACLs through the control plane."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from lacuna.agent.context import AgentContext
from lacuna.controlplane.shared.acls import (
    CLUSTER_NAME,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import parse_principal
from lacuna.controlplane.shared.security import AclEntry
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.security_pb2 import AlterSecurity, SecurityChanges
from lacuna.wire.messages.security import AclCreation, DeleteAclsFilter, DescribeAclsRequest

DISABLED: Final = ErrorCode.SECURITY_DISABLED
NO_AUTHORIZER: Final = "No Authorizer is configured."
#: The maximum number of ACLs that one request may change, as in Kafka.
MOST_AT_ONCE: Final = 10_000
_MOST_OF_TEXT: Final = 1024

_Filter: TypeAlias = DescribeAclsRequest | DeleteAclsFilter


def entry_of(creation: AclCreation) -> AclEntry:
    return AclEntry(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def problem_of(acl: AclEntry) -> str:
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type not in range(ResourceType.TOPIC, len(ResourceType)):
        return f"Invalid resourceType {_name(ResourceType, acl.resource_type)}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {_name(PatternType, acl.pattern_type)}"
    if acl.operation not in range(Operation.ALL, len(Operation)):
        return f"Invalid operation {_name(Operation, acl.operation)}"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {_name(Permission, acl.permission)}"
    try:
        parse_principal(acl.principal)
    except ValueError:
        return "Invalid principal: specify a type and a name, such as User:alice"
    if not acl.host:
        return "Invalid empty host"
    if max(len(acl.resource_name), len(acl.principal), len(acl.host)) > _MOST_OF_TEXT:
        return f"A name exceeds {_MOST_OF_TEXT} characters; use a shorter one"
    return ""


def filter_of(asked: _Filter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def filter_problem(wanted: AclFilter) -> str:
    if wanted.resource_type not in range(ResourceType.ANY, len(ResourceType)):
        return "Unknown patternFilter."
    if wanted.pattern_type not in range(PatternType.ANY, len(PatternType)):
        return "Unknown patternFilter."
    if wanted.operation not in range(Operation.ANY, len(Operation)):
        return "Unknown entryFilter."
    if wanted.permission not in range(Permission.ANY, len(Permission)):
        return "Unknown entryFilter."
    return ""


async def change_acls(
    context: AgentContext, added: Iterable[AclEntry] = (), removed: Iterable[AclEntry] = ()
) -> tuple[int, str | None]:
    """Apply all additions and removals, or none of them. Return the control plane's error code and message."""
    changes = SecurityChanges(
        added_acls=[each.message() for each in added],
        removed_acls=[each.message() for each in removed],
    )
    command = Command(alter_security=AlterSecurity(changes=changes))
    reply = (await context.control.call(command)).security_altered
    return reply.error_code, reply.error_message or None


def _name(
    kind: type[ResourceType] | type[PatternType] | type[Operation] | type[Permission], number: int
) -> str:
    return kind(number).name if number in range(len(kind)) else "UNKNOWN"
