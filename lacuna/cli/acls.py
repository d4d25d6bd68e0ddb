"""`lacuna acls`: list, add, remove. Options have the same names as those of Kafka's kafka-acls.sh."""

from collections.abc import Iterable, Iterator, Sequence
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
from lacuna.operating.kafka import KafkaConnection
from lacuna.wire.messages.create_acls import (
    CREATE_ACLS_REQUEST,
    CREATE_ACLS_RESPONSE,
    AclCreation,
    CreateAclsRequest,
)
from lacuna.wire.messages.delete_acls import (
    DELETE_ACLS_REQUEST,
    DELETE_ACLS_RESPONSE,
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from lacuna.wire.messages.describe_acls import (
    DESCRIBE_ACLS_REQUEST,
    DESCRIBE_ACLS_RESPONSE,
    DescribeAclsRequest,
)

_VERSION: Final = 3
_HEADINGS: Final = ("principal", "permission", "operation", "resource", "name", "pattern", "host")
#: The operations on topics that a producer needs, and a consumer.
_PRODUCES: Final = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
_CONSUMES: Final = (Operation.READ, Operation.DESCRIBE)

app = Group(help="Lists, adds and removes ACLs, which define what each principal may do.")

Topics = Annotated[list[str] | None, option("--topic", help="Name of a topic, * for all.")]
Groups = Annotated[list[str] | None, option("--group", help="ID of a group, * for all.")]
TransactionalIds = Annotated[
    list[str] | None, option("--transactional-id", help="A transactional id, * for all.")
]
OnCluster = Annotated[bool, option("--cluster", help="The cluster itself.")]
Pattern = Annotated[
    str,
    option(
        "--resource-pattern-type",
        help="Whether the names are literal or prefixed. To list or remove, also match (all that apply to a name) or "
        "any.",
    ),
]
Allowed = Annotated[
    list[str] | None,
    option(
        "--allow-principal",
        help="Principal that is allowed, such as User:alice; User:* for every principal.",
    ),
]
Denied = Annotated[
    list[str] | None,
    option("--deny-principal", help="Principal that is denied, whatever other ACLs allow."),
]
AllowedHosts = Annotated[
    list[str] | None,
    option("--allow-host", help="Address from which the principal is allowed. Default: any."),
]
DeniedHosts = Annotated[
    list[str] | None,
    option("--deny-host", help="Address from which the principal is denied. Default: any."),
]
Operations = Annotated[
    list[str] | None,
    option(
        "--operation",
        help="Operation to allow or deny, such as Read or AlterConfigs. Default: All.",
    ),
]
Producer = Annotated[
    bool,
    option(
        "--producer", help="All operations that a producer needs on --topic and --transactional-id."
    ),
]
Consumer = Annotated[
    bool, option("--consumer", help="All operations that a consumer needs on --topic and --group.")
]
DryRun = Annotated[bool, option("--dry-run", help="Show the changes without making them.")]

#: Resource type and name.
_Resource = tuple[ResourceType, str]


@app.adds("list", shows=True)
@asynchronous
async def list_acls(
    principal: Annotated[
        list[str] | None,
        option("--principal", help="Only ACLs of this principal, such as User:alice."),
    ] = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OnCluster = False,
    pattern: Pattern = "any",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Lists the ACLs of all resources, or of the named ones."""
    resources: list[tuple[ResourceType, str | None]] = [(ResourceType.ANY, None)]
    if topic or group or transactional_id or cluster:
        resources = [*_resources(topic, group, transactional_id, cluster)]
    whom: list[str | None] = [_principal(each) for each in principal or ()]
    wanted = [
        AclFilter(*resource, _pattern(pattern), who)
        for resource in resources
        for who in whom or [None]
    ]
    async with KafkaConnection(bootstrap) as connection:
        _show(await _described(connection, wanted))


@app.adds("add", shows=True)
@asynchronous
async def add(
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OnCluster = False,
    pattern: Pattern = "literal",
    producer: Producer = False,
    consumer: Consumer = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Adds ACLs: one for each named principal, host, operation and resource."""
    kind = _pattern(pattern)
    if kind not in (PatternType.LITERAL, PatternType.PREFIXED):
        fail(f"--resource-pattern-type {pattern}: a new ACL can only be literal or prefixed")
    resources = _resources(topic, group, transactional_id, cluster)
    if not resources:
        fail(
            "the ACL has no resource: name one with --topic, --group, --transactional-id or --cluster"
        )
    if not (allow_principal or deny_principal):
        fail(
            "the ACL has no principal: add --allow-principal User:NAME or --deny-principal User:NAME"
        )
    acls = [
        AclEntry(*resource, kind, who, host, what, permission)
        for who, host, permission in _whom(allow_principal, deny_principal, allow_host, deny_host)
        for resource, what in _what(resources, operation, producer, consumer)
    ]
    if not dry_run:
        async with KafkaConnection(bootstrap) as connection:
            response = await connection.ask(
                CREATE_ACLS_REQUEST,
                CREATE_ACLS_RESPONSE,
                _VERSION,
                CreateAclsRequest([AclCreation(*each) for each in acls]),
            )
        for acl, result in zip(acls, response.results, strict=True):
            check(result.error_code, f"ACL of {acl.principal}", result.error_message)
    print_line("would be added:" if dry_run else "added:")
    _show(acls)


@app.adds("remove", shows=True)
@asynchronous
async def remove(
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OnCluster = False,
    pattern: Pattern = "literal",
    producer: Producer = False,
    consumer: Consumer = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Removes the ACLs of the named resources: all, or only those that match the other options."""
    resources = _resources(topic, group, transactional_id, cluster)
    if not resources:
        fail(
            "no resource is named: name one with --topic, --group, --transactional-id or --cluster"
        )
    kind = _pattern(pattern)
    whom: Iterable[tuple[str | None, str | None, Permission]]
    whom = list(_whom(allow_principal, deny_principal, allow_host, deny_host))
    what: Iterable[tuple[_Resource, Operation]] = [(each, Operation.ANY) for each in resources]
    if operation or producer or consumer:
        what = list(_what(resources, operation, producer, consumer))
    wanted = [
        AclFilter(*resource, kind, who, host, operation_, permission)
        for who, host, permission in whom or [(None, None, Permission.ANY)]
        for resource, operation_ in what
    ]
    async with KafkaConnection(bootstrap) as connection:
        if dry_run:
            print_line("would be removed:")
            _show(await _described(connection, wanted))
            return
        response = await connection.ask(
            DELETE_ACLS_REQUEST,
            DELETE_ACLS_RESPONSE,
            _VERSION,
            DeleteAclsRequest([DeleteAclsFilter(*each) for each in wanted]),
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
        response = await connection.ask(
            DESCRIBE_ACLS_REQUEST, DESCRIBE_ACLS_RESPONSE, _VERSION, DescribeAclsRequest(*each)
        )
        check(response.error_code, "ACLs", response.error_message)
        entries.update(
            (
                AclEntry(
                    resource.resource_type,
                    resource.resource_name,
                    resource.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                ),
                None,
            )
            for resource in response.resources
            for acl in resource.acls
        )
    return entries


def _show(acls: Iterable[AclEntry]) -> None:
    rows = [
        (
            acl.principal,
            Permission(acl.permission).name.lower(),
            _words(Operation(acl.operation).name),
            _words(ResourceType(acl.resource_type).name),
            acl.resource_name,
            PatternType(acl.pattern_type).name.lower(),
            acl.host,
        )
        for acl in sorted(acls)
    ]
    table(_HEADINGS, rows, name="acls")


def _resources(
    topics: Sequence[str] | None,
    groups: Sequence[str] | None,
    transactional_ids: Sequence[str] | None,
    cluster: bool,
) -> list[_Resource]:
    kinds = (
        (ResourceType.TOPIC, topics),
        (ResourceType.GROUP, groups),
        (ResourceType.TRANSACTIONAL_ID, transactional_ids),
        (ResourceType.CLUSTER, [CLUSTER_NAME] if cluster else None),
    )
    return [(kind, name) for kind, names in kinds for name in names or ()]


def _whom(
    allowed: Sequence[str] | None,
    denied: Sequence[str] | None,
    allowed_hosts: Sequence[str] | None,
    denied_hosts: Sequence[str] | None,
) -> Iterator[tuple[str, str, Permission]]:
    for permission, principals, hosts in (
        (Permission.ALLOW, allowed, allowed_hosts),
        (Permission.DENY, denied, denied_hosts),
    ):
        for principal in principals or ():
            for host in hosts or [WILDCARD]:
                yield _principal(principal), host, permission


def _what(
    resources: Sequence[_Resource],
    operations: Sequence[str] | None,
    producer: bool,
    consumer: bool,
) -> Iterator[tuple[_Resource, Operation]]:
    named = [_operation(each) for each in operations or ()]
    if not (named or producer or consumer):
        named = [Operation.ALL]
    needed: dict[ResourceType, tuple[Operation, ...]] = {}
    if producer:
        needed[ResourceType.TOPIC] = _PRODUCES
        needed[ResourceType.TRANSACTIONAL_ID] = (Operation.WRITE, Operation.DESCRIBE)
    if consumer:
        needed[ResourceType.TOPIC] = (*needed.get(ResourceType.TOPIC, ()), *_CONSUMES)
        needed[ResourceType.GROUP] = (Operation.READ,)
    for resource in resources:
        for operation in dict.fromkeys((*named, *needed.get(resource[0], ()))):
            yield resource, operation


def _principal(text: str) -> str:
    try:
        return str(parse_principal(text))
    except ValueError as error:
        fail(str(error))


def _operation(text: str) -> Operation:
    """Return the operation. The text may be AlterConfigs, alter-configs or ALTER_CONFIGS."""
    operations = {_plain(each.name): each for each in Operation if each >= Operation.ALL}
    operation = operations.get(_plain(text))
    if operation is None:
        names = ", ".join(_words(each.name) for each in operations.values())
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


def _words(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
