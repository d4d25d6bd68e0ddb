"""`lacuna produce`: writes lines or files to a topic."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from lacuna.cli.command_line import argument, option
from lacuna.cli.console import err, print_line, table
from lacuna.cli.errors import INTERRUPTED, fail, print_error
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.cli.units import show_count

if TYPE_CHECKING:
    from lacuna.cli.records.input import Record
    from lacuna.cli.records.writing import Writer

_LINES, _JSON = "lines", "json"
_FORMATS: Final = (_LINES, _JSON)
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_TRANSACTIONS: Final = "Transactions"


def _codec(text: str) -> str:
    if text not in _CODECS:
        raise click.BadParameter(f"{text!r} is not a codec: choose one of {', '.join(_CODECS)}")
    return text


def _input_format(text: str) -> str:
    if text not in _FORMATS:
        raise click.BadParameter(f"{text!r} is not a format: choose {' or '.join(_FORMATS)}")
    return text


_Topic = Annotated[str, argument(help="Name of the topic.")]
_KeySeparator = Annotated[
    str | None,
    option(
        "--key-separator",
        "-K",
        metavar="SEP",
        help=r"The separator between key and value, for example : or \t. Lines without the separator have no key.",
    ),
]
_Partition = Annotated[
    int | None,
    option(
        "--partition",
        "-p",
        min=0,
        max=(1 << 31) - 1,
        help="The partition. Default: chosen by the key's hash, as in Kafka's own clients, or any "
        "partition if there is no key.",
    ),
]
_Headers = Annotated[
    list[str] | None,
    option(
        "--header",
        "-H",
        metavar="NAME=VALUE",
        help="A header for every record, NAME=VALUE. May be repeated.",
    ),
]
_Null = Annotated[
    bool,
    option(
        "--null",
        "-Z",
        help="Write an empty value as null, which deletes the key in a compacted topic.",
    ),
]
_Compression = Annotated[
    str,
    option("--compression", "-z", parser=_codec, metavar="|".join(_CODECS), help="The codec."),
]
_TransactionalId = Annotated[
    str | None,
    option(
        metavar="ID",
        help="Write all lines in one transaction of this producer, and commit it at the end.",
        panel=_TRANSACTIONS,
    ),
]
_Abort = Annotated[
    bool, option(help="Abort the transaction instead of committing it.", panel=_TRANSACTIONS)
]
_InputFormat = Annotated[
    str,
    option(
        "--format",
        "-f",
        parser=_input_format,
        metavar="|".join(_FORMATS),
        help="lines: a line is a value; json: a line is an object with key, value, headers, partition, timestamp.",
    ),
]
_Files = Annotated[
    list[Path] | None,
    option(metavar="FILE", help="Read this file instead of standard input. May be repeated."),
]
_Whole = Annotated[bool, option(help="Write each file as one record.")]
_RecordsPerTransaction = Annotated[
    int | None,
    option(
        min=1,
        metavar="N",
        help="End the transaction after every N records, and begin another.",
        panel=_TRANSACTIONS,
    ),
]


def produce(
    topic: _Topic,
    key_separator: _KeySeparator = None,
    partition: _Partition = None,
    header: _Headers = None,
    null: _Null = False,
    compression: _Compression = "none",
    transactional_id: _TransactionalId = None,
    abort: _Abort = False,
    input_format: _InputFormat = _LINES,
    file: _Files = None,
    whole: _Whole = False,
    records_per_transaction: _RecordsPerTransaction = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    r"""Writes lines from standard input or from files to a topic, one record per line.

    Lines may contain any bytes; the \n at the end of a line is not part of the record. With --format json, each line is
    an object with a value and, optionally, a key, headers, a partition and a timestamp, in the form that `lacuna
    consume --json` prints. Values that are not text may be {"base64": TEXT} or any JSON. At the end, the command prints
    the number of records written to each partition. If a record is rejected, the command stops with exit code 1; Ctrl-C
    aborts the open transaction.
    """
    try:
        from lacuna.cli.records.formats import unescape
        from lacuna.cli.records.writing import Writer, find_limit
    except ImportError:
        fail("produce needs a Kafka client: pip install 'lacuna-log[demo]'")
    if whole and not file:
        fail("--whole needs files: specify them with --file")
    if input_format == _JSON and (key_separator is not None or null or whole):
        fail("JSON lines have their own keys and nulls: omit --key-separator, --null and --whole")
    if transactional_id is None and (abort or records_per_transaction is not None):
        name = "--abort" if abort else "--records-per-transaction"
        fail(f"{name} needs a transaction: add --transactional-id")
    separator = None if key_separator is None else unescape(key_separator, "--key-separator")
    headers = [_header(each) for each in header or ()]
    _check_name(transactional_id or "", "--transactional-id")
    writer = Writer(
        bootstrap,
        topic,
        limit=asyncio.run(find_limit(bootstrap, topic, partition)),
        partition=partition,
        headers=headers,
        compression=compression,
        transactional_id=transactional_id,
        most=records_per_transaction,
        aborts=abort,
    )
    records = _records(file or (), separator, null, input_format, whole)
    _write(writer, records, is_typed=not file and sys.stdin.isatty())
    if transactional_id is not None:
        done = "aborted" if abort else "committed"
        print_line(f"{done} {show_count(writer.transactions, 'transaction')} of {transactional_id}")
    _show(topic, writer)


def _write(writer: "Writer", records: "Iterator[Record]", *, is_typed: bool) -> None:
    """Write all records. On Ctrl-C, print what became of them and raise Exit."""
    if is_typed:
        err.print("Enter one record per line; press Ctrl-D to finish.", style="dim")
    with writer:
        try:
            for record in records:
                writer.write(record)
            writer.finish()
        except KeyboardInterrupt:
            print_error(_stopped(writer))
            raise click.exceptions.Exit(INTERRUPTED) from None


def _show(topic: str, writer: "Writer") -> None:
    table(
        ("topic", "partition", "records", "first offset", "last offset"),
        (
            (topic, number, each.records, each.first, each.last)
            for number, each in sorted(writer.written.items())
        ),
    )


def _records(
    files: Sequence[Path], separator: bytes | None, null: bool, format_: str, whole: bool
) -> "Iterator[Record]":
    from lacuna.cli.records.input import json_records, lines_of, plain_records, whole_files

    if whole:
        return whole_files(files)
    if format_ == _JSON:
        return json_records(lines_of(files))
    return plain_records(lines_of(files), separator, null=null)


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        fail(f"--header {text}: use NAME=VALUE, for example source=shop")
    _check_name(name, "--header")
    return name, value.encode(errors="surrogateescape")


def _check_name(name: str, what: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        fail(f"{what} {name!r} is not UTF-8, so it cannot be a name in Kafka: choose another")


def _stopped(writer: "Writer") -> str:
    """End the writer after Ctrl-C, and return a line about what became of the records."""
    before = writer.transactions
    aborted = writer.abandon()
    if aborted:
        ended = f"{show_count(before, 'earlier transaction')} ended before that" if before else ""
        line = f"stopped: aborted the open transaction of {show_count(aborted, 'record')}"
        return f"{line}; {ended}" if ended else line
    return f"stopped: {show_count(writer.records, 'record')} arrived"
