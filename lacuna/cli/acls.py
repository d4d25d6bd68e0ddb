"""`lacuna acls`: list, add, remove. The options are named as in Kafka's kafka-acls.sh."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from lacuna.cli.answers import check
from lacuna.cli.command_line import Group, option
from lacuna.cli.console import asynchronous, print_line, table
from lacuna.cli.errors import fail
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
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
from lacuna.operating.kafka import KafkaConnection
from lacuna.wire.messages import security as wire

_HEADINGS: Final = ("principal", "permission", "operation", "resource", "name", "pattern", "host")
#: The operations that a producer needs on topics, and those that a consumer needs.
_PRODUCES: Final = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
_CONSUMES: Final = (Operation.READ, Operation.DESCRIBE)

app = Group(help="Lists, adds and removes ACLs, which define what each principal may do.")

Names = list[str] | None
Pattern = Annotated[
    str,
    option(
        "--resource-pattern-type",
        help="Whether the names are literal or prefixed. To list or remove ACLs, "
        "you can also use match (all that apply to a name) or any.",
    ),
]
#: A resource type and a resource name.
_Resource = tuple[ResourceType, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    topic: Annotated[Names, option(help="Name of a topic, or * for all topics.")] = None
    group: Annotated[Names, option(help="ID of a group, or * for all groups.")] = None
    transactional_id: Annotated[Names, option(help="A transactional id, or * for all.")] = None
    cluster: Annotated[bool, option(help="The cluster itself.")] = False

    def named(self) -> list[_Resource]:
        kinds = (
            (ResourceType.TOPIC, self.topic),
            (ResourceType.GROUP, self.group),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_id),
            (ResourceType.CLUSTER, [CLUSTER_NAME] if self.cluster else None),
        )
        return [(kind, name) for kind, names in kinds for name in names or ()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    allow_principal: Annotated[
        Names,
        option(help="Principal to allow, such as User:alice; User:* for every principal."),
    ] = None
    deny_principal: Annotated[
        Names, option(help="Principal to deny, whatever other ACLs allow.")
    ] = None
    allow_host: Annotated[
        Names, option(help="Address from which the principal is allowed. Default: any address.")
    ] = None
    deny_host: Annotated[
        Names, option(help="Address from which the principal is denied. Default: any address.")
    ] = None
    operation: Annotated[
        Names,
        option(help="Operation to allow or deny, such as Read or AlterConfigs. Default: All."),
    ] = None
    resources: Resources
    pattern: Pattern = "literal"
    producer: Annotated[
        bool, option(help="All operations that a producer needs on --topic and --transactional-id.")
    ] = False
    consumer: Annotated[
        bool, option(help="All operations that a consumer needs on --topic and --group.")
    ] = False
    dry_run: Annotated[bool, option(help="Show the changes without making them.")] = False
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP

    def whom(self) -> Iterator[tuple[str, str, Permission]]:
        for permission, principals, hosts in (
            (Permission.ALLOW, self.allow_principal, self.allow_host),
            (Permission.DENY, self.deny_principal, self.deny_host),
        ):
            for principal in principals or ():
                for host in hosts or [WILDCARD]:
                    yield _principal(principal), host, permission

    def what(self, resources: Sequence[_Resource]) -> Iterator[tuple[_Resource, Operation]]:
        named = [_operation(each) for each in self.operation or ()]
        if not (named or self.producer or self.consumer):
            named = [Operation.ALL]
        needed: dict[ResourceType, tuple[Operation, ...]] = {}
        if self.producer:
            needed[ResourceType.TOPIC] = _PRODUCES
            needed[ResourceType.TRANSACTIONAL_ID] = (Operation.WRITE, Operation.DESCRIBE)
        if self.consumer:
            needed[ResourceType.TOPIC] = (*needed.get(ResourceType.TOPIC, ()), *_CONSUMES)
            needed[ResourceType.GROUP] = (Operation.READ,)
        for resource in resources:
            for operation in dict.fromkeys((*named, *needed.get(resource[0], ()))):
                yield resource, operation

    def required_resources(self, problem: str) -> list[_Resource]:
        """Return the resources that the options specify. Raises UserError with `problem` if there are none."""
        return self.resources.named() or fail(
            f"{problem}: specify one with --topic, --group, --transactional-id or --cluster"
        )


@app.adds("list", shows=True)
@asynchronous
async def list_acls(
    principal: Annotated[
        Names, option(help="Only ACLs for this principal, such as User:alice.")
    ] = None,
    *,
    resources: Resources,
    pattern: Pattern = "any",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Lists the ACLs on the named resources, or on all resources."""
    asked: Sequence[tuple[ResourceType, str | None]] = resources.named()
    whom: list[str | None] = [_principal(each) for each in principal or ()]
    wanted = [
        AclFilter(*resource, _pattern(pattern), who)
        for resource in asked or [(ResourceType.ANY, None)]
        for who in whom or [None]
    ]
    async with KafkaConnection(bootstrap) as connection:
        _show(await _described(connection, wanted))


@app.adds("add", shows=True)
@asynchronous
async def add(change: Change) -> None:
    """Adds ACLs: one for each combination of the named principals, hosts, operations and resources."""
    kind = _pattern(change.pattern)
    if kind not in (PatternType.LITERAL, PatternType.PREFIXED):
        fail(f"--resource-pattern-type {change.pattern}: a new ACL can only be literal or prefixed")
    resources = change.required_resources("the ACL has no resource")
    if not (change.allow_principal or change.deny_principal):
        fail(
            "the ACL has no principal: add --allow-principal User:NAME or --deny-principal User:NAME"
        )
    acls = [
        AclEntry(*resource, kind, who, host, what, permission)
        for who, host, permission in change.whom()
        for resource, what in change.what(resources)
    ]
    if not change.dry_run:
        async with KafkaConnection(change.bootstrap) as connection:
            response = await connection.ask(
                *CREATE_ACLS, wire.CreateAclsRequest([wire.AclCreation(*each) for each in acls])
            )
        for acl, result in zip(acls, response.results, strict=True):
            check(result.error_code, f"ACL of {acl.principal}", result.error_message)
    print_line("would be added:" if change.dry_run else "added:")
    _show(acls)


@app.adds("remove", shows=True)
@asynchronous
async def remove(change: Change) -> None:
    """Removes ACLs on the named resources: all of them, or only those that match the other options."""
    resources = change.required_resources("no resource is named")
    kind = _pattern(change.pattern)
    whom: Iterable[tuple[str | None, str | None, Permission]] = list(change.whom())
    what: Iterable[tuple[_Resource, Operation]] = [(each, Operation.ANY) for each in resources]
    if change.operation or change.producer or change.consumer:
        what = list(change.what(resources))
    wanted = [
        AclFilter(*resource, kind, who, host, operation, permission)
        for who, host, permission in whom or [(None, None, Permission.ANY)]
        for resource, operation in what
    ]
    async with KafkaConnection(change.bootstrap) as connection:
        if change.dry_run:
            print_line("would be removed:")
            _show(await _described(connection, wanted))
            return
        response = await connection.ask(
            *DELETE_ACLS, wire.DeleteAclsRequest([wire.DeleteAclsFilter(*each) for each in wanted])
        )
    removed: dict[AclEntry, None] = {}
    for result in response.filter_results:
        check(result.error_code, "ACLs", result.error_message)
        removed.update((AclEntry(*each[2:]), None) for each in result.matching_acls)
    print_line("removed:")
    _show(removed)


async def _described(
    connection: KafkaConnection, wanted: Iterable[AclFilter]
) -> dict[AclEntry, None]:
    entries: dict[AclEntry, None] = {}
    for each in wanted:
        response = await connection.ask(*DESCRIBE_ACLS, wire.DescribeAclsRequest(*each))
        check(response.error_code, "ACLs", response.error_message)
        entries.update(
            (AclEntry(*(*resource[:3], *acl)), None)
            for resource in response.resources
            for acl in resource.acls
        )
    return entries


def _show(acls: Iterable[AclEntry]) -> None:
    rows = [
        (
            acl.principal,
            Permission(acl.permission).name.lower(),
            word_of(Operation(acl.operation).name),
            word_of(ResourceType(acl.resource_type).name),
            acl.resource_name,
            PatternType(acl.pattern_type).name.lower(),
            acl.host,
        )
        for acl in sorted(acls)
    ]
    table(_HEADINGS, rows, name="acls")


def _principal(text: str) -> str:
    try:
        return str(parse_principal(text))
    except ValueError as error:
        fail(str(error))


def _operation(text: str) -> Operation:
    """Parse an operation, which may be spelled AlterConfigs, alter-configs or ALTER_CONFIGS."""
    operations = {_plain(each.name): each for each in Operation if each >= Operation.ALL}
    operation = operations.get(_plain(text))
    if operation is None:
        names = ", ".join(word_of(each.name) for each in operations.values())
        fail(f"--operation {text}: choose one of {names}")
    return operation


def _pattern(text: str) -> PatternType:
    patterns = {each.name.lower(): each for each in PatternType if each is not PatternType.UNKNOWN}
    kind = patterns.get(text.lower())
    if kind is None:
        fail(f"--resource-pattern-type {text}: choose one of {', '.join(patterns)}")
    return kind


def _plain(text: str) -> str:
    return text.replace("_", "").replace("-", "").lower()
