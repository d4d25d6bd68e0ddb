"""`lacuna up`: runs a whole cluster until Ctrl-C."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import click
from click.core import ParameterSource

from lacuna.cli.agent_options import (
    AgentOptions,
    given_rights,
    given_security,
    given_settings,
)
from lacuna.cli.command_line import option
from lacuna.cli.config_options import Assignments, PrintConfig
from lacuna.cli.configuration import configure, print_configuration
from lacuna.cli.console_options import Wanted, host_names
from lacuna.cli.encryption import with_given_keys
from lacuna.cli.errors import fail
from lacuna.cli.greeting import greeting
from lacuna.cli.losses import go_on_with_shared, go_on_without
from lacuna.cli.options import (
    DEFAULT_CONSOLE,
    DEFAULT_DATA,
    DEFAULT_LISTEN,
    LEASE_MS,
    OFF,
    AcceptLoss,
    Advertise,
    Authorizer,
    Bucket,
    CacheMebibytes,
    Console,
    ConsoleHosts,
    ConsoleWrites,
    CreateBucket,
    EncryptionKeyCommand,
    EncryptionKeys,
    Endpoint,
    FlushInterval,
    Health,
    Journal,
    Listen,
    LogFormat,
    Moto,
    NoAutoCreate,
    NoConsole,
    Partitions,
    S3Sse,
    S3SseKmsKeyId,
    SuperUser,
    TlsAuthorities,
    TlsCertificate,
    TlsKey,
    UsersFile,
    Verbose,
    Workers,
    Zone,
    folder,
    is_typed,
)
from lacuna.cli.running import CONTROL_READY, TEXT, log_to_stderr, run, say_ready
from lacuna.cli.workers import Supervisor, start_workers
from lacuna.controlplane.client import ControlPlace
from lacuna.controlplane.journal.kinds import shared_kind_of
from lacuna.controlplane.journal.kinds.sqlite import JOURNAL_NAME
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.windows import ProducerSettings
from lacuna.logstore.objects import bucket_url, folder_url
from lacuna.observing.agent import STARTING, observe_agent
from lacuna.observing.control import observe_control_plane
from lacuna.observing.endpoint import Observed, endpoint_served
from lacuna.observing.traces import traced
from lacuna.operating.control import ADDRESS_NAME, STORE_NAME, leave
from lacuna.operating.embedded import ClusterSettings, EmbeddedCluster, make_folder, socket_address
from lacuna.operating.journals import SharedJournalOptions


def up(
    context: click.Context,
    data: Annotated[
        Path,
        option(
            "--data",
            "-d",
            key="data",
            parser=folder,
            metavar="PATH",
            help="Data folder of the cluster, for its journal and, unless a bucket is named, its "
            "records. It is created if missing.",
        ),
    ] = DEFAULT_DATA,
    moto: Moto = False,
    bucket: Bucket = None,
    endpoint: Endpoint = None,
    create_bucket: CreateBucket = False,
    journal: Journal = None,
    encryption_keys: EncryptionKeys = None,
    encryption_key_command: EncryptionKeyCommand = None,
    s3_sse: S3Sse = None,
    s3_sse_kms_key_id: S3SseKmsKeyId = None,
    listen: Listen = DEFAULT_LISTEN,
    advertise: Advertise = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_ca: TlsAuthorities = None,
    users_file: UsersFile = None,
    zone: Zone = None,
    partitions: Partitions = None,
    no_auto_create: NoAutoCreate = False,
    authorizer: Authorizer = False,
    super_user: SuperUser = None,
    workers: Workers = 1,
    flush_ms: FlushInterval = None,
    cache_mib: CacheMebibytes = None,
    accept_loss: AcceptLoss = False,
    health: Health = None,
    console: Console = DEFAULT_CONSOLE,
    no_console: NoConsole = False,
    console_hosts: ConsoleHosts = "",
    console_writes: ConsoleWrites = False,
    assignments: Assignments = None,
    print_config: PrintConfig = False,
    verbose: Verbose = False,
    log_format: LogFormat = TEXT,
) -> None:
    """Runs a whole cluster in one command, with its records in a folder or a bucket.

    Prints `bootstrap: HOST:PORT` once Kafka clients can connect. Ctrl-C stops it cleanly; the next start
    continues with the same data.
    """
    log_to_stderr(verbose, log_format)
    given = given_settings(zone, partitions, no_auto_create, flush_ms, cache_mib)
    given |= given_security(tls_cert, tls_key, tls_ca, users_file)
    given |= given_rights(authorizer, super_user)
    configuration = configure(context, assignments, given)
    with ExitStack() as stack:
        if moto:
            bucket, endpoint, data = _on_moto(context, stack)
            create_bucket = True
        elif not bucket and (endpoint or create_bucket):
            fail("--endpoint and --create-bucket need --bucket: name the bucket")
        elif journal and shared_kind_of(journal).is_in_bucket and not bucket:
            fail(f"--journal {journal} keeps the journal in the bucket: name it with --bucket")
        elif s3_sse and not bucket:
            fail("--s3-sse needs --bucket: only S3 encrypts by itself")
        url = (
            bucket_url(bucket, endpoint=endpoint, sse=s3_sse, sse_kms_key_id=s3_sse_kms_key_id)
            if bucket
            else folder_url(data / "objects")
        )
        url = with_given_keys(context, url, encryption_keys, encryption_key_command)
        options = AgentOptions(
            url=url,
            create_bucket=create_bucket,
            listen=listen,
            advertise=advertise,
            configuration=configuration.on(url),
            health=health,
            verbose=verbose,
            log_format=log_format,
        )
        options.parts()
        if print_config:
            print_configuration(context, options.configuration)
            return
        shared = SharedJournalOptions(journal, url, LEASE_MS / 1000) if journal else None
        make_folder(data)
        if accept_loss and shared is not None:
            asyncio.run(go_on_with_shared(shared, options.open_store))
        elif accept_loss:
            go_on_without(data, options.open_store)
        is_new = not (data / JOURNAL_NAME).exists()
        greet = partial(greeting, options, data, shared, keeps_nothing=moto, is_new=is_new)
        is_chosen = context.get_parameter_source("console") is not ParameterSource.DEFAULT
        wanted = Wanted(
            address="" if no_console or console == OFF else console,
            is_chosen=is_chosen,
            names=host_names(console_hosts),
            may_write=console_writes,
        )
        if workers > 1:
            _run_workers(options, shared, workers, data, wanted, greet)
        else:
            run(partial(_up, options, shared, data, wanted, greet))


def _on_moto(context: click.Context, stack: ExitStack) -> tuple[str, str, Path]:
    """Starts moto's server, and returns its bucket, its endpoint, and a data folder."""
    if is_typed(context, "bucket") or is_typed(context, "endpoint"):
        fail("--moto comes with its own bucket: leave --bucket and --endpoint out")
    if is_typed(context, "data"):
        fail(
            "--moto keeps neither records nor journal on disk, so --data would have no effect: "
            "leave one of the two out"
        )
    if "LACUNA_DATA" in os.environ:
        click.echo("ignoring LACUNA_DATA: --moto keeps nothing on disk", err=True)
    from lacuna.operating.moto import BUCKET as MOTO_BUCKET
    from lacuna.operating.moto import CREDENTIALS, MotoServer

    endpoint = stack.enter_context(MotoServer()).endpoint
    os.environ.update(CREDENTIALS)
    # The objects are gone when moto ends, so the journal that refers to them must go too.
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lacuna-moto-"))
    return MOTO_BUCKET, endpoint, Path(folder)


async def _up(
    options: AgentOptions,
    journal: SharedJournalOptions | None,
    data: Path,
    wanted: Wanted,
    greet: Callable[..., str],
) -> None:
    cluster = EmbeddedCluster(_cluster_settings(options, journal, data))
    observed = Observed(STARTING)
    async with endpoint_served(options.health, observed):
        await cluster.start()
        try:
            observe_control_plane(observed, cluster.running, cluster.settings.service.runtime)
            observe_agent(observed, cluster.agents[0])
            with (
                traced(cluster.agents[0].context),
                wanted.listening() as (listener, address),
            ):
                say_ready(greet(cluster.bootstrap, console=address))
                async with wanted.served(listener, cluster, observed):
                    await cluster.running.failed()
        finally:
            await cluster.stop()


def _cluster_settings(
    options: AgentOptions, journal: SharedJournalOptions | None, data: Path
) -> ClusterSettings:
    return ClusterSettings(
        data=data,
        open_store=options.open_store,
        store_url=options.url,
        journal=journal,
        parts=options.parts(),
        service=options.configuration.service(),
        groups=options.configuration.make(GroupSettings),
        producers=options.configuration.make(ProducerSettings),
    )


def _run_workers(
    options: AgentOptions,
    journal: SharedJournalOptions | None,
    workers: int,
    data: Path,
    wanted: Wanted,
    greet: Callable[..., str],
) -> None:
    """Runs a control plane and workers that use it, each in a separate process."""
    address = data / ADDRESS_NAME
    with (
        wanted.listening() as (listener, console),
        Supervisor() as supervisor,
        ExitStack() as stack,
    ):
        arguments = ["controlplane", f"--listen={socket_address(data)}", f"--data={data}"]
        secrets = {}
        if journal is not None:
            options.open_store().close()  # the bucket, if it is to be created
            arguments += [f"--store={journal.store_url}"]
            secrets = {"LACUNA_CONTROLPLANE_JOURNAL": journal.url}
        arguments += [f"--log-format={options.log_format}"]
        arguments += ["--verbose"] if options.verbose else []
        arguments += options.configuration.arguments("controlplane")
        control = supervisor.start(arguments, CONTROL_READY, secrets=secrets)

        def ready(bootstrap: str) -> None:
            """Announces the cluster in the data folder, once the workers have checked that the store is its own."""
            leave(data, STORE_NAME, options.url)
            leave(data, ADDRESS_NAME, control)
            siblings = supervisor.siblings("console")
            place, agents = ControlPlace(control), options.agents(bootstrap)
            stack.enter_context(wanted.served_in_thread(listener, place, agents, siblings))
            say_ready(greet(bootstrap, console=console))

        try:
            start_workers(
                supervisor,
                [f"--control={control}", *options.arguments()],
                options.listeners(),
                workers,
                ready,
            )
        finally:
            address.unlink(missing_ok=True)
