"""`lacuna agent`: one agent, or several workers behind its port, until Ctrl-C."""

import random
from functools import partial
from pathlib import Path
from typing import Annotated

import click

from lacuna.agent.clock import SystemWallClock
from lacuna.cli.agent_options import (
    AgentOptions,
    control_tls_given,
    given_rights,
    given_security,
    given_settings,
)
from lacuna.cli.command_line import option
from lacuna.cli.config_options import Assignments, PrintConfig
from lacuna.cli.configuration import configure, print_configuration
from lacuna.cli.encryption import with_given_keys
from lacuna.cli.errors import fail
from lacuna.cli.options import (
    DEFAULT_LISTEN,
    Advertise,
    Authorizer,
    Bucket,
    CacheMebibytes,
    ControlTlsCa,
    ControlTlsCert,
    ControlTlsKey,
    CreateBucket,
    EncryptionKeyCommand,
    EncryptionKeys,
    Endpoint,
    FlushInterval,
    Health,
    Listen,
    LogFormat,
    NoAutoCreate,
    Objects,
    Partitions,
    S3Sse,
    S3SseKmsKeyId,
    Store,
    SuperUser,
    TlsAuthorities,
    TlsCertificate,
    TlsKey,
    UsersFile,
    Verbose,
    Workers,
    Zone,
)
from lacuna.cli.running import READY, TEXT, forever, log_to_stderr, run, say_ready
from lacuna.cli.workers import Supervisor, is_worker, siblings, start_workers
from lacuna.controlplane.client import ControlPlace, ControlTlsSettings
from lacuna.logstore.objects import bucket_url, folder_url
from lacuna.observing.agent import STARTING, observe_agent
from lacuna.observing.endpoint import Observed, endpoint_served
from lacuna.observing.traces import traced
from lacuna.operating.agents import start_agent
from lacuna.operating.control import client_of, until_answered
from lacuna.operating.stores import claim, open_when_there


def agent(
    context: click.Context,
    control: Annotated[
        str,
        option(
            "--control",
            key="control",
            help="Address of the control plane: HOST:PORT, several as A,B,C, a DNS name for all of them, or "
            "unix:PATH.",
        ),
    ],
    control_tls_cert: ControlTlsCert = None,
    control_tls_key: ControlTlsKey = None,
    control_tls_ca: ControlTlsCa = None,
    bucket: Bucket = None,
    endpoint: Endpoint = None,
    create_bucket: CreateBucket = False,
    objects: Objects = None,
    store: Store = None,
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
    health: Health = None,
    assignments: Assignments = None,
    print_config: PrintConfig = False,
    verbose: Verbose = False,
    log_format: LogFormat = TEXT,
) -> None:
    """Runs only an agent, which serves Kafka clients from a bucket or a shared folder.

    An agent keeps no data of its own. Start as many as you like with one control plane; each of them serves
    every partition. Prints `bootstrap: HOST:PORT` once Kafka clients can connect.
    """
    log_to_stderr(verbose, log_format)
    given = given_settings(zone, partitions, no_auto_create, flush_ms, cache_mib)
    given |= given_security(tls_cert, tls_key, tls_ca, users_file)
    given |= given_rights(authorizer, super_user)
    given |= control_tls_given(control_tls_cert, control_tls_key, control_tls_ca)
    configuration = configure(context, assignments, given)
    places = [each for each in (bucket, objects, store) if each is not None]
    if len(places) != 1:
        fail("no place for the records was given: use one of --bucket, --objects and --store")
    if endpoint and not bucket:
        fail("--endpoint needs --bucket: name the bucket")
    if s3_sse and not bucket:
        fail("--s3-sse needs --bucket: with --store, write ?sse=… into its URL")
    url = store or (
        bucket_url(bucket, endpoint=endpoint, sse=s3_sse, sse_kms_key_id=s3_sse_kms_key_id)
        if bucket
        else folder_url(objects or Path())
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
    if workers > 1:
        with Supervisor() as supervisor:
            arguments = [f"--control={control}", *options.arguments()]
            start_workers(supervisor, arguments, options.listeners(), workers)
    else:
        place = ControlPlace(control, options.configuration.make(ControlTlsSettings))
        run(partial(_agent, options, place))


async def _agent(options: AgentOptions, control: ControlPlace) -> None:
    observed = Observed(STARTING)
    async with endpoint_served(options.health, observed, siblings()):
        await _serve(options, control, observed)


async def _serve(options: AgentOptions, control: ControlPlace, observed: Observed) -> None:
    store = await open_when_there(options.url, create_bucket=options.create_bucket)
    try:
        async with client_of(control) as client:
            start = partial(
                start_agent,
                control=client,
                store=store,
                parts=options.parts(),
                clock=SystemWallClock(),
                randomness=random.SystemRandom(),
                reuse_port=is_worker(),
            )
            await until_answered(partial(claim, store, client))
            running = await until_answered(start)
            try:
                observe_agent(observed, running)
                with traced(running.context):
                    say_ready(f"{READY}{running.bootstrap}")
                    await forever()
            finally:
                await running.stop()
    finally:
        store.close()
