"""`lacuna up`, `lacuna agent`, `lacuna controlplane`: what keeps running until Ctrl-C."""

import asyncio
import os
import random
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from controlplane import machine
from controlplane.service import ServiceSettings, serve
from lacuna.agents import start_agent
from lacuna.cli.agent_options import AgentOptions
from lacuna.cli.console import fail
from lacuna.cli.options import (
    Advertise,
    AutoCreate,
    Bucket,
    CacheMebibytes,
    CreateBucket,
    Endpoint,
    FlushInterval,
    Listen,
    Partitions,
    Verbose,
    Workers,
    Zone,
)
from lacuna.cli.running import READY, log_to_stderr, run, say, until_stopped
from lacuna.cli.workers import Supervisor, is_worker, start_workers
from lacuna.control import ADDRESS_NAME, DEFAULT_DATA, connect
from lacuna.embedded import (
    JOURNAL_NAME,
    MACHINE_NAME,
    ClusterSettings,
    EmbeddedCluster,
    SystemClock,
    socket_address,
)
from lacuna.stores import bucket_url, folder_url
from logstore.segments import claim_store

CONTROL_READY = "control plane: "


def up(
    data: Annotated[
        Path, typer.Option("--data", "-d", envvar="LACUNA_DATA", help="Folder of the cluster.")
    ] = DEFAULT_DATA,
    listen: Listen = "127.0.0.1:9092",
    advertise: Advertise = None,
    moto: Annotated[
        bool,
        typer.Option("--moto", help="Records in an S3 of its own in memory, forgotten at the end."),
    ] = False,
    bucket: Bucket = None,
    endpoint: Endpoint = None,
    create_bucket: CreateBucket = False,
    workers: Workers = 1,
    partitions: Partitions = 1,
    auto_create_topics: AutoCreate = True,
    flush_interval_ms: FlushInterval = None,
    cache_mib: CacheMebibytes = 128,
    zone: Zone = "",
    verbose: Verbose = False,
) -> None:
    """Runs a whole cluster: control plane, agent, and a folder (or a bucket) for the records.

    Prints the bootstrap address. Ctrl-C ends it cleanly; the next start goes on where it stopped.
    """
    log_to_stderr(verbose)
    if moto and bucket:
        fail("--moto brings a bucket of its own: leave --bucket out")
    with ExitStack() as stack:
        if moto:
            from lacuna.moto import BUCKET, CREDENTIALS, MotoServer

            bucket, endpoint = BUCKET, stack.enter_context(MotoServer()).endpoint
            create_bucket = True
            os.environ.update(CREDENTIALS)
            # The objects are gone with moto, so the journal that speaks of them is too.
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lacuna-moto-")))
        url = bucket_url(bucket, endpoint) if bucket else folder_url(data / "objects")
        options = AgentOptions(
            url=url,
            create_bucket=create_bucket,
            listen=listen,
            advertise=advertise,
            zone=zone,
            partitions=partitions,
            auto_create_topics=auto_create_topics,
            flush_interval_ms=flush_interval_ms,
            cache_mib=cache_mib,
            verbose=verbose,
        )
        if workers > 1:
            run_workers(options, workers, data=data)
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
            parts=options.parts(),
        )
    )
    await cluster.start()
    try:
        say(f"{READY}{cluster.bootstrap}")
        await until_stopped(cluster.running.failed())
    finally:
        await cluster.stop()


def agent(
    control: Annotated[
        str,
        typer.Option(
            "--control", envvar="LACUNA_CONTROL", help="The control plane: HOST:PORT or unix:PATH."
        ),
    ],
    bucket: Bucket = None,
    endpoint: Endpoint = None,
    create_bucket: CreateBucket = False,
    objects: Annotated[
        Path | None, typer.Option("--objects", help="Keep the records in this folder instead.")
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", help="The same as a URL: s3://… or file:///….")
    ] = None,
    listen: Listen = "127.0.0.1:9092",
    advertise: Advertise = None,
    workers: Workers = 1,
    partitions: Partitions = 1,
    auto_create_topics: AutoCreate = True,
    flush_interval_ms: FlushInterval = None,
    cache_mib: CacheMebibytes = 128,
    zone: Zone = "",
    verbose: Verbose = False,
) -> None:
    """Runs an agent: serves Kafka clients from a bucket, or from a folder that all agents share.

    Keeps nothing itself; start as many as you like against one control plane.
    """
    log_to_stderr(verbose)
    given = [each for each in (bucket, objects, store) if each is not None]
    if len(given) != 1:
        fail("name where the records are: one of --bucket, --objects and --store")
    url = store or (bucket_url(bucket, endpoint) if bucket else folder_url(objects or Path()))
    options = AgentOptions(
        url=url,
        create_bucket=create_bucket,
        listen=listen,
        advertise=advertise,
        zone=zone,
        partitions=partitions,
        auto_create_topics=auto_create_topics,
        flush_interval_ms=flush_interval_ms,
        cache_mib=cache_mib,
        verbose=verbose,
    )
    if workers > 1:
        run_workers(options, workers, control=control)
    else:
        run(partial(_agent, options, control))


async def _agent(options: AgentOptions, control: str) -> None:
    host, port = options.address()
    store = await asyncio.to_thread(options.open_store)
    try:
        async with connect(control) as client:
            await asyncio.to_thread(claim_store, store, client.cluster.cluster_id)
            running = await start_agent(
                control=client,
                store=store,
                parts=options.parts(),
                clock=SystemClock(),
                randomness=random.SystemRandom(),
                host=host,
                port=port,
                reuse_port=is_worker(),
            )
            try:
                say(f"{READY}{running.bootstrap}")
                await until_stopped()
            finally:
                await running.stop()
    finally:
        store.close()


def controlplane(
    listen: Annotated[
        str, typer.Option("--listen", "-l", help="HOST:PORT or unix:PATH.")
    ] = "127.0.0.1:7070",
    data: Annotated[
        Path, typer.Option("--data", "-d", envvar="LACUNA_DATA", help="Folder of the journal.")
    ] = DEFAULT_DATA,
    verbose: Verbose = False,
) -> None:
    """Runs the control plane: topics, transactions, groups, and which records count.

    A gRPC service with the standard health and reflection services.
    """
    log_to_stderr(verbose)
    run(partial(_controlplane, listen, data))


async def _controlplane(listen: str, data: Path) -> None:
    data.mkdir(parents=True, exist_ok=True)
    running = await serve(
        machine, MACHINE_NAME, listen, str(data / JOURNAL_NAME), ServiceSettings()
    )
    try:
        say(f"{CONTROL_READY}{running.address}")
        await until_stopped(running.failed())
    finally:
        await running.close()


def run_workers(
    options: AgentOptions, workers: int, *, control: str | None = None, data: Path | None = None
) -> None:
    """Runs workers against a control plane, or starts one of their own on a data folder."""
    with Supervisor() as supervisor:
        if data is not None:
            data.mkdir(parents=True, exist_ok=True)
            arguments = ["controlplane", f"--listen={socket_address(data)}", f"--data={data}"]
            control = supervisor.start(arguments, CONTROL_READY)
            (data / ADDRESS_NAME).write_text(control)
        start_workers(
            supervisor, [f"--control={control}", *options.arguments()], *options.address(), workers
        )
