"""`lacuna agent`: runs one agent, or several workers behind its port, until Ctrl-C."""

import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from lacuna.agent.asking import Whereabouts
from lacuna.agent.clock import SystemWallClock
from lacuna.cli import places, tables
from lacuna.cli.agent_options import AgentOptions, named_store, with_given_keys
from lacuna.cli.command_line import takes
from lacuna.cli.configuration import Configuration, print_configuration
from lacuna.cli.errors import fail
from lacuna.cli.options import PrintConfig, Verbose
from lacuna.cli.running import READY, forever, log_to_stderr, run, say_ready
from lacuna.cli.workers import Supervisor, is_worker, siblings, start_workers
from lacuna.controlplane.client import ControlPlace, ControlTlsSettings
from lacuna.logstore.objects import folder_url
from lacuna.observing.agent import STARTING, observe_agent
from lacuna.observing.endpoint import Observed, endpoint_served
from lacuna.observing.traces import traced
from lacuna.operating.agents import start_agent
from lacuna.operating.control import client_of, until_answered
from lacuna.operating.stores import claim, open_when_there


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    settings: Annotated[
        Configuration,
        takes(
            places.ControlAddress,
            ControlTlsSettings,
            places.Bucket,
            places.BucketCreation,
            places.ObjectsFolder,
            places.StoreUrl,
            places.Encryption,
            places.Listeners,
            places.Workers,
            places.Health,
            places.LogLines,
            *tables.AGENT,
        ),
    ]
    print_config: PrintConfig = False
    verbose: Verbose = False


def agent(given: Given) -> None:
    """Runs only an agent, which serves Kafka clients from a bucket or a shared folder.

    An agent keeps no data of its own. Start as many agents as you like with one control plane; each of them serves
    every partition. Prints `bootstrap: HOST:PORT` once Kafka clients can connect.
    """
    log_to_stderr(given.verbose, given.settings.make(places.LogLines).format)
    control = given.settings.make(places.ControlAddress).control
    if not control:
        fail("an agent needs a control plane: specify its address with --control HOST:PORT")
    url = _store_url(given.settings)
    options = AgentOptions(url=url, configuration=given.settings, verbose=given.verbose)
    options.parts()
    if given.print_config:
        print_configuration(options.configuration)
    elif (workers := given.settings.make(places.Workers).workers) > 1:
        with Supervisor() as supervisor:
            arguments = [f"--control={control}", *options.arguments()]
            start_workers(supervisor, arguments, options.listeners(), workers)
    else:
        place = ControlPlace(control, options.configuration.make(ControlTlsSettings))
        run(partial(_agent, options, place))


def _store_url(settings: Configuration) -> str:
    named = named_store(settings)
    objects = settings.make(places.ObjectsFolder).objects
    if bool(named) == bool(objects):
        problem = "more than one place" if named else "no place"
        fail(f"{problem} for the records was specified: use one of --bucket, --objects and --store")
    return with_given_keys(settings, named or folder_url(Path(objects)))


async def _agent(options: AgentOptions, control: ControlPlace) -> None:
    observed = Observed(STARTING)
    async with endpoint_served(options.health, observed, siblings()):
        await _serve(options, control, observed)


async def _serve(options: AgentOptions, control: ControlPlace, observed: Observed) -> None:
    store = await open_when_there(options.url, create_bucket=options.creates_bucket)
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
                whereabouts=Whereabouts(control, options.url),
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
