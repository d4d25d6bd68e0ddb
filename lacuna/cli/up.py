"""`lacuna up`: runs a whole cluster until Ctrl-C."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import click

from lacuna.base.data_folder import ADDRESS_NAME, STORE_NAME, leave
from lacuna.base.setting import Value
from lacuna.cli import places, tables
from lacuna.cli.agent_options import AgentOptions, named_store, shared_journal, with_given_keys
from lacuna.cli.command_line import option, takes
from lacuna.cli.configuration import Configuration, is_typed, print_configuration
from lacuna.cli.console_options import ConsoleOptions
from lacuna.cli.errors import fail
from lacuna.cli.greeting import greeting
from lacuna.cli.losses import go_on_with_shared, go_on_without
from lacuna.cli.options import AcceptLoss, PrintConfig, Verbose
from lacuna.cli.running import CONTROL_READY, log_to_stderr, run, say_ready
from lacuna.cli.workers import Supervisor, start_workers
from lacuna.controlplane.client import ControlPlace, ControlTlsSettings
from lacuna.controlplane.journal.kinds import shared_kind_of
from lacuna.controlplane.journal.kinds.sqlite import JOURNAL_NAME
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.windows import ProducerSettings
from lacuna.logstore.objects import folder_url, kind_of
from lacuna.observing.agent import STARTING, observe_agent
from lacuna.observing.control import observe_control_plane
from lacuna.observing.endpoint import Observed, endpoint_served
from lacuna.observing.traces import traced
from lacuna.operating.embedded import ClusterSettings, EmbeddedCluster, make_folder, socket_address
from lacuna.operating.journals import SharedJournalOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    settings: Annotated[
        Configuration,
        takes(
            places.DataFolder,
            places.Bucket,
            places.BucketCreation,
            places.StoreUrl,
            places.JournalPlace,
            places.LeaderLease,
            places.Encryption,
            places.Listeners,
            *tables.AGENT,
            *tables.CONTROL_PLANE,
            places.Workers,
            places.Health,
            places.ConsoleAddress,
            places.ConsoleVisitors,
            places.LogLines,
            quiet=(ControlTlsSettings,),
        ),
    ]
    moto: Annotated[
        bool,
        option(
            help="Keep everything in an in-memory S3 server, for experiments. "
            "All data, including the journal, is lost on exit.",
            panel="Where to keep the records",
        ),
    ] = False
    accept_loss: AcceptLoss = False
    no_console: Annotated[
        bool, option(help="Do not serve the web console.", panel="Web console")
    ] = False
    print_config: PrintConfig = False
    verbose: Verbose = False

    def console(self) -> ConsoleOptions:
        chosen = self.settings.chosen["console.listen"]
        return ConsoleOptions(
            address="" if self.no_console or chosen.value == places.OFF else str(chosen.value),
            is_chosen=not chosen.is_default,
            visitors=self.settings.make(places.ConsoleVisitors),
        )


def up(given: Given) -> None:
    """Runs a complete cluster, with its records in a folder or a bucket.

    Prints `bootstrap: HOST:PORT` once Kafka clients can connect. Ctrl-C stops the cluster cleanly; the next start
    continues with the same data.
    """
    log_to_stderr(given.verbose, given.settings.make(places.LogLines).format)
    with ExitStack() as stack:
        settings = _on_moto(given.settings, stack) if given.moto else given.settings
        url = _store_url(settings)
        options = AgentOptions(url=url, configuration=settings, verbose=given.verbose)
        options.parts()
        if given.print_config:
            print_configuration(options.configuration)
            return
        _serve(given, options)


def _serve(given: Given, options: AgentOptions) -> None:
    """Prepare the data folder and the journal, and serve until Ctrl-C."""
    settings = options.configuration
    data = Path(settings.make(places.DataFolder).data)
    shared = shared_journal(settings, options.url)
    make_folder(data)
    if given.accept_loss and shared is not None:
        asyncio.run(go_on_with_shared(shared, options.open_store))
    elif given.accept_loss:
        go_on_without(data, options.open_store)
    is_new = not (data / JOURNAL_NAME).exists()
    greet = partial(greeting, options, data, shared, keeps_nothing=given.moto, is_new=is_new)
    console = given.console()
    workers = settings.make(places.Workers).workers
    if workers > 1:
        _run_workers(options, shared, workers, data, console, greet)
    else:
        run(partial(_up, options, shared, data, console, greet))


def _store_url(settings: Configuration) -> str:
    named = named_store(settings)
    if not named and settings.make(places.BucketCreation).create_bucket:
        fail("--create-bucket needs a bucket: specify it with --bucket or --store")
    journal = settings.make(places.JournalPlace).journal
    if not named and journal and shared_kind_of(journal).is_in_bucket:
        fail(f"--journal {journal} needs a bucket: specify it with --bucket or --store")
    if named and not kind_of(named).is_shared:
        fail(
            f"--store {named} would lose the records on exit but keep the journal: use --moto, which keeps neither"
        )
    folder = Path(settings.make(places.DataFolder).data) / "objects"
    return with_given_keys(settings, named or folder_url(folder))


def _on_moto(settings: Configuration, stack: ExitStack) -> Configuration:
    """Start a moto server. Return the settings with its bucket and endpoint, and with a data folder."""
    context = click.get_current_context()
    if any(is_typed(context, name) for name in ("bucket", "endpoint", "store")):
        fail("--moto has its own bucket: omit --bucket, --endpoint and --store")
    if is_typed(context, "data"):
        fail(
            "--moto keeps neither records nor journal on disk, so --data would have no effect: "
            "use only one of the two"
        )
    if "LACUNA_DATA" in os.environ:
        click.echo("ignoring LACUNA_DATA: --moto keeps nothing on disk", err=True)
    from lacuna.operating.moto import BUCKET as MOTO_BUCKET
    from lacuna.operating.moto import CREDENTIALS, MotoServer

    endpoint = stack.enter_context(MotoServer()).endpoint
    os.environ.update(CREDENTIALS)
    # The objects are lost when moto stops, so the journal that refers to them must be deleted as well.
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lacuna-moto-"))
    values: dict[str, Value] = {
        "bucket": MOTO_BUCKET,
        "endpoint": endpoint,
        "store": "",
        "data": folder,
        "create.bucket": True,
    }
    return settings.replaced(values, "--moto")


async def _up(
    options: AgentOptions,
    journal: SharedJournalOptions | None,
    data: Path,
    wanted: ConsoleOptions,
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
        service=tables.service_settings(options.configuration),
        groups=options.configuration.make(GroupSettings),
        producers=options.configuration.make(ProducerSettings),
    )


def _run_workers(
    options: AgentOptions,
    journal: SharedJournalOptions | None,
    workers: int,
    data: Path,
    wanted: ConsoleOptions,
    greet: Callable[..., str],
) -> None:
    """Run a control plane and its workers, each in a process of its own."""
    address = data / ADDRESS_NAME
    with (
        wanted.listening() as (listener, console),
        Supervisor() as supervisor,
        ExitStack() as stack,
    ):
        arguments = ["controlplane", f"--listen={socket_address(data)}", f"--data={data}"]
        secrets = {}
        if journal is not None:
            options.open_store().close()  # creates the bucket if the options request it
            arguments += [f"--store={journal.store_url}"]
            secrets = {"LACUNA_CONTROLPLANE_JOURNAL": journal.url}
        arguments += ["--verbose"] if options.verbose else []
        arguments += options.configuration.arguments(
            places.LeaderLease, places.LogLines, *tables.CONTROL_PLANE
        )
        control = supervisor.start(arguments, CONTROL_READY, secrets=secrets)

        def ready(bootstrap: str) -> None:
            """Announce the cluster in the data folder, once the workers have checked that the store belongs to it."""
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
