"""The list of ACLs, and the changes to it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.console.editing import Done, Edit, Effect, Field, Turn, check, on_cluster, to_access
from lacuna.console.site import BadRequest, link
from lacuna.controlplane.shared.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from lacuna.controlplane.shared.principal import parse_principal
from lacuna.controlplane.shared.security import AclEntry
from lacuna.operating.changing import word_of
from lacuna.operating.exchanges.access import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from lacuna.wire.messages import security as wire

_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}
_PATTERNS: Final = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
_PERMISSIONS: Final = {"allow": Permission.ALLOW, "deny": Permission.DENY}
_OPERATIONS: Final = {word_of(each.name): each for each in Operation if each >= Operation.ALL}
_REMOVES: Final = "/edit/acl/remove"


class AclRow(NamedTuple):
    """An ACL in words, which are also the form fields for its removal."""

    principal: str
    permission: str
    operation: str
    resource: str
    name: str
    pattern: str
    host: str

    @property
    def removal(self) -> str:
        """The address of the form that removes the ACL."""
        return link(_REMOVES, **self._asdict())


async def rows(turn: Turn) -> list[AclRow]:
    """Return the cluster's ACLs, sorted. Raises NotAllowed, BadRequest."""
    response = await turn.ask(*DESCRIBE_ACLS, wire.DescribeAclsRequest(*AclFilter()))
    check(response.error_code, "ACLs", response.error_message)
    found = [
        AclEntry(*(*resource[:3], *acl)) for resource in response.resources for acl in resource.acls
    ]
    return [
        AclRow(
            acl.principal,
            Permission(acl.permission).name.lower(),
            word_of(Operation(acl.operation).name),
            ResourceType(acl.resource_type).name.lower().replace("_", " "),
            acl.resource_name,
            PatternType(acl.pattern_type).name.lower(),
            acl.host,
        )
        for acl in sorted(found)
    ]


async def _acl_fields(_turn: Turn) -> Sequence[Field]:
    return (
        Field(
            name="principal",
            label="Principal",
            hint="For example, User:alice, or User:* for all principals.",
        ),
        Field(name="permission", label="Permission", kind="select", choices=tuple(_PERMISSIONS)),
        Field(
            name="operation",
            label="Operation",
            kind="select",
            choices=tuple(_OPERATIONS),
            value="Read",
            hint="A consumer needs Read on its topics and on its group; a producer needs Write on its topics.",
        ),
        Field(name="resource", label="Resource", kind="select", choices=tuple(_RESOURCES)),
        Field(
            name="name",
            label="Name",
            hint="Name of the topic, group or transactional id; * for all. The cluster needs no name.",
            is_required=False,
        ),
        Field(
            name="pattern",
            label="Pattern",
            kind="select",
            choices=tuple(_PATTERNS),
            hint="literal: only this name. prefixed: all names that begin with it.",
        ),
        Field(name="host", label="Host", value=WILDCARD, hint="An address, or * for any."),
    )


def _acl_of(turn: Turn) -> AclEntry:
    """Parse the ACL in the form's fields. Raises BadRequest."""
    try:
        principal = str(parse_principal(turn.text("principal")))
        resource = _RESOURCES[turn.text("resource")]
        entry = AclEntry(
            resource,
            CLUSTER_NAME if resource is ResourceType.CLUSTER else turn.text("name"),
            _PATTERNS[turn.text("pattern")],
            principal,
            turn.text("host") or WILDCARD,
            _OPERATIONS[turn.text("operation")],
            _PERMISSIONS[turn.text("permission")],
        )
    except ValueError as error:
        raise BadRequest(str(error)) from error
    except KeyError as error:
        raise BadRequest(f"{error} is not one of the choices") from error
    if not entry.resource_name:
        raise BadRequest("The ACL has no name: enter the name of the resource, or * for all.")
    return entry


def _shown(turn: Turn) -> str:
    acl = _acl_of(turn)
    name = "" if acl.resource_type == ResourceType.CLUSTER else f" {acl.resource_name}"
    start = " and all that begin with it" if acl.pattern_type == PatternType.PREFIXED else ""
    return (
        f"{turn.text('permission')} {acl.principal} from {acl.host}: {turn.text('operation')} on "
        f"{turn.text('resource')}{name}{start}"
    )


async def _preview_acl(turn: Turn) -> Effect:
    return Effect(sentences=[f"Adds the ACL: {_shown(turn)}."])


async def _add_acl(turn: Turn) -> Done:
    response = await turn.ask(
        *CREATE_ACLS, wire.CreateAclsRequest([wire.AclCreation(*_acl_of(turn))])
    )
    (result,) = response.results
    check(result.error_code, "ACL", result.error_message)
    return Done(f"Added the ACL: {_shown(turn)}.", "/access")


async def _preview_no_acl(turn: Turn) -> Effect:
    return Effect(sentences=[f"Removes the ACL: {_shown(turn)}."], is_destructive=True)


async def _remove_acl(turn: Turn) -> Done:
    response = await turn.ask(
        *DELETE_ACLS, wire.DeleteAclsRequest([wire.DeleteAclsFilter(*_acl_of(turn))])
    )
    (result,) = response.filter_results
    check(result.error_code, "ACL", result.error_message)
    return Done(f"Removed the ACL: {_shown(turn)}.", "/access")


EDITS: Final = (
    Edit(
        path="/edit/acl",
        title="Add an ACL",
        button="Add",
        needs=on_cluster(Operation.ALTER),
        fields=_acl_fields,
        preview=_preview_acl,
        apply=_add_acl,
        on="access",
        back=to_access,
    ),
    Edit(
        path=_REMOVES,
        title="Remove an ACL",
        button="Remove",
        needs=on_cluster(Operation.ALTER),
        preview=_preview_no_acl,
        apply=_remove_acl,
        on="row",
        back=to_access,
    ),
)
