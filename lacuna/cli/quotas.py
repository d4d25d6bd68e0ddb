"""`lacuna quotas`: list, set and remove the quotas for users, clients and hosts (KIP-13, KIP-546)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from lacuna.cli.answers import check
from lacuna.cli.command_line import Group, argument, option
from lacuna.cli.console import asynchronous, is_for_people, print_done, table
from lacuna.cli.errors import fail
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.cli.units import parse_size, show_size
from lacuna.operating.exchanges.quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.wire.messages import client_quotas as wire

#: The names of quotas in this command, and Kafka's names.
_KEYS: Final[Mapping[str, str]] = {
    "produce": "producer_byte_rate",
    "consume": "consumer_byte_rate",
    "requests": "request_percentage",
    "mutations": "controller_mutation_rate",
    "connections": "connection_creation_rate",
}
_NAMES: Final = {key: name for name, key in _KEYS.items()}
_SIZES: Final = frozenset({"produce", "consume"})
#: The name that stands for all entities without their own quota.
_DEFAULT: Final = "*"
_KINDS: Final = {"user": "user", "client": "client-id", "host": "ip"}

app = Group(help="Lists, sets and removes quotas for users, clients and hosts.")

User = Annotated[
    str | None,
    option("--user", metavar="NAME", help="A user, or * for all users without their own quotas."),
]
Client = Annotated[
    str | None,
    option(
        "--client", metavar="ID", help="A client.id, or * for all clients without their own quotas."
    ),
]
Host = Annotated[
    str | None,
    option(
        "--host", metavar="IP", help="An address, or * for all addresses without their own quotas."
    ),
]


@app.adds("list", shows=True)
@asynchronous
async def list_quotas(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Lists all quotas. A * stands for all users, clients or hosts without quotas of their own."""
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.ask(*DESCRIBE_CLIENT_QUOTAS, wire.DescribeClientQuotasRequest())
    check(response.error_code, "quotas", response.error_message)
    rows = []
    for entry in response.entries or ():
        entity = {each.entity_type: each.entity_name or _DEFAULT for each in entry.entity}
        whose = [entity.get(kind, "") for kind in _KINDS.values()]
        rows += [
            (*whose, _NAMES.get(each.key, each.key), _shown(each.key, each.value))
            for each in entry.values
        ]
    table(("user", "client", "host", "quota", "value"), sorted(rows))


@app.adds("set", shows=True)
def set_quotas(
    quotas: Annotated[
        list[str],
        argument(
            help="QUOTA=VALUE: produce=10MiB, consume=20MiB (per second), requests=50%, mutations=10, connections=5."
        ),
    ],
    user: User = None,
    client: Client = None,
    host: Host = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Sets quotas for a user, for a client, or for one client of a user.

    Quotas for bytes and requests apply to all agents together.
    """
    entity = _entity(user, client, host)
    changes = [_change(each) for each in quotas]
    _alter(entity, changes, bootstrap)
    whose = _words(entity)
    print_done(f"set {', '.join(quotas)} for {whose}", whose=whose, quotas=", ".join(quotas))


@app.adds("remove", shows=True)
def remove_quotas(
    quotas: Annotated[
        list[str], argument(help="Quotas: produce, consume, requests, mutations, connections.")
    ],
    user: User = None,
    client: Client = None,
    host: Host = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Removes quotas. The quotas of * then apply, if there are any."""
    entity = _entity(user, client, host)
    _alter(entity, [wire.OpData(_key(each), 0.0, remove=True) for each in quotas], bootstrap)
    whose = _words(entity)
    print_done(f"removed {', '.join(quotas)} for {whose}", whose=whose, quotas=", ".join(quotas))


@asynchronous
async def _alter(
    entity: Sequence[wire.EntityData], changes: Sequence[wire.OpData], bootstrap: Agents
) -> None:
    request = wire.AlterClientQuotasRequest([wire.EntryData(entity, changes)])
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.ask(*ALTER_CLIENT_QUOTAS, request)
    (result,) = response.entries
    check(result.error_code, f"quotas of {_words(entity)}", result.error_message)


def _entity(user: str | None, client: str | None, host: str | None) -> list[wire.EntityData]:
    given = dict(zip(_KINDS.values(), (user, client, host), strict=True))
    if not any(given.values()):
        fail("specify whose quotas these are with --user, --client or --host")
    if host and (user or client):
        fail("--host cannot be combined with others: omit --user and --client")
    return [
        wire.EntityData(kind, None if name == _DEFAULT else name)
        for kind, name in given.items()
        if name
    ]


def _words(entity: Sequence[wire.EntityData]) -> str:
    kinds = {kind: name for name, kind in _KINDS.items()}
    return ", ".join(f"{kinds[each.entity_type]} {each.entity_name or _DEFAULT}" for each in entity)


def _key(name: str) -> str:
    if name not in _KEYS and name not in _NAMES:
        fail(f"{name} is not a quota: choose one of {', '.join(_KEYS)}")
    return _KEYS.get(name, name)


def _change(text: str) -> wire.OpData:
    name, equals, value = text.partition("=")
    if not equals:
        fail(f"{text}: use QUOTA=VALUE, for example produce=10MiB")
    key = _key(name)
    if _NAMES[key] in _SIZES:
        return wire.OpData(key, float(parse_size(value, text)), remove=False)
    try:
        return wire.OpData(key, float(value.removesuffix("%")), remove=False)
    except ValueError:
        fail(f"{text}: {value} is not a number")


def _shown(key: str, value: float) -> str | float:
    name = _NAMES.get(key, key)
    if not is_for_people():
        return value
    if name in _SIZES:
        return f"{show_size(int(value))}/s"
    return f"{value:g}%" if name == "requests" else f"{value:g}/s"
