"""The page of access: logins, users, ACLs and quotas; and the changes of them, a row for each."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from lacuna.agent.security.sasl.users import HASHES, MECHANISM_NAMES
from lacuna.base.errors import UserError
from lacuna.console import formats
from lacuna.console.editing import Done, Edit, Effect, Field, Turn, check
from lacuna.console.rights import Rights
from lacuna.console.site import BadRequest, Needs, Paging, Site, link
from lacuna.controlplane.shared.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import parse_principal
from lacuna.controlplane.shared.security import AclEntry
from lacuna.operating.changing import upsertions
from lacuna.wire.messages import security as wire
from lacuna.wire.messages.client_quotas import (
    ALTER_CLIENT_QUOTAS_REQUEST,
    ALTER_CLIENT_QUOTAS_RESPONSE,
    DESCRIBE_CLIENT_QUOTAS_REQUEST,
    DESCRIBE_CLIENT_QUOTAS_RESPONSE,
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)

T = TypeVar("T")

_ACLS_VERSION: Final = 3
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}
_PATTERNS: Final = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
_PERMISSIONS: Final = {"allow": Permission.ALLOW, "deny": Permission.DENY}
#: Quotas, each with the unit of its value.
_QUOTAS: Final = {
    "producer_byte_rate": "bytes a second",
    "consumer_byte_rate": "bytes a second",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "partitions a second",
}
#: The name of the default entity, which Kafka's messages write as null.
_DEFAULT: Final = "(default)"
_ENTITIES: Final = {"user": "user", "client-id": "client_id"}


def _word(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


_OPERATIONS: Final = {_word(each.name): each for each in Operation if each >= Operation.ALL}


class AclRow(NamedTuple):
    """An ACL in words. The words are the fields of the form that removes it."""

    principal: str
    permission: str
    operation: str
    resource: str
    name: str
    pattern: str
    host: str


class UserRow(NamedTuple):
    """A user with a password, and the mechanisms for which it is stored."""

    user: str
    mechanisms: str


class QuotaRow(NamedTuple):
    """A quota of a user, a client id, or both; "" for neither, and "(default)" for all others."""

    user: str
    client_id: str
    quota: str
    value: str
    unit: str


async def page(site: Site, request: Request) -> Response:
    """Answer with the page. Each list that the visitor may not see is replaced by the reason."""
    turn = Turn(site=site, request=request, given={})
    acls, no_acls = await _or_reason(_acls(turn))
    users, no_users = await _or_reason(_users(turn))
    quotas, no_quotas = await _or_reason(_quotas(turn))
    paging = Paging.of(request.query_params, len(acls))
    logins = site.logins.users() if site.logins is not None else []
    return site.render(
        request,
        "access.html",
        has_logins=site.logins is not None,
        logins=sorted(Counter(logins).items()),
        acls=acls[paging.first : paging.stop],
        paging=paging,
        no_acls=no_acls,
        users=users,
        no_users=no_users,
        quotas=quotas,
        no_quotas=no_quotas,
        actions=site.actions_on("access", request),
        removal_of=removal_of,
        may_remove=bool(site.actions_on("access", request)),
    )


async def _or_reason(rows: Awaitable[Sequence[T]]) -> tuple[Sequence[T], str]:
    """Return rows, or no rows and the reason."""
    try:
        return await rows, ""
    except UserError as error:
        return (), str(error)


def _on_cluster(operation: Operation) -> Needs:
    """The change needs an operation on the cluster."""

    def needs(rights: Rights, _path: Mapping[str, Any]) -> None:
        rights.check_cluster(operation)

    return needs


def _back(_turn: Turn) -> str:
    return "/access"


# --- ACLs ---


async def _acls(turn: Turn) -> list[AclRow]:
    response = await turn.ask(
        wire.DESCRIBE_ACLS_REQUEST,
        wire.DESCRIBE_ACLS_RESPONSE,
        _ACLS_VERSION,
        wire.DescribeAclsRequest(*AclFilter()),
    )
    check(response.error_code, "ACLs", response.error_message)
    found = [
        AclEntry(*(*resource[:3], *acl)) for resource in response.resources for acl in resource.acls
    ]
    return [
        AclRow(
            acl.principal,
            Permission(acl.permission).name.lower(),
            _word(Operation(acl.operation).name),
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
            hint="Such as User:alice; User:* for all principals.",
        ),
        Field(name="permission", label="Permission", kind="select", choices=tuple(_PERMISSIONS)),
        Field(
            name="operation",
            label="Operation",
            kind="select",
            choices=tuple(_OPERATIONS),
            value="Read",
            hint="A consumer needs Read on its topics and on its group, a producer Write on its topics.",
        ),
        Field(name="resource", label="Resource", kind="select", choices=tuple(_RESOURCES)),
        Field(
            name="name",
            label="Name",
            hint="Of the topic, the group or the transactional id; * for all. The cluster needs no name.",
            is_required=False,
        ),
        Field(
            name="pattern",
            label="Pattern",
            kind="select",
            choices=tuple(_PATTERNS),
            hint="literal: this name. prefixed: all names that begin with it.",
        ),
        Field(name="host", label="Host", value=WILDCARD, hint="An address, or * for any."),
    )


def _acl_of(turn: Turn) -> AclEntry:
    """Return the ACL that the fields describe. Raises BadRequest."""
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
        raise BadRequest("The ACL has no name: write the name of the resource, or * for all.")
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
        wire.CREATE_ACLS_REQUEST,
        wire.CREATE_ACLS_RESPONSE,
        _ACLS_VERSION,
        wire.CreateAclsRequest([wire.AclCreation(*_acl_of(turn))]),
    )
    (result,) = response.results
    check(result.error_code, "ACL", result.error_message)
    return Done(f"Added the ACL: {_shown(turn)}.", "/access")


async def _no_fields(_turn: Turn) -> Sequence[Field]:
    return ()


async def _preview_no_acl(turn: Turn) -> Effect:
    return Effect(sentences=[f"Removes the ACL: {_shown(turn)}."], is_destructive=True)


async def _remove_acl(turn: Turn) -> Done:
    response = await turn.ask(
        wire.DELETE_ACLS_REQUEST,
        wire.DELETE_ACLS_RESPONSE,
        _ACLS_VERSION,
        wire.DeleteAclsRequest([wire.DeleteAclsFilter(*_acl_of(turn))]),
    )
    (result,) = response.filter_results
    check(result.error_code, "ACL", result.error_message)
    return Done(f"Removed the ACL: {_shown(turn)}.", "/access")


# --- users ---


async def _users(turn: Turn) -> list[UserRow]:
    response = await turn.ask(
        wire.DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
        wire.DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
        0,
        wire.DescribeUserScramCredentialsRequest(None),
    )
    check(response.error_code, "users", response.error_message)
    return [
        UserRow(
            each.user,
            ", ".join(MECHANISM_NAMES[info.mechanism] for info in each.credential_infos),
        )
        for each in sorted(response.results, key=lambda each: each.user)
    ]


async def _user_fields(_turn: Turn) -> Sequence[Field]:
    return (
        Field(name="user", label="User"),
        Field(name="password", label="Password", kind="secret"),
        Field(name="again", label="The password again", kind="secret"),
    )


async def _add_user(turn: Turn) -> Done:
    user, password = turn.text("user"), turn.given.get("password", "")
    if not user or not password:
        raise BadRequest("Write a user and a password.")
    if password != turn.given.get("again", ""):
        raise BadRequest("The passwords differ: write the same one twice.")
    changes = await asyncio.to_thread(upsertions, user, password.encode())
    await _alter_user(turn, user, wire.AlterUserScramCredentialsRequest((), changes))
    return Done(f"{user} can authenticate with the password.", "/access")


async def _preview_no_user(turn: Turn) -> Effect:
    user = turn.text("user")
    about = (
        f"Removes the user {user}, who can then no longer authenticate. Open connections stay open."
    )
    return Effect(sentences=[about], is_destructive=True)


async def _remove_user(turn: Turn) -> Done:
    user = turn.text("user")
    removed = False
    for mechanism in HASHES:
        change = wire.AlterUserScramCredentialsRequest(
            [wire.ScramCredentialDeletion(user, mechanism)], ()
        )
        removed |= await _alter_user(turn, user, change, may_be_missing=True)
    if not removed:
        raise BadRequest(f"The user {user} does not exist.")
    return Done(f"Removed the user {user}.", "/access")


async def _alter_user(
    turn: Turn,
    user: str,
    change: wire.AlterUserScramCredentialsRequest,
    *,
    may_be_missing: bool = False,
) -> bool:
    """Return whether the change was made."""
    response = await turn.ask(
        wire.ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
        wire.ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
        0,
        change,
    )
    for result in response.results:
        if may_be_missing and result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            return False
        check(result.error_code, f"user {user}", result.error_message)
    return True


# --- quotas ---


async def _quotas(turn: Turn) -> list[QuotaRow]:
    response = await turn.ask(
        DESCRIBE_CLIENT_QUOTAS_REQUEST,
        DESCRIBE_CLIENT_QUOTAS_RESPONSE,
        1,
        DescribeClientQuotasRequest(),
    )
    check(response.error_code, "quotas", response.error_message)
    rows = []
    for entry in response.entries or ():
        names = {
            each.entity_type: _DEFAULT if each.entity_name is None else each.entity_name
            for each in entry.entity
        }
        rows += [
            QuotaRow(
                names.get("user", ""),
                names.get("client-id", ""),
                value.key,
                f"{value.value:.15g}",
                _QUOTAS.get(value.key, ""),
            )
            for value in entry.values
        ]
    return sorted(rows)


async def _quota_fields(_turn: Turn) -> Sequence[Field]:
    hint = f"{_DEFAULT} for all without a quota of their own."
    return (
        Field(name="user", label="User", hint=hint, is_required=False),
        Field(name="client_id", label="Client id", hint=hint, is_required=False),
        Field(name="quota", label="Quota", kind="select", choices=tuple(_QUOTAS)),
        Field(
            name="value",
            label="Value",
            hint="; ".join(f"{name}: {unit}" for name, unit in _QUOTAS.items()),
        ),
    )


def _entity_of(turn: Turn) -> list[EntityData]:
    """Return the entity that the fields name. Raises BadRequest."""
    entity = [
        EntityData(kind, None if turn.text(name) == _DEFAULT else turn.text(name))
        for kind, name in _ENTITIES.items()
        if turn.text(name)
    ]
    if not entity:
        raise BadRequest("Name a user, a client id, or both.")
    return entity


def _whose(turn: Turn) -> str:
    return " and ".join(
        f"{kind} {turn.text(name)}" for kind, name in _ENTITIES.items() if turn.text(name)
    )


async def _alter_quota(turn: Turn, change: OpData, *, validate_only: bool) -> None:
    response = await turn.ask(
        ALTER_CLIENT_QUOTAS_REQUEST,
        ALTER_CLIENT_QUOTAS_RESPONSE,
        1,
        AlterClientQuotasRequest([EntryData(_entity_of(turn), [change])], validate_only),
    )
    (result,) = response.entries
    check(result.error_code, f"quota of {_whose(turn)}", result.error_message)


def _quota_of(turn: Turn) -> OpData:
    text = turn.text("value").replace(",", "")
    try:
        return OpData(turn.text("quota"), float(text))
    except ValueError as error:
        raise BadRequest(f"{text[:40]!r} is not a number") from error


async def _preview_quota(turn: Turn) -> Effect:
    change = _quota_of(turn)
    await _alter_quota(turn, change, validate_only=True)
    unit = _QUOTAS.get(change.key, "")
    about = f"Sets {change.key} of {_whose(turn)} to {formats.number(change.value)} {unit}."
    return Effect(sentences=[about])


async def _set_quota(turn: Turn) -> Done:
    change = _quota_of(turn)
    await _alter_quota(turn, change, validate_only=False)
    return Done(f"Set {change.key} of {_whose(turn)}.", "/access")


async def _preview_no_quota(turn: Turn) -> Effect:
    await _alter_quota(turn, OpData(turn.text("quota"), 0.0, True), validate_only=True)
    about = f"Removes {turn.text('quota')} of {_whose(turn)}."
    return Effect(sentences=[about], is_destructive=True)


async def _remove_quota(turn: Turn) -> Done:
    await _alter_quota(turn, OpData(turn.text("quota"), 0.0, True), validate_only=False)
    return Done(f"Removed {turn.text('quota')} of {_whose(turn)}.", "/access")


REMOVES_ACL: Final = "/edit/acl/remove"
REMOVES_USER: Final = "/edit/user/remove"
REMOVES_QUOTA: Final = "/edit/quota/remove"


def removal_of(row: AclRow | UserRow | QuotaRow) -> str:
    """Return the address of the change that removes what a row shows."""
    match row:
        case AclRow():
            return link(REMOVES_ACL, **row._asdict())
        case UserRow():
            return link(REMOVES_USER, user=row.user)
        case QuotaRow():
            return link(
                REMOVES_QUOTA,
                user=row.user or None,
                client_id=row.client_id or None,
                quota=row.quota,
            )


EDITS: Final = (
    Edit(
        path="/edit/acl",
        title="Add an ACL",
        button="Add",
        needs=_on_cluster(Operation.ALTER),
        fields=_acl_fields,
        preview=_preview_acl,
        apply=_add_acl,
        on="access",
        back=_back,
    ),
    Edit(
        path=REMOVES_ACL,
        title="Remove an ACL",
        button="Remove",
        needs=_on_cluster(Operation.ALTER),
        fields=_no_fields,
        preview=_preview_no_acl,
        apply=_remove_acl,
        on="row",
        back=_back,
    ),
    Edit(
        path="/edit/user",
        title="Add a user or change a password",
        button="Save",
        needs=_on_cluster(Operation.ALTER),
        fields=_user_fields,
        apply=_add_user,
        on="access",
        back=_back,
    ),
    Edit(
        path=REMOVES_USER,
        title="Remove a user",
        button="Remove",
        needs=_on_cluster(Operation.ALTER),
        fields=_no_fields,
        preview=_preview_no_user,
        apply=_remove_user,
        on="row",
        back=_back,
    ),
    Edit(
        path="/edit/quota",
        title="Set a quota",
        button="Set",
        needs=_on_cluster(Operation.ALTER_CONFIGS),
        fields=_quota_fields,
        preview=_preview_quota,
        apply=_set_quota,
        on="access",
        back=_back,
    ),
    Edit(
        path=REMOVES_QUOTA,
        title="Remove a quota",
        button="Remove",
        needs=_on_cluster(Operation.ALTER_CONFIGS),
        fields=_no_fields,
        preview=_preview_no_quota,
        apply=_remove_quota,
        on="row",
        back=_back,
    ),
)
