"""Turns an operator's options for an agent into settings of its parts, and into arguments for its workers."""

from dataclasses import dataclass

from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping import HousekeepingSettings
from lacuna.agent.housekeeping.merging import MergeSettings
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.security.listeners import Listener, parse_listeners
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.security.tls import Tls
from lacuna.agent.settings import AgentSettings
from lacuna.base.addresses import parse_address
from lacuna.base.client_security import ClientSecurity
from lacuna.base.errors import UserError
from lacuna.base.setting import MEBIBYTE, Value
from lacuna.cli.configuration import Configuration
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from lacuna.logstore.objects import ObjectStore
from lacuna.operating.agents import AgentParts
from lacuna.operating.kafka import Agents
from lacuna.operating.stores import open_checked


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The options of one agent as they were given, and its settings; `url` is that of its object store."""

    url: str
    create_bucket: bool
    listen: str
    advertise: str | None
    configuration: Configuration
    health: str | None
    verbose: bool
    log_format: str

    def listeners(self) -> tuple[Listener, ...]:
        """The listeners of the agent. Raises UserError."""
        protocols = str(self.configuration.chosen["listener.security.protocol.map"].value)
        return parse_listeners(self.listen, self.advertise, protocols)

    def agents(self, bootstrap: str) -> Agents:
        """How to connect to the agents that have these options, as whoever logs in if they ask. Raises UserError."""
        protocol = self.listeners()[0].protocol
        context = None
        if protocol.has_tls:
            context = Tls(self.configuration.make(SecuritySettings)).client_context(0.0)
        return Agents(bootstrap, ClientSecurity(protocol=protocol.value, made_context=context))

    def open_store(self) -> ObjectStore:
        """Opens the store at `url` and checks it. Raises ObjectStoreError."""
        return open_checked(self.url, create_bucket=self.create_bucket)

    def parts(self) -> AgentParts:
        """The settings of the agent's parts. Raises UserError for options that are invalid together."""
        if self.health is not None and not parse_address(self.health)[1]:
            raise UserError("health checks need a fixed port: choose one with --health")
        make = self.configuration.make
        return AgentParts(
            agent=make(AgentSettings, listeners=self.listeners()),
            security=make(SecuritySettings),
            produce=make(ProduceSettings),
            fetch=make(FetchSettings),
            housekeeping=make(HousekeepingSettings, merge=make(MergeSettings)),
        )

    def arguments(self) -> list[str]:
        """These options as arguments of `lacuna agent`, all except --listen."""
        flags = {
            "--create-bucket": self.create_bucket,
            "--verbose": self.verbose,
        }
        values = {
            "--store": self.url,
            "--advertise": self.advertise,
            "--health": self.health,
            "--log-format": self.log_format,
        }
        given = [f"{name}={value}" for name, value in values.items() if value is not None]
        given += [name for name, is_set in flags.items() if is_set]
        return given + self.configuration.arguments("agent")


def given_settings(
    zone: str | None,
    partitions: int | None,
    no_auto_create: bool,
    flush_ms: int | None,
    cache_mib: int | None,
) -> dict[str, Value | None]:
    """The settings that have options of their own, by key; None for those that were not given."""
    return {
        "broker.rack": zone,
        "num.partitions": partitions,
        "auto.create.topics.enable": False if no_auto_create else None,
        "produce.flush.interval.ms": flush_ms,
        "fetch.cache.bytes": None if cache_mib is None else cache_mib * MEBIBYTE,
    }


def given_rights(authorizer: bool, super_user: str | None) -> dict[str, Value | None]:
    """The settings of the authorizer that have options of their own, as in `given_settings`."""
    return {
        "authorizer.class.name": STANDARD_AUTHORIZER if authorizer else None,
        "super.users": super_user,
    }


def control_tls_given(
    certificate: str | None, key: str | None, authorities: str | None
) -> dict[str, Value | None]:
    """The settings of TLS to the control plane that have options of their own, by key."""
    return {
        "controlplane.ssl.certificate.location": certificate,
        "controlplane.ssl.key.location": key,
        "controlplane.ssl.ca.location": authorities,
    }


def given_security(
    certificate: str | None, key: str | None, authorities: str | None, users_file: str | None
) -> dict[str, Value | None]:
    """As `given_settings`, for what listeners with TLS and SASL need."""
    return {
        "ssl.certificate.location": certificate,
        "ssl.key.location": key,
        "ssl.ca.location": authorities,
        "sasl.users.file": users_file,
    }
