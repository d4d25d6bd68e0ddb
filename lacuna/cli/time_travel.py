"""`lacuna time-travel`: the records of a topic that a read_committed consumer could see at a past time."""

from typing import Annotated

from lacuna.agent.clock import SystemWallClock
from lacuna.cli.command_line import argument, option
from lacuna.cli.console import asynchronous, table
from lacuna.cli.options import AskedPlace
from lacuna.cli.records.points import parse_at
from lacuna.controlplane.client.times import show_time
from lacuna.operating.control import open_control
from lacuna.operating.travel import travel


@asynchronous
async def time_travel(
    topic: Annotated[str, argument(help="Name of the topic.")],
    at: Annotated[
        str,
        option(
            metavar="TIME",
            help="A time such as 2026-11-26T13:00 (local time unless it includes a time "
            "zone), milliseconds since 1970, or -15m for fifteen minutes ago.",
        ),
    ],
    place: AskedPlace,
) -> None:
    """Shows the records of a topic that a read_committed consumer could see at a past time, and counts newer ones.

    Each row shows a partition: its end at that time and now, the number of its records that still exist, and the number
    that have become visible since then. All rows show the same time. The last few minutes are known to the second,
    earlier times less precisely. As for any consumer, a transaction that was committed by then can be visible in one
    partition but not in another, where another producer's transaction was still open. The command queries the control
    plane through an agent. `lacuna consume --at` prints the records.
    """
    at_ms = parse_at(at, SystemWallClock().now_ms())
    async with open_control(place.control, place.data, place.bootstrap) as client:
        partitions = await travel(client, topic, at_ms)
    table(
        ("partition", "as of", "log start", "end then", "end now", "records left", "records since"),
        (
            (
                each.partition,
                show_time(each.as_of_ms),
                each.log_start_offset,
                each.end_then,
                each.end_now,
                each.left,
                each.new,
            )
            for each in partitions
        ),
    )
