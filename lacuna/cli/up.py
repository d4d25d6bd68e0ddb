"""`lacuna up`: a whole cluster until Ctrl-C."""

import os
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lacuna.cli.agent_options import AgentOptions
from lacuna.cli.errors import fail
from lacuna.cli.options import (
    DEFAULT_DATA,
    DEFAULT_LISTEN,
    Advertise,
    Bucket,
    CacheMebibytes,
    CreateBucket,
    Endpoint,
    FlushInterval,
    Listen,
    Moto,
    NoAutoCreate,
    Partitions,
    Verbose,
    Workers,
    Zone,
    folder,
)
from lacuna.cli.running import CONTROL_READY, READY, log_to_stderr, run, say
from lacuna.cli.workers import Supervisor, start_workers
from lacuna.control import ADDRESS_NAME, STORE_NAME, leave
from lacuna.embedded import ClusterSettings, EmbeddedCluster, make_folder, socket_address
from lacuna.stores import bucket_url, folder_url


def up(
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            "-d",
            envvar="LACUNA_DATA",
            parser=folder,
            metavar="PATH",
            help="Folder of the cluster: its journal, and its records unless a bucket is named. Made "
            "where it is not there.",
        ),
    ] = DEFAULT_DATA,
    moto: Moto = False,
    bucket: Bucket = None,
    endpoint: Endpoint = None,
    create_bucket: CreateBucket = False,
    listen: Listen = DEFAULT_LISTEN,
    advertise: Advertise = None,
    zone: Zone = "",
    partitions: Partitions = 1,
    no_auto_create: NoAutoCreate = False,
    workers: Workers = 1,
    flush_ms: FlushInterval = None,
    cache_mib: CacheMebibytes = 128,
    verbose: Verbose = False,
) -> None:
    """Runs a whole cluster in one command; the records go to a folder or a bucket.

    Prints `bootstrap: HOST:PORT` once Kafka clients can connect. Ctrl-C ends it cleanly; the next start on
    the same data goes on where this one stopped.
    """
    log_to_stderr(verbose)
    with ExitStack() as stack:
        if moto:
            if bucket or endpoint:
                fail("--moto brings a bucket of its own: leave --bucket and --endpoint out")
            from lacuna.moto import BUCKET, CREDENTIALS, MotoServer

            bucket, endpoint = BUCKET, stack.enter_context(MotoServer()).endpoint
            create_bucket = True
            os.environ.update(CREDENTIALS)
            # The objects are gone with moto, so the journal that speaks of them is too.
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lacuna-moto-")))
            given = " ".join(f"{name}={value}" for name, value in CREDENTIALS.items())
            typer.echo(f"jobs (compact, export, verify) need --data {data} and {given}", err=True)
        elif not bucket and (endpoint or create_bucket):
            fail("--endpoint and --create-bucket go with --bucket: name the bucket")
        options = AgentOptions(
            url=bucket_url(bucket, endpoint) if bucket else folder_url(data / "objects"),
            create_bucket=create_bucket,
            listen=listen,
            advertise=advertise,
            zone=zone,
            partitions=partitions,
            auto_create_topics=not no_auto_create,
            flush_interval_ms=flush_ms,
            cache_mib=cache_mib,
            verbose=verbose,
        )
        options.parts()
        make_folder(data)
        if workers > 1:
            _run_workers(options, workers, data)
        else:
            run(partial(_up, options, data))


async def _up(options: AgentOptions, data: Path) -> None:
    host, port = options.address()
    cluster = EmbeddedCluster(
        ClusterSettings(
            data=data,
            host=host,
            ports=(port,),
            open_store=options.open_store,
            store_url=options.url,
            parts=options.parts(),
        )
    )
    await cluster.start()
    try:
        say(f"{READY}{cluster.bootstrap}")
        await cluster.running.failed()
    finally:
        await cluster.stop()


def _run_workers(options: AgentOptions, workers: int, data: Path) -> None:
    """A control plane in a process of its own on the data folder, and workers against it."""
    address = data / ADDRESS_NAME
    with Supervisor() as supervisor:
        arguments = ["controlplane", f"--listen={socket_address(data)}", f"--data={data}"]
        control = supervisor.start(arguments, CONTROL_READY)

        def ready() -> None:
            """The workers have found that the store is this cluster's."""
            leave(data, STORE_NAME, options.url)
            leave(data, ADDRESS_NAME, control)

        try:
            start_workers(
                supervisor,
                [f"--control={control}", *options.arguments()],
                *options.address(),
                workers,
                ready,
            )
        finally:
            address.unlink(missing_ok=True)
