"""What an operator says about an agent, as settings of its parts and as options for its workers."""

from dataclasses import dataclass
from ipaddress import ip_address

from agent.fetch.settings import FetchSettings
from agent.produce.settings import ProduceSettings
from agent.settings import AgentSettings, SettingsError
from lacuna.addresses import parse_address
from lacuna.agents import AgentParts
from lacuna.errors import UserError
from lacuna.stores import open_checked
from logstore.objects import ObjectStore

#: Each PUT to S3 is paid for, so a flush gathers for a while.
S3_FLUSH_INTERVAL_MS = 250
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The options of `lacuna agent` that say what it is; `url` names its object store."""

    url: str
    create_bucket: bool
    listen: str
    advertise: str | None
    zone: str
    partitions: int
    auto_create_topics: bool
    flush_interval_ms: int | None
    cache_mib: int
    verbose: bool

    def address(self) -> tuple[str, int]:
        """Host and port to listen on. Raises UserError."""
        return parse_address(self.listen)

    def open_store(self) -> ObjectStore:
        """Raises ObjectStoreError with what to do."""
        return open_checked(self.url, create_bucket=self.create_bucket)

    def parts(self) -> AgentParts:
        """Settings of the agent's parts. Raises UserError."""
        host, port = self.address()
        if self.advertise is not None:
            host, port = parse_address(self.advertise)
        elif _is_everywhere(host):
            raise UserError(
                f"clients cannot connect to {host}: say with --advertise HOST:PORT where they can"
            )
        interval_ms = self.flush_interval_ms
        if interval_ms is None:
            interval_ms = S3_FLUSH_INTERVAL_MS if self.url.startswith("s3://") else 0
        try:
            return AgentParts(
                agent=AgentSettings(
                    advertised_host=host,
                    advertised_port=port if self.advertise is not None else 0,
                    zone=self.zone,
                    num_partitions=self.partitions,
                    auto_create_topics=self.auto_create_topics,
                ),
                produce=ProduceSettings(flush_interval_ms=interval_ms),
                fetch=FetchSettings(cache_bytes=self.cache_mib * MEBIBYTE),
            )
        except SettingsError as error:
            raise UserError(str(error)) from error

    def arguments(self) -> list[str]:
        """The same as arguments of `lacuna agent`, but for --listen."""
        flags = {
            "--create-bucket": self.create_bucket,
            "--no-auto-create": not self.auto_create_topics,
            "--verbose": self.verbose,
        }
        values = {
            "--store": self.url,
            "--advertise": self.advertise,
            "--zone": self.zone,
            "--partitions": self.partitions,
            "--flush-ms": self.flush_interval_ms,
            "--cache-mib": self.cache_mib,
        }
        given = [f"{name}={value}" for name, value in values.items() if value not in (None, "")]
        return given + [name for name, is_set in flags.items() if is_set]


def _is_everywhere(host: str) -> bool:
    """Whether it stands for every address of the machine, in any of its spellings: 0.0.0.0, 0, ::, 0::0."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return not host.strip("0.")
