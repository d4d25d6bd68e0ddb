"""`lacuna consume`: prints the records of a topic."""

import asyncio
import os
import select
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import click

from lacuna.agent.clock import SystemWallClock
from lacuna.cli.command_line import argument, option
from lacuna.cli.configuration import is_typed
from lacuna.cli.console import print_line
from lacuna.cli.errors import INTERRUPTED, fail, print_error
from lacuna.cli.location import locate
from lacuna.cli.options import JobPlace
from lacuna.cli.records.points import Kind, Point, parse_at, parse_from, parse_until
from lacuna.cli.units import show_count

_ISOLATIONS: Final = ("committed", "uncommitted")


def _isolation(text: str) -> str:
    level = text.removeprefix("read_")
    if level not in _ISOLATIONS:
        raise click.BadParameter(f"{text!r} is not a level: write {' or '.join(_ISOLATIONS)}")
    return level


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options of `lacuna consume`."""

    topic: Annotated[str, argument(help="Name of the topic.", show_default=False)]
    begin: Annotated[
        str,
        option(
            "--from",
            metavar="WHERE",
            help="Where to begin in each partition: earliest, end, end-100, an offset, a time such as "
            "2026-11-26T13:00 (local time unless it names a zone), or 10m for ten minutes ago.",
        ),
    ] = "earliest"
    until: Annotated[
        str,
        option(
            "--until",
            metavar="WHERE",
            help="Where to stop: never, end (the present end of each partition), an offset or a time. The record "
            "at that point is not printed.",
        ),
    ] = "never"
    at: Annotated[
        str | None,
        option(
            "--at",
            metavar="TIME",
            help="Print the records that a read_committed consumer could see at this time, and stop: 2026-11-26T13:00, "
            "milliseconds since 1970, or -15m for fifteen minutes ago.",
        ),
    ] = None
    partition: Annotated[
        list[int] | None,
        option(
            "--partition",
            "-p",
            min=0,
            max=(1 << 31) - 1,
            help="Only this partition. May be repeated.",
        ),
    ] = None
    count: Annotated[
        int | None, option("--count", "-c", min=1, help="Stop after this many records.")
    ] = None
    isolation: Annotated[
        str,
        option(
            "--isolation",
            parser=_isolation,
            metavar="|".join(_ISOLATIONS),
            help="committed: omit records of open and aborted transactions; uncommitted: print them too.",
        ),
    ] = "committed"
    format: Annotated[
        str,
        option(
            "--format",
            "-f",
            help=r"Output for a record, with kcat's placeholders: %t topic, %p partition, %o offset, %k key, %s value, "
            r"%K and %S their sizes (-1 for null), %R the size of the value as four bytes, big-endian, %T timestamp in "
            r"milliseconds, %h headers, %%, \n, \t, \0, \xHH.",
        ),
    ] = r"%s\n"
    null: Annotated[
        bool,
        option(
            "--null",
            "-Z",
            help="Print NULL for keys and values that are null, as kcat does, instead of nothing.",
        ),
    ] = False
    as_json: Annotated[
        bool,
        option(
            "--json",
            help='Print one JSON object per line for each record. Bytes that are not UTF-8 become {"base64": TEXT}.',
        ),
    ] = False
    output: Annotated[
        str | None,
        option(
            "--output",
            "-o",
            parser=click.Choice(("parquet", "arrow", "csv")),
            help="Write the records to FILE in this format, straight from the bucket, up to the present end. CSV has "
            "neither headers nor bytes that are no text.",
        ),
    ] = None
    file: Annotated[
        Path | None, argument(help="The file to write with --output.", show_default=False)
    ] = None
    place: JobPlace


def consume(given: Given) -> None:
    """Prints the records of a topic, from one offset or time until another.

    Without options, it prints the value of each committed record, one per line, and then of each new record, until
    Ctrl-C. It joins no group and commits no offsets. With --at, it stops where the topic ended at that time.
    --output writes them to a file instead.
    """
    if given.output is not None or given.file is not None:
        _save(given)
        return
    try:
        from lacuna.cli.records.finding import find
        from lacuna.cli.records.reading import read
    except ImportError:
        fail("consume needs a Kafka client: pip install 'lacuna-log[demo]'")
    render = _rendering(given)
    start, end = _bounds(given)
    committed = given.isolation == "committed"
    wanted = asyncio.run(
        find(
            given.place.bootstrap,
            given.topic,
            given.partition or (),
            start,
            end,
            committed=committed,
        )
    )
    portions = read(
        given.place.bootstrap,
        given.topic,
        wanted,
        committed=committed,
        most=given.count,
        tell=print_error,
    )
    try:
        _print(render(portion) for portion in portions)
    except BrokenPipeError:
        # Python's own flush at the end would fail again, with a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        if end.kind is Kind.NEVER and given.count is None:
            raise click.exceptions.Exit(INTERRUPTED) from None  # Ctrl-C is the usual end
        raise


def _save(given: Given) -> None:
    """Writes the records to a file, and prints how many there are. Raises UserError, PipelineError."""
    if given.output is None or given.file is None:
        fail("--output needs a file: lacuna consume TOPIC --output parquet FILE")
    try:
        from lacuna.cli.records.saving import point_of, save
        from lacuna.pipeline.reading import Query, Source, reader_of
    except ModuleNotFoundError:
        fail("consume --output needs pyarrow: pip install 'lacuna-log[arrow]'")
    start, end = _bounds(given)
    query = Query.of(
        given.topic,
        start=point_of(start),
        end=point_of(end),
        as_of=end.value if end.kind is Kind.PAST else None,
        partitions=given.partition,
        headers=given.output != "csv",
        isolation=given.isolation,
    )
    reader = reader_of(Source(locate(given.place)), query)
    count = save(reader, given.output, given.file, given.count)
    print_line(f"{show_count(count, 'record')} in {given.file}")


def _rendering(given: Given) -> Callable[[Any], bytes]:
    """Return the function that formats records. Raises UserError."""
    from lacuna.cli.records.formats import parse_format, render_json

    if given.as_json and is_typed(click.get_current_context(), "format"):
        fail("--json and --format both define the output: leave one of them out")
    if given.as_json:
        return render_json
    return parse_format(given.format, b"NULL" if given.null else b"")


def _bounds(given: Given) -> tuple[Point, Point]:
    """Return where to begin and where to stop. Raises UserError."""
    now_ms = SystemWallClock().now_ms()
    start, end = parse_from(given.begin, now_ms), parse_until(given.until, now_ms)
    if given.at is not None:
        _check_past(given.until, committed=given.isolation == "committed")
        end = Point(Kind.PAST, parse_at(given.at, now_ms))
    return start, end


def _check_past(until: str, *, committed: bool) -> None:
    if until != "never":
        fail("--at and --until both define the end: leave one of them out")
    if not committed:
        fail("--at shows only what a read_committed consumer could see: leave --isolation out")


def _print(outputs: Iterable[bytes]) -> None:
    """Prints each output at once. Raises BrokenPipeError once the reader has gone, even while there is no output."""
    stream = sys.stdout.buffer
    readers = select.poll()
    readers.register(stream, 0)  # no events but the closed other end, which is always reported
    for output in outputs:
        if output:
            stream.write(output)
            stream.flush()
        elif any(event & select.POLLERR for _, event in readers.poll(0)):
            raise BrokenPipeError
