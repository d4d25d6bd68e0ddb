"""Settings that apply to a whole process: addresses, storage locations, logging, and the number of workers.

Agents and control planes define their own rows. `lacuna.cli.tables` lists all rows.
"""

from dataclasses import dataclass
from typing import Final

from lacuna.base.setting import SettingsError, check_settings, setting
from lacuna.controlplane.journal.kinds import SHARED_KINDS, forms
from lacuna.logstore.objects import bucket_url
from lacuna.logstore.objects.url import SHARED_FORMS

OFF: Final = "off"
DEFAULT_CONSOLE: Final = "127.0.0.1:8088"

TEXT: Final = "text"
JSON: Final = "json"

_RECORDS: Final = "Where to keep the records"
_ENCRYPTION: Final = "Encryption at rest"
_CLIENTS: Final = "Clients"
_CONSOLE: Final = "Web console"


class Checked:
    """A settings class that checks its values on creation. Raises SettingsError."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFolder(Checked):
    data: str = setting(
        "data",
        "data",
        "Folder for the journal and, with `lacuna up` without --bucket or --store, for the records. It is created if "
        "missing.",
        option="--data",
        short="-d",
        metavar="PATH",
    )

    def __post_init__(self) -> None:
        if not self.data:
            raise SettingsError("data is empty: use . for the current folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlAddress(Checked):
    control: str = setting(
        "control",
        "",
        "Address of the control plane: HOST:PORT, a list A,B,C, a DNS name for all control planes, or unix:PATH.",
        option="--control",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket(Checked):
    """The bucket for records, and how S3 encrypts its objects."""

    bucket: str = setting(
        "bucket",
        "",
        "An S3 bucket, or BUCKET/PREFIX.",
        option="--bucket",
        panel=_RECORDS,
        yields_to=("moto", "objects", "store"),
    )
    endpoint: str = setting(
        "endpoint",
        "",
        "URL of the S3 service, if it is not AWS.",
        option="--endpoint",
        panel=_RECORDS,
        yields_to=("moto", "objects", "store"),
    )
    sse: str = setting(
        "s3.sse.type",
        "",
        "How S3 encrypts the objects in --bucket. With --store, use the URL's sse option instead.",
        option="--s3-sse",
        metavar="AES256|aws:kms|aws:kms:dsse",
        panel=_ENCRYPTION,
    )
    sse_kms_key_id: str = setting(
        "s3.sse.key",
        "",
        "The id, ARN or alias of the KMS key for --s3-sse. Default: AWS's own key for S3.",
        option="--s3-sse-kms-key-id",
        panel=_ENCRYPTION,
    )

    def url(self) -> str:
        """Return the store URL of the bucket."""
        options = {"sse": self.sse, "sse_kms_key_id": self.sse_kms_key_id}
        return bucket_url(self.bucket, endpoint=self.endpoint, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCreation(Checked):
    create_bucket: bool = setting(
        "create.bucket",
        False,
        "Create the bucket if it does not exist.",
        option="--create-bucket",
        panel=_RECORDS,
        yields_to=("moto",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsFolder(Checked):
    objects: str = setting(
        "objects",
        "",
        "A folder that all agents share, instead of a bucket.",
        option="--objects",
        metavar="PATH",
        panel=_RECORDS,
        yields_to=("bucket", "store"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUrl(Checked):
    store: str = setting(
        "store",
        "",
        f"The URL of the cluster's object store: {SHARED_FORMS}. A control plane with --journal needs "
        "it, because the bucket contains the journal's snapshots or, with `bucket`, the whole journal.",
        option="--store",
        panel=_RECORDS,
        yields_to=("moto", "bucket", "objects"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption(Checked):
    keys: str = setting(
        "encryption.keys",
        "",
        "File with the cluster's keys, which encrypt the objects in the store.",
        option="--encryption-keys",
        metavar="PATH",
        panel=_ENCRYPTION,
        yields_to=("encryption_key_command",),
    )
    command: str = setting(
        "encryption.key.command",
        "",
        "A command that prints the content of the keys file, for keys in a KMS or a vault.",
        option="--encryption-key-command",
        panel=_ENCRYPTION,
        yields_to=("encryption_keys",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalPlace(Checked):
    journal: str = setting(
        "controlplane.journal",
        "",
        f"A journal that several control planes can share: {forms(SHARED_KINDS)}. "
        "By default, the journal is an SQLite file in the data folder.",
        option="--journal",
        panel=_RECORDS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLease(Checked):
    lease_ms: int = setting(
        "controlplane.lease.ms",
        3_000,
        "How long a leader may be silent before a standby takes over. Use the same value on all control planes.",
        least=500,
        most=60_000,
        option="--lease-ms",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlListener(Checked):
    listen: str = setting(
        "controlplane.listen",
        "127.0.0.1:7070",
        "Address for agents to connect to: HOST:PORT or unix:PATH.",
        option="--listen",
        short="-l",
    )
    advertise: str = setting(
        "controlplane.advertise",
        "",
        "HOST:PORT where agents reach this control plane, if it differs from --listen.",
        option="--advertise",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners(Checked):
    listen: str = setting(
        "listeners",
        "127.0.0.1:9092",
        "Address for Kafka clients, HOST:PORT; port 0 picks a free one. Separate multiple addresses with commas. With "
        "authentication: SASL_SSL://HOST:PORT (docs/security.md).",
        option="--listen",
        short="-l",
        panel=_CLIENTS,
    )
    advertise: str = setting(
        "advertised.listeners",
        "",
        "Address that clients use, HOST:PORT, if it differs from --listen; with several listeners, NAME://HOST:PORT.",
        option="--advertise",
        panel=_CLIENTS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers(Checked):
    workers: int = setting(
        "workers",
        1,
        "Number of processes that serve the port; at most one per core.",
        least=1,
        most=256,
        option="--workers",
        short="-w",
        panel="Speed",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Checked):
    health: str = setting(
        "health.listen",
        "",
        "HOST:PORT of an HTTP server for health checks (/healthz, /readyz) and /metrics.",
        option="--health",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleAddress(Checked):
    console: str = setting(
        "console.listen",
        DEFAULT_CONSOLE,
        "Address of the web console, which also serves /metrics, /healthz and /readyz; `off` disables it.",
        option="--console",
        metavar="HOST:PORT",
        panel=_CONSOLE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleVisitors(Checked):
    """The web console's visitors, and their rights."""

    hosts: str = setting(
        "console.hosts",
        "",
        "Host names that browsers may use for the console, in addition to localhost and IP addresses.",
        option="--console-hosts",
        metavar="NAME[,NAME]",
        panel=_CONSOLE,
    )
    writes: bool = setting(
        "console.writes",
        False,
        "Allow visitors of the console to change the cluster, as far as ACLs allow each of them.",
        option="--console-writes",
        panel=_CONSOLE,
    )
    registry: str = setting(
        "console.registry.url",
        "",
        "Schema registry that the console uses to decode Avro, Protobuf and JSON Schema.",
        option="--console-registry",
        metavar="URL",
        panel=_CONSOLE,
    )
    registry_login: str = setting(
        "console.registry.login",
        "",
        "Where to get USER:PASSWORD for the schema registry: file:PATH, env:NAME or command:LINE.",
        option="--console-registry-login",
        metavar="REFERENCE",
        panel=_CONSOLE,
    )

    def names(self) -> tuple[str, ...]:
        return tuple(name for each in self.hosts.split(",") if (name := each.strip()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines(Checked):
    format: str = setting(
        "log.format",
        TEXT,
        "Format of the log: lines of text, or one JSON object per line.",
        choices=(TEXT, JSON),
        option="--log-format",
        metavar="text|json",
    )


PLACES: Final = (
    DataFolder,
    ControlAddress,
    Bucket,
    BucketCreation,
    ObjectsFolder,
    StoreUrl,
    Encryption,
    JournalPlace,
    LeaderLease,
    ControlListener,
    Listeners,
    Workers,
    Health,
    ConsoleAddress,
    ConsoleVisitors,
    LogLines,
)
