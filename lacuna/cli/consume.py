"""`lacuna consume`: prints the records of topics."""

import asyncio
import os
import re
import select
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from lacuna.agent.clock import SystemWallClock
from lacuna.cli.command_line import argument, option
from lacuna.cli.configuration import is_typed
from lacuna.cli.console import err, out, print_line
from lacuna.cli.errors import INTERRUPTED, fail, print_error
from lacuna.cli.location import locate
from lacuna.cli.options import JobPlace
from lacuna.cli.records.points import parse_at, parse_from, parse_until
from lacuna.cli.units import show_count, show_size
from lacuna.operating.points import Kind, Point

if TYPE_CHECKING:
    from lacuna.cli.records.finding import OffsetRange
    from lacuna.cli.records.reading import Reading

_ISOLATIONS: Final = ("committed", "uncommitted")
#: Where a group without commits begins, in Kafka's terms.
_RESETS: Final = {"earliest": "earliest", "end": "latest"}
_RATE_SECONDS: Final = 2.0


def _isolation(text: str) -> str:
    level = text.removeprefix("read_")
    if level not in _ISOLATIONS:
        raise click.BadParameter(
            f"{text!r} is not an isolation level: choose {' or '.join(_ISOLATIONS)}"
        )
    return level


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    topics: Annotated[
        list[str],
        argument(
            help="Names of topics, or patterns such as 'orders-*'. With --output, one topic followed "
            "by the file to write."
        ),
    ]
    begin: Annotated[
        str,
        option(
            "--from",
            metavar="WHERE",
            help="Where to begin in each partition: earliest, end, end-100, an offset, a time such as 2026-11-26T13:00 "
            "(local time unless it includes a time zone), or 10m for ten minutes ago.",
        ),
    ] = "earliest"
    until: Annotated[
        str,
        option(
            metavar="WHERE",
            help="Where to stop: never, end (the current end of each partition), an offset or a time. The record "
            "at that point is not printed.",
        ),
    ] = "never"
    at: Annotated[
        str | None,
        option(
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
    key: Annotated[
        str | None,
        option(
            "--key",
            "-k",
            metavar="REGEX",
            help="Only records whose key contains a match for this regular expression: '^order-7$'.",
        ),
    ] = None
    value: Annotated[
        str | None,
        option(
            metavar="REGEX",
            help="Only records whose value contains a match for this regular expression.",
        ),
    ] = None
    follow: Annotated[
        bool,
        option("--follow", "-F", help="Begin at the end, and show the rates on standard error."),
    ] = False
    group: Annotated[
        str | None,
        option(
            "--group",
            "-g",
            metavar="ID",
            help="Read as a member of this group, starting at its committed offsets, and commit the "
            "offsets of printed records.",
        ),
    ] = None
    isolation: Annotated[
        str,
        option(
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
            help=r"Output per record, with kcat's placeholders: %t topic, %p partition, %o offset, %k key, %s value, "
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
            help='Print each record as a JSON object on one line. Bytes that are not UTF-8 become {"base64": TEXT}.',
        ),
    ] = False
    output: Annotated[
        str | None,
        option(
            "--output",
            "-o",
            parser=click.Choice(("parquet", "arrow", "csv")),
            help="Write the records to FILE in this format, straight from the bucket, up to "
            "the current end. CSV can represent neither headers nor bytes that are not text.",
        ),
    ] = None
    place: JobPlace


def consume(given: Given) -> None:
    """Prints the records of topics, from one offset or time to another.

    Without options, the command prints the value of each committed record on a line of its own, and continues with new
    records until Ctrl-C. It joins no group and commits no offsets unless --group is given. With --at, it stops where
    each topic ended at that time. With --key and --value, it prints only the records that match both expressions, and
    --count counts only these. With --output, it writes the records of one topic to a file instead.
    """
    if given.output is not None:
        _save(given, given.output)
        return
    try:
        from lacuna.cli.records.reading import Reading
    except ImportError:
        fail("consume needs a Kafka client: pip install 'lacuna-log[demo]'")
    render = _rendering(given)
    reading = Reading(
        bootstrap=given.place.bootstrap,
        committed=given.isolation == "committed",
        most=given.count,
        keep=_filter(given),
        tell=print_error,
    )
    portions = _portions(given, reading)
    if given.follow:
        portions = _with_rates(portions)
    try:
        _print(render(portion) for portion in portions)
    except BrokenPipeError:
        # Python's own flush on exit would fail again, with a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        if given.until == "never" and given.at is None and given.count is None:
            raise click.exceptions.Exit(INTERRUPTED) from None  # Ctrl-C is the usual end
        raise


def _save(given: Given, output: str) -> None:
    """Write the records to a file, and print their number. Raises UserError, PipelineError."""
    if len(given.topics) != 2:
        fail("--output needs one topic and a file: lacuna consume TOPIC --output parquet FILE")
    topic, file = given.topics[0], Path(given.topics[1])
    try:
        from lacuna.cli.records.saving import point_of, save
        from lacuna.pipeline.reading import Query, Source, reader_of
    except ModuleNotFoundError:
        fail("consume --output needs pyarrow: pip install 'lacuna-log[arrow]'")
    start, end = _bounds(given, is_follow=False)
    query = Query.of(
        topic,
        start=point_of(start),
        end=point_of(end),
        as_of=end.value if end.kind is Kind.PAST else None,
        partitions=given.partition,
        headers=output != "csv",
        isolation=given.isolation,
    )
    reader = reader_of(Source(locate(given.place, needs_control=given.place.store is None)), query)
    from lacuna.cli.progress import offsets_done

    with offsets_done() as bar:
        bar.stage("records written")
        count = save(reader, output, file, given.count, written=bar.advance)
    print_line(f"{show_count(count, 'record')} in {file}")


def _portions(given: Given, reading: "Reading") -> Iterator[list[Any]]:
    from lacuna.cli.records.finding import NEVER, find, topics_like
    from lacuna.cli.records.reading import read, read_as_member

    context = click.get_current_context()
    topics = asyncio.run(topics_like(given.place.bootstrap, given.topics))
    if given.group is not None:
        for name, option_name in (
            ("until", "--until"),
            ("at", "--at"),
            ("partition", "--partition"),
        ):
            if is_typed(context, name):
                fail(f"--group and {option_name} both define what is read: use only one of them")
        begin = "end" if given.follow and not is_typed(context, "begin") else given.begin
        if begin not in _RESETS:
            fail(f"--from {begin}: a group begins at its committed offsets, or at earliest or end")
        return read_as_member(reading, given.group, topics, _RESETS[begin])
    start, end = _bounds(given, is_follow=given.follow and not is_typed(context, "begin"))

    async def wanted() -> list[Any]:
        found = []
        for topic in topics:
            found += await find(
                given.place.bootstrap,
                topic,
                given.partition or (),
                start,
                end,
                committed=reading.committed,
            )
        return found

    ranges = asyncio.run(wanted())
    is_bounded = all(each.stop < NEVER for each in ranges)
    # If the output goes into a pipe, the program that reads it may print to the bar's terminal.
    is_quiet = _goes_to_a_file() or (out.is_terminal and reading.keep is not None)
    if is_bounded and err.is_terminal and is_quiet:
        return _with_bar(reading, ranges)
    return read(reading, ranges)


def _goes_to_a_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:  # for example, a program has replaced the stream
        return False


def _with_bar(reading: "Reading", ranges: "Sequence[OffsetRange]") -> Iterator[list[Any]]:
    """Show a progress bar while records go to a file or a search prints few of them."""
    from lacuna.cli.progress import offsets_done
    from lacuna.cli.records.reading import read

    with offsets_done() as bar:
        bar.stage("offsets read")
        bar.expect(sum(max(each.stop - max(each.start, each.first), 0) for each in ranges))
        for portion in read(replace(reading, pass_over=bar.advance), ranges):
            if portion and out.is_terminal:
                bar.hide()
            yield portion


def _filter(given: Given) -> Callable[[Any], bool] | None:
    """Return a predicate for the records to print, or None to print all of them. Raises UserError."""
    key, value = _expression(given.key, "--key"), _expression(given.value, "--value")
    if key is None and value is None:
        return None
    return lambda record: _finds(key, record.key()) and _finds(value, record.value())


def _expression(text: str | None, what: str) -> "re.Pattern[bytes] | None":
    try:
        return None if text is None else re.compile(text.encode(errors="surrogateescape"))
    except re.error as error:
        fail(f"{what} {text}: this is not a regular expression: {error}")


def _finds(expression: "re.Pattern[bytes] | None", text: bytes | None) -> bool:
    return expression is None or (text is not None and expression.search(text) is not None)


def _with_rates(portions: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """Periodically print the number of records and bytes per second to standard error."""
    began, records, size = time.monotonic(), 0, 0
    for portion in portions:
        records += len(portion)
        size += sum(len(each) for each in portion)
        yield portion
        if (passed := time.monotonic() - began) >= _RATE_SECONDS:
            rates = f"{records / passed:.1f} records/s, {show_size(int(size / passed))}/s"
            err.print(rates, style="dim", soft_wrap=True)
            began, records, size = time.monotonic(), 0, 0


def _rendering(given: Given) -> Callable[[Any], bytes]:
    from lacuna.cli.records.formats import parse_format, render_json

    if given.as_json and is_typed(click.get_current_context(), "format"):
        fail("--json and --format both define the output: use only one of them")
    if given.as_json:
        return render_json
    return parse_format(given.format, b"NULL" if given.null else b"")


def _bounds(given: Given, *, is_follow: bool) -> tuple[Point, Point]:
    """Return the points at which to begin and to stop. Raises UserError."""
    now_ms = SystemWallClock().now_ms()
    start = Point(Kind.END) if is_follow else parse_from(given.begin, now_ms)
    end = parse_until(given.until, now_ms)
    if given.at is not None:
        _check_past(given.until, committed=given.isolation == "committed")
        end = Point(Kind.PAST, parse_at(given.at, now_ms))
    return start, end


def _check_past(until: str, *, committed: bool) -> None:
    if until != "never":
        fail("--at and --until both define the end: use only one of them")
    if not committed:
        fail("--at shows only what a read_committed consumer could see: omit --isolation")


def _print(outputs: Iterable[bytes]) -> None:
    """Print each output immediately. Raises BrokenPipeError once the reader has gone, even without output."""
    stream = sys.stdout.buffer
    readers = select.poll()
    readers.register(stream, 0)  # even with no events, a closed reader is reported
    for output in outputs:
        if output:
            stream.write(output)
            stream.flush()
        elif any(event & select.POLLERR for _, event in readers.poll(0)):
            raise BrokenPipeError
