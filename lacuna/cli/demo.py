"""`lacuna demo`: runs two scenarios, and shows which records each isolation level returns and why."""

import asyncio
import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rich.panel import Panel
from rich.table import Table

from lacuna.cli.console import out
from lacuna.cli.errors import fail
from lacuna.cli.explain import print_explanation
from lacuna.cli.options import OptionalBootstrap
from lacuna.operating.agents import AgentParts
from lacuna.operating.explained import Explanation, explain_partition
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.operating.relayed import relayed
from lacuna.testing import Cluster

if TYPE_CHECKING:
    from lacuna.operating.demo import Scenario


def demo(bootstrap: OptionalBootstrap = None) -> None:
    """Uses a real Kafka client to show what aborted transactions mean for a consumer.

    First, three producers take turns writing to one partition: one aborts its transaction, one writes without a
    transaction, and one commits. Then a whole range of records is aborted. The output shows which records each
    isolation level reads, and why. Every claim is checked: the exit code is 1 if a claim does not hold. The demo needs
    no setup and takes a few seconds.
    """
    try:
        from confluent_kafka import KafkaException

        from lacuna.cli.records.librdkafka_errors import explain_error
        from lacuna.operating.demo import SCENARIOS
    except ImportError:
        fail("the demo needs a Kafka client: pip install 'lacuna-log[demo]'")
    if bootstrap is not None:
        asyncio.run(_reach(bootstrap))
    suffix = secrets.token_hex(3)
    with ExitStack() as stack:
        address = bootstrap or Agents(stack.enter_context(_throw_away()).bootstrap)
        for run in SCENARIOS:
            try:
                scenario = run(address, suffix)
            except KafkaException as error:
                fail(f"the client failed: {explain_error(error.args[0])}")
            _show(scenario, asyncio.run(_explain(address, scenario.topic)))
    out.print(
        "Every claim above was checked against the records that the client read.",
        style="bold green",
    )


def _throw_away() -> Cluster:
    """Return a temporary cluster that does not merge, so that dropped extents stay visible until the demo ends."""
    return Cluster(parts=AgentParts(housekeeping=None))


async def _reach(bootstrap: Agents) -> None:
    """Raises BootstrapUnavailable immediately if no agent answers. librdkafka would try for half a minute."""
    async with KafkaConnection(bootstrap):
        return


async def _explain(agents: Agents, topic: str) -> Explanation:
    async with relayed(agents) as client:
        return await explain_partition(client, topic, 0)


def _show(scenario: "Scenario", explanation: Explanation) -> None:
    out.print(Panel("\n".join(scenario.story), title=scenario.title, title_align="left"))
    committed = dict(scenario.committed.records)
    readings = Table(header_style="bold")
    for heading in ("offset", "read_uncommitted", "read_committed"):
        readings.add_column(heading)
    for offset, value in scenario.uncommitted.records:
        kept = committed.get(offset)
        readings.add_row(str(offset), value, "[dim]-[/dim]" if kept is None else kept)
    readings.add_row(
        "[dim]continues at[/dim]",
        f"[dim]{scenario.uncommitted.position}[/dim]",
        f"[dim]{scenario.committed.position}[/dim]",
    )
    out.print("The records that each client reads", style="bold")
    out.print(readings)
    print_explanation(explanation)
