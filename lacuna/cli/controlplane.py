"""`lacuna controlplane`: runs only a control plane, until Ctrl-C; its commands ask running ones."""

import json
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click

from lacuna.base.addresses import parse_address
from lacuna.base.pace import LoopLoad, MeasuredPace
from lacuna.cli.agent_options import control_tls_given, given_rights
from lacuna.cli.command_line import make_group, option
from lacuna.cli.config_options import Assignments, PrintConfig
from lacuna.cli.configuration import Configuration, configure, print_configuration
from lacuna.cli.console import asynchronous, tell
from lacuna.cli.copying import copy
from lacuna.cli.encryption import with_given_keys
from lacuna.cli.errors import fail
from lacuna.cli.losses import go_on_with_shared, go_on_without
from lacuna.cli.notifying import SERVING, notify
from lacuna.cli.options import (
    DEFAULT_CONTROL,
    DEFAULT_DATA,
    LEASE_MS,
    AcceptLoss,
    Authorizer,
    ControlTlsCa,
    ControlTlsCert,
    ControlTlsKey,
    CreateBucket,
    EncryptionKeyCommand,
    EncryptionKeys,
    Health,
    LeaseMs,
    LogFormat,
    OneControl,
    SuperUser,
    Verbose,
    folder,
)
from lacuna.cli.running import CONTROL_READY, TEXT, log_to_stderr, run, say
from lacuna.cli.setting_time import set_time
from lacuna.cli.sizes import show_count
from lacuna.cli.workers import siblings
from lacuna.controlplane.client import ControlTlsSettings, made_of
from lacuna.controlplane.journal.kinds import SHARED_KINDS, forms
from lacuna.controlplane.journal.kinds.sqlite import JOURNAL_NAME
from lacuna.controlplane.service import RunningControlPlane, serve
from lacuna.controlplane.shared.authorizing import AuthorizerSettings, authorizer_of
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.shared_service import RunningNode, ask_status, serve_shared
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.windows import ProducerSettings
from lacuna.controlplane.v1.control_pb2 import ControlPlaneStatus, Standby
from lacuna.logstore.objects.url import JOURNAL_FORMS
from lacuna.observing.control import observe_control_plane
from lacuna.observing.endpoint import Observed, endpoint_served
from lacuna.operating.embedded import make_folder, state_settings
from lacuna.operating.journals import SharedJournalOptions
from lacuna.operating.stores import open_checked, open_when_there


def controlplane(
    context: click.Context,
    listen: Annotated[
        str,
        option(
            "--listen",
            "-l",
            key="controlplane.listen",
            help="Address for agents to connect to: HOST:PORT or unix:PATH.",
        ),
    ] = "127.0.0.1:7070",
    advertise: Annotated[
        str | None,
        option(
            "--advertise",
            key="controlplane.advertise",
            help="HOST:PORT where agents reach this control plane, if it differs from --listen.",
        ),
    ] = None,
    journal: Annotated[
        str | None,
        option(
            "--journal",
            key="controlplane.journal",
            help=f"Journal that several control planes share: {forms(SHARED_KINDS)}. Default: an "
            "SQLite file in the data folder, for one control plane.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        option(
            "--store",
            key="store",
            help=f"With --journal: the cluster's bucket as a URL, {JOURNAL_FORMS}. It holds the "
            "journal's snapshots, and with bucket all of the journal.",
        ),
    ] = None,
    create_bucket: CreateBucket = False,
    encryption_keys: EncryptionKeys = None,
    encryption_key_command: EncryptionKeyCommand = None,
    lease_ms: LeaseMs = LEASE_MS,
    data: Annotated[
        Path,
        option(
            "--data",
            "-d",
            key="data",
            parser=folder,
            metavar="PATH",
            help="Folder of the journal. It is created if missing.",
        ),
    ] = DEFAULT_DATA,
    control_tls_cert: ControlTlsCert = None,
    control_tls_key: ControlTlsKey = None,
    control_tls_ca: ControlTlsCa = None,
    authorizer: Authorizer = False,
    super_user: SuperUser = None,
    accept_loss: AcceptLoss = False,
    health: Health = None,
    assignments: Assignments = None,
    print_config: PrintConfig = False,
    verbose: Verbose = False,
    log_format: LogFormat = TEXT,
) -> None:
    """Runs only a control plane, which keeps topics, transactions, groups and the index of records.

    It is a gRPC service with the standard health service. Prints `control plane: ADDRESS`
    once agents can connect: `lacuna agent --control ADDRESS`. With --journal, start as many as you like and name all
    of them: `lacuna agent --control A,B`. One leads, and if it ends, another one takes over within seconds.
    """
    log_to_stderr(verbose, log_format)
    given = control_tls_given(control_tls_cert, control_tls_key, control_tls_ca)
    given |= given_rights(authorizer, super_user)
    configuration = configure(context, assignments, given)
    if print_config:
        print_configuration(context, configuration)
        return
    if not listen.startswith("unix:"):
        parse_address(listen)
    if advertise:
        parse_address(advertise)
    if journal:
        url = store or ""
        if url:
            url = with_given_keys(context, url, encryption_keys, encryption_key_command)
        shared = SharedJournalOptions(journal, url, lease_ms / 1000)
        serving = partial(
            _one_of_several, listen, advertise or "", shared, create_bucket, configuration, health
        )
        run(partial(_go_on, shared, serving) if accept_loss else serving, reads_much=False)
        return
    make_folder(data)
    if accept_loss:
        go_on_without(data)
    run(partial(_controlplane, listen, data, configuration, health), reads_much=False)


def _check_rights(listen: str, configuration: Configuration) -> None:
    """Raises UserError for an authorizer that would be asked about nobody, or half of one."""
    settings = configuration.make(AuthorizerSettings)
    if authorizer_of(settings, Security()) is None:
        return
    tls = configuration.make(ControlTlsSettings)
    if listen.startswith("unix:") or not tls.authorities:
        fail(
            "--authorizer of a control plane is for jobs, which it knows by their certificates: listen on HOST:PORT "
            "with --control-tls-ca, -cert and -key, or leave --authorizer out"
        )
    if not tls.principals:
        fail(
            "--authorizer of a control plane is for jobs, and without controlplane.cluster.principals everybody with a "
            "certificate is part of the cluster: name agents and control planes there"
        )


async def _controlplane(
    listen: str, data: Path, configuration: Configuration, health: str | None
) -> None:
    _check_rights(listen, configuration)
    running = await serve(
        listen,
        str(data / JOURNAL_NAME),
        configuration.service(),
        pace=MeasuredPace(LoopLoad()),
        prepare=state_settings(
            configuration.make(GroupSettings), configuration.make(ProducerSettings)
        ),
    )
    await _until_it_fails(running, configuration, health)


async def _go_on(
    shared: SharedJournalOptions, serving: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    open_store = partial(open_checked, shared.store_url) if shared.store_url else None
    await go_on_with_shared(shared, open_store)
    await serving()


async def _one_of_several(
    listen: str,
    advertise: str,
    shared: SharedJournalOptions,
    create_bucket: bool,
    configuration: Configuration,
    health: str | None,
) -> None:
    _check_rights(listen, configuration)
    if create_bucket and shared.store_url:
        (await open_when_there(shared.store_url, create_bucket=True)).close()
    with shared.opened() as make_journal:
        running = await serve_shared(
            listen,
            make_journal,
            configuration.service(),
            advertised=advertise,
            prepare=state_settings(
                configuration.make(GroupSettings), configuration.make(ProducerSettings)
            ),
        )
        await _until_it_fails(running, configuration, health)


async def _until_it_fails(
    running: RunningControlPlane | RunningNode, configuration: Configuration, health: str | None
) -> None:
    behind = "the control plane has not replayed its journal yet"
    observed = Observed(behind)
    observe_control_plane(observed, running, configuration.service().runtime)
    try:
        say(f"{CONTROL_READY}{running.address}")
        async with endpoint_served(health, observed, siblings()):
            await running.ready()
            observed.becomes(lambda: "" if running.is_ready else behind)
            notify(SERVING)
            await running.failed()
    finally:
        await running.close()


app = make_group(controlplane)
app.adds("copy")(copy)
app.adds("set-time")(set_time)


@app.adds("status")
@asynchronous
async def status(
    control: OneControl = DEFAULT_CONTROL,
    as_json: Annotated[bool, option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Shows which control plane leads, in which epoch, and how far behind each standby is."""
    if not control.address.startswith("unix:"):
        parse_address(control.address)
    answer = await ask_status(control.address, tls=made_of(control.tls))
    if answer is None:
        fail(f"no control plane answers at {control}: is it running?")
    standbys = sorted(answer.standbys, key=lambda standby: standby.address)
    if as_json:
        say(json.dumps(_as_json(answer, standbys)))
        return
    tell(f"leader {answer.leader}" if answer.leader else "leader none")
    tell(f"epoch {answer.epoch}")
    tell(f"position {answer.position}")
    if answer.is_time_doubtful:
        tell(
            f"time in doubt: nothing is deleted by age; clocks are {answer.clocks_ahead_ms / 1000:.0f} s ahead"
        )
    for standby in standbys:
        behind = max(0, answer.position - standby.position)
        tell(f"standby {standby.address} {show_count(behind, 'record')} behind")


def _as_json(answer: ControlPlaneStatus, standbys: list[Standby]) -> dict[str, object]:
    return {
        "leader": answer.leader or None,
        "epoch": answer.epoch,
        "position": answer.position,
        "is_time_doubtful": answer.is_time_doubtful,
        "clocks_ahead_ms": answer.clocks_ahead_ms,
        "standbys": [
            {
                "address": standby.address,
                "position": standby.position,
                "behind": max(0, answer.position - standby.position),
            }
            for standby in standbys
        ],
    }
