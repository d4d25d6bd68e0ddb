"""Converts a process's settings into an agent's settings, and into command-line arguments for its workers."""

import os
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
from lacuna.cli.configuration import Configuration
from lacuna.cli.errors import fail
from lacuna.cli.places import (
    Bucket,
    BucketCreation,
    Encryption,
    Health,
    JournalPlace,
    LeaderLease,
    Listeners,
    LogLines,
    StoreUrl,
)
from lacuna.cli.tables import AGENT
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.objects.cluster_keys import COMMAND_VARIABLE
from lacuna.logstore.objects.kind import KEYS_OPTION
from lacuna.logstore.objects.url import has_keys, keys_option, with_options
from lacuna.operating.agents import AgentParts
from lacuna.operating.journals import SharedJournalOptions
from lacuna.operating.kafka import Agents
from lacuna.operating.stores import open_checked


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The settings of one agent; `url` is the URL of its object store."""

    url: str
    configuration: Configuration
    verbose: bool

    @property
    def health(self) -> str:
        """The address HOST:PORT of the health checks, or ""."""
        return self.configuration.make(Health).health

    @property
    def creates_bucket(self) -> bool:
        return self.configuration.make(BucketCreation).create_bucket

    def listeners(self) -> tuple[Listener, ...]:
        """Parse the agent's listeners. Raises UserError."""
        protocols = str(self.configuration.chosen["listener.security.protocol.map"].value)
        given = self.configuration.make(Listeners)
        return parse_listeners(given.listen, given.advertise or None, protocols)

    def agents(self, bootstrap: str) -> Agents:
        """Return the addresses of agents with these options, and the first listener's security. Raises UserError."""
        protocol = self.listeners()[0].protocol
        context = None
        if protocol.has_tls:
            context = Tls(self.configuration.make(SecuritySettings)).client_context(0.0)
        return Agents(bootstrap, ClientSecurity(protocol=protocol.value, made_context=context))

    def open_store(self) -> ObjectStore:
        """Opens the store at `url` and checks it. Raises ObjectStoreError."""
        return open_checked(self.url, create_bucket=self.creates_bucket)

    def parts(self) -> AgentParts:
        """Return the settings of the agent's parts. Raises UserError if options conflict."""
        if self.health and not parse_address(self.health)[1]:
            raise UserError("health checks need a fixed port, not 0: choose one with --health")
        make = self.configuration.make
        return AgentParts(
            agent=make(AgentSettings, listeners=self.listeners()),
            security=make(SecuritySettings),
            produce=make(ProduceSettings),
            fetch=make(FetchSettings),
            housekeeping=make(HousekeepingSettings, merge=make(MergeSettings)),
        )

    def arguments(self) -> list[str]:
        """Return these options as arguments for `lacuna agent`, except --listen and --control."""
        advertise = self.configuration.make(Listeners).advertise
        return [
            f"--store={self.url}",
            *([f"--advertise={advertise}"] if advertise else []),
            *(["--verbose"] if self.verbose else []),
            *self.configuration.arguments(BucketCreation, Health, LogLines, *AGENT),
        ]


def named_store(configuration: Configuration) -> str:
    """Return the store's URL from --bucket or --store, or "" if neither is given. Raises UserError if they conflict."""
    store, s3 = configuration.make(StoreUrl).store, configuration.make(Bucket)
    if store and s3.bucket:
        fail("--bucket and --store both specify where to keep the records: use only one of them")
    if s3.endpoint and not s3.bucket:
        fail(
            "--endpoint needs --bucket: specify the bucket; with --store, add ?endpoint=… to its URL"
        )
    if (s3.sse or s3.sse_kms_key_id) and not s3.bucket:
        option = "--s3-sse" if s3.sse else "--s3-sse-kms-key-id"
        fail(f"{option} needs --bucket: specify the bucket; with --store, add ?sse=… to its URL")
    return s3.url() if s3.bucket else store


def shared_journal(configuration: Configuration, url: str) -> SharedJournalOptions | None:
    """Return the journal from --journal for the cluster whose store is at `url`, or None without --journal."""
    journal = configuration.make(JournalPlace).journal
    lease = configuration.make(LeaderLease).lease_ms / 1000
    return SharedJournalOptions(journal, url, lease) if journal else None


def with_given_keys(configuration: Configuration, url: str) -> str:
    """Add the keys from --encryption-keys or --encryption-key-command to a store's URL.

    The command goes into the environment, where stores look for it. Keys already in the URL take precedence. Raises
    UserError, StoreMisconfiguredError.
    """
    given = configuration.make(Encryption)
    if given.keys and given.command:
        fail(
            "--encryption-keys and --encryption-key-command both specify the keys: use only one of them"
        )
    if given.command:
        os.environ[COMMAND_VARIABLE] = given.command
    keys = ("encryption.keys", "encryption.key.command")
    if has_keys(url) and not any(configuration.chosen[key].is_typed for key in keys):
        return url
    return with_options(url, **{KEYS_OPTION: keys_option(given.keys, given.command)})
