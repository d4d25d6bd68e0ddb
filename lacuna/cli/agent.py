"""`lacuna agent`: one agent, or several workers behind its port, until Ctrl-C."""

import asyncio
import random
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agent.clock import SystemClock
from lacuna.agents import start_agent
from lacuna.cli.agent_options import AgentOptions
from lacuna.cli.errors import fail
from lacuna.cli.options import (
    DEFAULT_LISTEN,
    Advertise,
    Bucket,
    CacheMebibytes,
    CreateBucket,
    Endpoint,
    FlushInterval,
    Listen,
    NoAutoCreate,
    Objects,
    Partitions,
    Store,
    Verbose,
    Workers,
    Zone,
)
from lacuna.cli.running import READY, forever, log_to_stderr, run, say
from lacuna.cli.workers import Supervisor, is_worker, start_workers
from lacuna.control import connect
from lacuna.stores import bucket_url, claim, folder_url


def agent(
    control: Annotated[
        str,
        typer.Option(
            "--control",
            envvar="LACUNA_CONTROL",
            help="The control plane: HOST:PORT, or unix:PATH.",
        ),
    ],
    bucket: Bucket = None,
    endpoint: Endpoint = None,
    create_bucket: CreateBucket = False,
    objects: Objects = None,
    store: Store = None,
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
    """Runs an agent alone: it serves Kafka clients from a bucket or a shared folder.

    It keeps nothing itself. Start as many as you like against one control plane; any of them serves any
    partition. Prints `bootstrap: HOST:PORT` once Kafka clients can connect.
    """
    log_to_stderr(verbose)
    given = [each for each in (bucket, objects, store) if each is not None]
    if len(given) != 1:
        fail("say where the records are: give one of --bucket, --objects and --store")
    if endpoint and not bucket:
        fail("--endpoint goes with --bucket: name the bucket")
    options = AgentOptions(
        url=store or (bucket_url(bucket, endpoint) if bucket else folder_url(objects or Path())),
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
    if workers > 1:
        with Supervisor() as supervisor:
            arguments = [f"--control={control}", *options.arguments()]
            start_workers(supervisor, arguments, *options.address(), workers)
    else:
        run(partial(_agent, options, control))


async def _agent(options: AgentOptions, control: str) -> None:
    host, port = options.address()
    store = await asyncio.to_thread(options.open_store)
    try:
        async with connect(control) as client:
            await claim(store, client)
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
                await forever()
            finally:
                await running.stop()
    finally:
        store.close()
