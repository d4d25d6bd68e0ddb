"""`lacuna controlplane`: runs only a control plane, until Ctrl-C. The subcommands query running control planes."""

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from lacuna.base.addresses import parse_address
from lacuna.base.pace import LoopLoad, MeasuredPace
from lacuna.cli import places, tables
from lacuna.cli.agent_options import shared_journal, with_given_keys
from lacuna.cli.command_line import make_group, option, takes
from lacuna.cli.configuration import Configuration, print_configuration
from lacuna.cli.console import asynchronous, print_line
from lacuna.cli.errors import fail
from lacuna.cli.journals import copy, set_time
from lacuna.cli.losses import go_on_with_shared, go_on_without
from lacuna.cli.options import DEFAULT_CONTROL, AcceptLoss, OneControl, PrintConfig, Verbose
from lacuna.cli.running import CONTROL_READY, SERVING, log_to_stderr, notify, run, say
from lacuna.cli.tables import service_settings
from lacuna.cli.units import show_count
from lacuna.cli.workers import siblings
from lacuna.controlplane.client import ControlTlsSettings, made_of
from lacuna.controlplane.journal.kinds.sqlite import JOURNAL_NAME
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.service import RunningControlPlane, serve
from lacuna.controlplane.shared.authorizing import AuthorizerSettings, authorizer_of
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.shared_service import RunningNode, ask_status, serve_shared
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.windows import ProducerSettings
from lacuna.controlplane.v1.control_pb2 import ControlPlaneStatus, Standby
from lacuna.observing.control import observe_control_plane
from lacuna.observing.endpoint import Observed, endpoint_served
from lacuna.operating.embedded import make_folder, state_settings
from lacuna.operating.journals import SharedJournalOptions
from lacuna.operating.stores import open_checked, open_when_there


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    settings: Annotated[
        Configuration,
        takes(
            places.ControlListener,
            places.JournalPlace,
            places.StoreUrl,
            places.BucketCreation,
            places.Encryption,
            places.LeaderLease,
            places.DataFolder,
            places.Health,
            places.LogLines,
            *tables.CONTROL_PLANE,
        ),
    ]
    accept_loss: AcceptLoss = False
    print_config: PrintConfig = False
    verbose: Verbose = False

    def shared(self) -> SharedJournalOptions | None:
        """Return the journal that control planes share, or None if the journal is in the data folder."""
        store = self.settings.make(places.StoreUrl).store
        journal = self.settings.make(places.JournalPlace).journal
        url = with_given_keys(self.settings, store) if store and journal else ""
        return shared_journal(self.settings, url)


def controlplane(given: Given) -> None:
    """Runs only a control plane, which keeps topics, transactions, groups and the index of records.

    The control plane is a gRPC service with the standard health service. The command prints `control plane: ADDRESS`
    once agents can connect: `lacuna agent --control ADDRESS`. With --journal, you can start several control planes and
    name all of them: `lacuna agent --control A,B`. One of them is the leader; if it stops, another
    takes over within seconds.
    """
    log_to_stderr(given.verbose, given.settings.make(places.LogLines).format)
    if given.print_config:
        print_configuration(given.settings)
        return
    _check_addresses(given.settings.make(places.ControlListener))
    shared = given.shared()
    if shared is not None:
        serving = partial(_one_of_several, given.settings, shared)
        run(partial(_go_on, shared, serving) if given.accept_loss else serving, reads_much=False)
        return
    data = Path(given.settings.make(places.DataFolder).data)
    make_folder(data)
    if given.accept_loss:
        go_on_without(data)
    run(partial(_controlplane, given.settings, data), reads_much=False)


def _check_addresses(listener: places.ControlListener) -> None:
    """Raises UserError if an address is invalid."""
    if not listener.listen.startswith("unix:"):
        parse_address(listener.listen)
    if listener.advertise:
        parse_address(listener.advertise)


def _check_rights(listen: str, configuration: Configuration) -> None:
    """Raises UserError if the authorizer would apply to no peer or reject every peer."""
    settings = configuration.make(AuthorizerSettings)
    if authorizer_of(settings, Security()) is None:
        return
    tls = configuration.make(ControlTlsSettings)
    if listen.startswith("unix:") or not tls.authorities:
        fail(
            "a control plane's --authorizer applies to jobs, which it identifies by their certificates: listen on "
            "HOST:PORT with --control-tls-ca, --control-tls-cert and --control-tls-key, or omit --authorizer"
        )
    if not tls.principals:
        fail(
            "a control plane's --authorizer applies to jobs, and without controlplane.cluster.principals every peer "
            "with a certificate is part of the cluster: list agents and control planes in that setting"
        )


async def _controlplane(configuration: Configuration, data: Path) -> None:
    listen = configuration.make(places.ControlListener).listen
    _check_rights(listen, configuration)
    running = await serve(
        listen,
        str(data / JOURNAL_NAME),
        service_settings(configuration),
        pace=MeasuredPace(LoopLoad()),
        prepare=_prepare(configuration),
    )
    await _until_it_fails(running, configuration)


def _prepare(configuration: Configuration) -> Callable[[State], None]:
    return state_settings(configuration.make(GroupSettings), configuration.make(ProducerSettings))


async def _go_on(
    shared: SharedJournalOptions, serving: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    open_store = partial(open_checked, shared.store_url) if shared.store_url else None
    await go_on_with_shared(shared, open_store)
    await serving()


async def _one_of_several(configuration: Configuration, shared: SharedJournalOptions) -> None:
    listener = configuration.make(places.ControlListener)
    _check_rights(listener.listen, configuration)
    creates = configuration.make(places.BucketCreation).create_bucket
    if creates and shared.store_url:
        (await open_when_there(shared.store_url, create_bucket=True)).close()
    with shared.opened() as make_journal:
        running = await serve_shared(
            listener.listen,
            make_journal,
            service_settings(configuration),
            advertised=listener.advertise,
            prepare=_prepare(configuration),
        )
        await _until_it_fails(running, configuration)


async def _until_it_fails(
    running: RunningControlPlane | RunningNode, configuration: Configuration
) -> None:
    behind = "the control plane has not replayed its journal yet"
    observed = Observed(behind)
    observe_control_plane(observed, running, configuration.make(RuntimeSettings))
    try:
        say(f"{CONTROL_READY}{running.address}")
        health = configuration.make(places.Health).health
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
    """Shows the leader, its epoch, and how far behind it each standby is."""
    if not control.address.startswith("unix:"):
        parse_address(control.address)
    answer = await ask_status(control.address, tls=made_of(control.tls))
    if answer is None:
        fail(f"no control plane answers at {control}: start one, or check the address")
    standbys = sorted(answer.standbys, key=lambda standby: standby.address)
    if as_json:
        say(json.dumps(_as_json(answer, standbys)))
        return
    print_line(f"leader {answer.leader}" if answer.leader else "leader none")
    print_line(f"epoch {answer.epoch}")
    print_line(f"position {answer.position}")
    if answer.is_time_doubtful:
        print_line(
            f"time in doubt: the clocks are {answer.clocks_ahead_ms / 1000:.0f} s ahead, "
            "so no records are deleted based on age"
        )
    for standby in standbys:
        behind = max(0, answer.position - standby.position)
        print_line(f"standby {standby.address} {show_count(behind, 'record')} behind")


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
