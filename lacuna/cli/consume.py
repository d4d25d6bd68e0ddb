"""`lacuna consume`: prints the records of a topic."""

import asyncio
import os
import select
import sys
from collections.abc import Iterable
from typing import Annotated, Final

import click

from lacuna.agent.clock import SystemWallClock
from lacuna.cli.command_line import argument, option
from lacuna.cli.errors import INTERRUPTED, fail, print_error
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, is_typed

_ISOLATIONS: Final = ("committed", "uncommitted")


def _isolation(text: str) -> str:
    level = text.removeprefix("read_")
    if level not in _ISOLATIONS:
        raise click.BadParameter(f"{text!r} is no level: give {' or '.join(_ISOLATIONS)}")
    return level


def consume(
    context: click.Context,
    topic: Annotated[str, argument(help="Name of the topic.", show_default=False)],
    begin: Annotated[
        str,
        option(
            "--from",
            metavar="WHERE",
            help="Where to begin in each partition: earliest, end, end-100, an offset, a time such as "
            "2026-11-26T13:00 (local time unless it names a zone), or 10m for ten minutes ago.",
        ),
    ] = "earliest",
    until: Annotated[
        str,
        option(
            "--until",
            metavar="WHERE",
            help="Where to stop: never, end (the present end of each partition), an offset or a time. The record "
            "there is not printed.",
        ),
    ] = "never",
    at: Annotated[
        str | None,
        option(
            "--at",
            metavar="TIME",
            help="Print what a read_committed consumer could see at this time, and stop: 2026-11-26T13:00, "
            "milliseconds since 1970, or -15m for fifteen minutes ago.",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        option(
            "--partition",
            "-p",
            min=0,
            max=(1 << 31) - 1,
            help="Only this partition. May be repeated.",
        ),
    ] = None,
    count: Annotated[
        int | None, option("--count", "-c", min=1, help="Stop after this many records.")
    ] = None,
    isolation: Annotated[
        str,
        option(
            "--isolation",
            parser=_isolation,
            metavar="|".join(_ISOLATIONS),
            help="Print records of committed transactions only, or of all.",
        ),
    ] = "committed",
    format: Annotated[  # noqa: A002 - named after its option
        str,
        option(
            "--format",
            "-f",
            help=r"What to print of each record, as in kcat: %t topic, %p partition, %o offset, %k key, %s value, "
            r"%K and %S their sizes (-1 for null), %R that of the value as four bytes, big-endian, %T timestamp in "
            r"milliseconds, %h headers, %%, \n, \t, \0, \xHH.",
        ),
    ] = r"%s\n",
    null: Annotated[
        bool,
        option(
            "--null",
            "-Z",
            help="Print NULL for keys and values that are null, as kcat does, instead of nothing.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        option(
            "--json",
            help='Print a JSON object for each record, one a line. Bytes that are not UTF-8 become {"base64": TEXT}.',
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Prints the records of a topic, from one offset or time until another.

    Without options, it prints the value of each committed record, one per line, and then of each new record, until
    Ctrl-C. It joins no group and commits no offsets. With --at, it stops where the topic ended at that time.
    """
    try:
        from lacuna.cli.records.finding import find
        from lacuna.cli.records.formats import parse_format, render_json
        from lacuna.cli.records.points import Kind, Point, parse_at, parse_from, parse_until
        from lacuna.cli.records.reading import read
    except ImportError:
        fail("consume needs a Kafka client: pip install 'lacuna-log[demo]'")
    if as_json and is_typed(context, "format"):
        fail("--json prints objects, without a --format: give one of the two")
    render = render_json if as_json else parse_format(format, b"NULL" if null else b"")
    now_ms = SystemWallClock().now_ms()
    start, end = parse_from(begin, now_ms), parse_until(until, now_ms)
    committed = isolation == "committed"
    if at is not None:
        _check_past(until, committed=committed)
        end = Point(Kind.PAST, parse_at(at, now_ms))
    wanted = asyncio.run(find(bootstrap, topic, partition or (), start, end, committed=committed))
    portions = read(bootstrap, topic, wanted, committed=committed, most=count, tell=print_error)
    try:
        _print(render(portion) for portion in portions)
    except BrokenPipeError:
        # Python's own flush at the end would fail again, and say so.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        if end.kind is Kind.NEVER and count is None:
            raise click.exceptions.Exit(INTERRUPTED) from None  # this is how it ends
        raise


def _check_past(until: str, *, committed: bool) -> None:
    if until != "never":
        fail("--at ends where the topic ended then, without an --until: give one of the two")
    if not committed:
        fail("--at shows what a read_committed consumer could see: leave out --isolation")


def _print(outputs: Iterable[bytes]) -> None:
    """Prints each output at once. Raises BrokenPipeError when nobody reads any more, also while there are none."""
    stream = sys.stdout.buffer
    readers = select.poll()
    readers.register(
        stream, 0
    )  # asks for nothing but what is always told: that the other end is closed
    for output in outputs:
        if output:
            stream.write(output)
            stream.flush()
        elif any(event & select.POLLERR for _, event in readers.poll(0)):
            raise BrokenPipeError
