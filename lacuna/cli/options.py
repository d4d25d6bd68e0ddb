"""Options that several commands share."""

import os
from pathlib import Path
from typing import Annotated, Any

import click

from lacuna.base.addresses import parse_address
from lacuna.base.client_security import PLAINTEXT, read_client_properties
from lacuna.base.setting import Setting, settings_of
from lacuna.cli.command_line import TEXT as ANY_TEXT
from lacuna.cli.command_line import Described, Settings, option
from lacuna.cli.running import JSON, TEXT
from lacuna.controlplane.client import ControlPlace, ControlTlsSettings, control_tls_settings
from lacuna.controlplane.journal.kinds import SHARED_KINDS, forms
from lacuna.logstore.objects.url import SHARED_FORMS
from lacuna.operating.kafka import Agents

#: An option that says where something is, and the options that overrule its other sources when typed.
_INSTEAD = {
    "control": ("data",),
    "data": ("control", "store"),
    "bucket": ("moto", "objects", "store"),
    "encryption_keys": ("encryption_key_command",),
    "encryption_key_command": ("encryption_keys",),
    "endpoint": ("moto", "objects", "store"),
    "create_bucket": ("moto",),
    "objects": ("bucket", "store"),
    "store": ("bucket", "objects", "data"),
}


def folder(text: str) -> Path:
    """Parses a folder; raises BadParameter for empty text, since an unset variable would mean the current folder."""
    if not text:
        raise click.BadParameter("it is empty; write . for the current folder")
    return Path(text)


def _log_format(text: str) -> str:
    if text not in (TEXT, JSON):
        raise click.BadParameter(f"{text!r} is not a format of logs: give {TEXT} or {JSON}")
    return text


def _console_address(text: str) -> str:
    if text != OFF:
        parse_address(text)
    return text


def is_typed(context: click.Context, name: str) -> bool:
    """Whether a parameter was typed on the command line, rather than a default or an environment variable."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _typed_first(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Drops a value from the environment or the config file if a typed option says otherwise."""
    name = parameter.name or ""
    is_overruled = any(is_typed(context, other) for other in _INSTEAD[name])
    return None if is_overruled and not is_typed(context, name) else value


_RECORDS = "Where to keep the records"
_CLIENTS = "Clients"
_TOPICS = "Automatic topics"
_SPEED = "Speed"

_COMMAND_CONFIG = option(
    "--command-config",
    envvar="LACUNA_COMMAND_CONFIG",
    parser=Path,
    metavar="FILE",
    help="How to connect to the agents, for TLS and SASL: a file as Kafka's client.properties.",
)


def _to_agents(context: click.Context, _: click.Parameter, value: str | None) -> Agents | None:
    """Makes of the value of --bootstrap where the agents are, and how to connect to them."""
    if value is None:
        return None
    file = context.meta.get("command_config")
    return Agents(value, PLAINTEXT if file is None else read_client_properties(file))


Bootstrap = Annotated[
    Agents,
    option(
        "--bootstrap",
        "-b",
        envvar="LACUNA_BOOTSTRAP",
        parser=ANY_TEXT,
        callback=_to_agents,
        beside=(_COMMAND_CONFIG,),
        help="Address of any agent, HOST:PORT; several, separated by commas, are tried in turn.",
    ),
]
OptionalBootstrap = Annotated[
    Agents | None,
    option(
        "--bootstrap",
        "-b",
        parser=ANY_TEXT,
        callback=_to_agents,
        beside=(_COMMAND_CONFIG,),
        help="Address of a running cluster, HOST:PORT. Without it, the demo starts a temporary one.",
    ),
]
DEFAULT_BOOTSTRAP = Agents("127.0.0.1:9092")
DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_DATA = Path("data")

_TLS = "TLS to the control plane"
_CONTROL_ROWS = [row for row in settings_of(ControlTlsSettings).values() if row.option]


def _control_tls(row: Setting, *, reads_variable: bool = False) -> Described:
    settings: Settings = {"metavar": "FILE", "help": row.documentation, "panel": _TLS}
    if reads_variable:
        settings["envvar"] = row.variable
    return option(row.option, **settings)


def _to_place(context: click.Context, parameter: click.Parameter, value: str) -> Any:
    """Makes of the value of --control where the control plane is, and how to connect to it."""
    address = _typed_first(context, parameter, value)
    if address is None:
        return None
    given = {
        row.key: context.meta.get(row.option.removeprefix("--").replace("-", "_"))
        for row in _CONTROL_ROWS
    }
    return ControlPlace(address, control_tls_settings(given, os.environ))


_BESIDE_CONTROL = tuple(_control_tls(row, reads_variable=True) for row in _CONTROL_ROWS)
Control = Annotated[
    ControlPlace | None,
    option(
        "--control",
        envvar="LACUNA_CONTROL",
        parser=ANY_TEXT,
        callback=_to_place,
        beside=_BESIDE_CONTROL,
        help="Address of the control plane: HOST:PORT, or unix:PATH.",
    ),
]
OneControl = Annotated[
    ControlPlace,
    option(
        "--control",
        envvar="LACUNA_CONTROL",
        parser=ANY_TEXT,
        callback=_to_place,
        beside=_BESIDE_CONTROL,
        help="HOST:PORT of the control plane to ask.",
    ),
]
DEFAULT_CONTROL = ControlPlace("127.0.0.1:7070")
# Of commands whose settings have other sources, too: these read the variables.
ControlTlsCert = Annotated[str | None, _control_tls(_CONTROL_ROWS[0])]
ControlTlsKey = Annotated[str | None, _control_tls(_CONTROL_ROWS[1])]
ControlTlsCa = Annotated[str | None, _control_tls(_CONTROL_ROWS[2])]
Data = Annotated[
    Path | None,
    option(
        "--data",
        "-d",
        envvar="LACUNA_DATA",
        parser=folder,
        metavar="PATH",
        callback=_typed_first,
        help="Alternatively, the data folder of the running `lacuna up`. Without either option: ./data.",
    ),
]
Bucket = Annotated[
    str | None,
    option(
        "--bucket",
        key="bucket",
        callback=_typed_first,
        help="An S3 bucket, or BUCKET/PREFIX.",
        panel=_RECORDS,
    ),
]
Endpoint = Annotated[
    str | None,
    option(
        "--endpoint",
        key="endpoint",
        callback=_typed_first,
        help="URL of the S3 service, if it is not AWS.",
        panel=_RECORDS,
    ),
]
CreateBucket = Annotated[
    bool,
    option(
        "--create-bucket",
        key="create.bucket",
        callback=_typed_first,
        help="Create the bucket if it does not exist.",
        panel=_RECORDS,
    ),
]
Moto = Annotated[
    bool,
    option(
        "--moto",
        help="To try out S3: keep everything in an S3 server in memory. All data, including the journal, is lost at "
        "the end.",
        panel=_RECORDS,
    ),
]
Objects = Annotated[
    Path | None,
    option(
        "--objects",
        key="objects",
        callback=_typed_first,
        parser=folder,
        metavar="PATH",
        help="Or a folder that all agents share.",
        panel=_RECORDS,
    ),
]
Store = Annotated[
    str | None,
    option(
        "--store",
        key="store",
        callback=_typed_first,
        help=f"Or the URL of an object store: {SHARED_FORMS}.",
        panel=_RECORDS,
    ),
]
_ENCRYPTION = "Encryption at rest"
EncryptionKeys = Annotated[
    Path | None,
    option(
        "--encryption-keys",
        key="encryption.keys",
        callback=_typed_first,
        parser=folder,
        metavar="PATH",
        help="File with the cluster's keys, which encrypt the objects in the store.",
        panel=_ENCRYPTION,
    ),
]
EncryptionKeyCommand = Annotated[
    str | None,
    option(
        "--encryption-key-command",
        key="encryption.key.command",
        callback=_typed_first,
        help="Or a command that prints the content of that file, for keys in a KMS or a vault.",
        panel=_ENCRYPTION,
    ),
]
JobKeys = Annotated[
    Path | None,
    option(
        "--encryption-keys",
        parser=folder,
        metavar="PATH",
        help="File with the cluster's keys, if its objects are encrypted, on each machine that runs Spark. Default: "
        "the file that the data folder or LACUNA_ENCRYPTION_KEYS names, or the output of the command in "
        "LACUNA_ENCRYPTION_KEY_COMMAND.",
    ),
]
S3Sse = Annotated[
    str | None,
    option(
        "--s3-sse",
        key="s3.sse.type",
        metavar="AES256|aws:kms|aws:kms:dsse",
        help="Have S3 encrypt objects in --bucket. With --store, use the option sse of the URL.",
        panel=_ENCRYPTION,
    ),
]
S3SseKmsKeyId = Annotated[
    str | None,
    option(
        "--s3-sse-kms-key-id",
        key="s3.sse.key",
        help="The KMS key for --s3-sse, if not AWS's own for S3: its id, ARN or alias.",
        panel=_ENCRYPTION,
    ),
]
Listen = Annotated[
    str,
    option(
        "--listen",
        "-l",
        key="listeners",
        help="Address for Kafka clients, HOST:PORT; port 0 picks a free one. Separate several by commas. With "
        "authentication: SASL_SSL://HOST:PORT (docs/security.md).",
        panel=_CLIENTS,
    ),
]
Advertise = Annotated[
    str | None,
    option(
        "--advertise",
        key="advertised.listeners",
        help="Address that clients use, HOST:PORT, if it differs from --listen; with several listeners, "
        "NAME://HOST:PORT.",
        panel=_CLIENTS,
    ),
]
TlsCertificate = Annotated[
    str | None,
    option(
        "--tls-cert",
        metavar="FILE",
        help="PEM file with the certificate of listeners with TLS, and its chain.",
        panel=_CLIENTS,
    ),
]
TlsKey = Annotated[
    str | None,
    option(
        "--tls-key",
        metavar="FILE",
        help="PEM file with the certificate's key.",
        panel=_CLIENTS,
    ),
]
TlsAuthorities = Annotated[
    str | None,
    option(
        "--tls-ca",
        metavar="FILE",
        help="PEM file with the authorities that sign the certificates of clients and of other agents.",
        panel=_CLIENTS,
    ),
]
UsersFile = Annotated[
    str | None,
    option(
        "--users-file",
        metavar="FILE",
        help='TOML file of the first users of listeners with SASL, as admin = "file:/run/secrets/admin".',
        panel=_CLIENTS,
    ),
]
Zone = Annotated[
    str | None,
    option(
        "--zone",
        has_variable=False,
        help="Availability zone of this agent. Clients that name a zone are sent to agents in it.",
        panel=_CLIENTS,
    ),
]
Partitions = Annotated[
    int | None,
    option(
        "--partitions",
        has_variable=False,
        min=1,
        help="Number of partitions of topics that are created when first used. Default: 1.",
        panel=_TOPICS,
    ),
]
NoAutoCreate = Annotated[
    bool,
    option(
        "--no-auto-create",
        has_variable=False,
        help="Do not create topics automatically: an unknown topic is an error.",
        panel=_TOPICS,
    ),
]
Workers = Annotated[
    int,
    option(
        "--workers",
        "-w",
        key="workers",
        min=1,
        max=256,
        help="Number of processes that serve the port, at most one for each core.",
        panel=_SPEED,
    ),
]
Authorizer = Annotated[
    bool,
    option(
        "--authorizer",
        help="Let ACLs decide what each principal may do. Default: every client that can connect may do everything.",
        panel=_CLIENTS,
    ),
]
SuperUser = Annotated[
    str | None,
    option(
        "--super-user",
        metavar="PRINCIPALS",
        help="Principals that may do everything, whatever ACLs say: User:NAME, separated by semicolons.",
        panel=_CLIENTS,
    ),
]
FlushInterval = Annotated[
    int | None,
    option(
        "--flush-ms",
        has_variable=False,
        min=0,
        help="Milliseconds to collect records before writing them. A higher value means fewer objects "
        "and slower acknowledgements. Default: 250 on S3, 0 on a folder.",
        panel=_SPEED,
    ),
]
CacheMebibytes = Annotated[
    int | None,
    option(
        "--cache-mib",
        has_variable=False,
        min=1,
        help="Mebibytes of memory in which each worker caches records. Default: 128.",
        panel=_SPEED,
    ),
]
Journal = Annotated[
    str | None,
    option(
        "--journal",
        key="controlplane.journal",
        help=f"Where to keep the journal, if not in the data folder: {forms(SHARED_KINDS)}.",
        panel=_RECORDS,
    ),
]
LEASE_MS = 3_000
LeaseMs = Annotated[
    int,
    option(
        "--lease-ms",
        key="controlplane.lease.ms",
        min=500,
        max=60_000,
        help="How long a leader may be silent before a standby takes over. Use the same value on all control planes.",
    ),
]
AcceptLoss = Annotated[
    bool,
    option(
        "--accept-loss",
        help="After a start was refused because the journal is damaged or older than the records: "
        "report what is lost and continue without it. Do not put it into a start script.",
    ),
]
Health = Annotated[
    str | None,
    option(
        "--health",
        key="health.listen",
        help="HOST:PORT of an HTTP port with health checks (/healthz, /readyz) and /metrics.",
    ),
]
OFF = "off"
DEFAULT_CONSOLE = "127.0.0.1:8088"
_CONSOLE = "Web console"
Console = Annotated[
    str,
    option(
        "--console",
        key="console.listen",
        parser=_console_address,
        metavar="HOST:PORT",
        help="Address of the web console, which also answers /metrics, /healthz and /readyz; off: no console.",
        panel=_CONSOLE,
    ),
]
NoConsole = Annotated[bool, option("--no-console", help="Serve no web console.", panel=_CONSOLE)]
ConsoleHosts = Annotated[
    str,
    option(
        "--console-hosts",
        key="console.hosts",
        metavar="NAME[,NAME]",
        help="Host names by which browsers may call the console, in addition to localhost and addresses.",
        panel=_CONSOLE,
    ),
]
ConsoleWrites = Annotated[
    bool,
    option(
        "--console-writes",
        key="console.writes",
        help="Allow visitors of the console to abort transactions.",
        panel=_CONSOLE,
    ),
]
Verbose = Annotated[bool, option("--verbose", "-v", help="Log events, one line each.")]
LogFormat = Annotated[
    str,
    option(
        "--log-format",
        key="log.format",
        parser=_log_format,
        metavar="text|json",
        help="Log lines of text, or one JSON object per line.",
    ),
]

_SPARK = "Spark"

Master = Annotated[
    str,
    option(
        "--master",
        envvar="LACUNA_SPARK_MASTER",
        help="Where Spark runs: local[*], local[N], spark://HOST:PORT, yarn, k8s://URL.",
        panel=_SPARK,
    ),
]
DEFAULT_MASTER = "local[*]"
SparkConf = Annotated[
    list[str] | None,
    option(
        "--conf",
        help="A Spark setting, NAME=VALUE. May be repeated.",
        panel=_SPARK,
    ),
]
