"""`lacuna doctor`: shows how a Kafka client behaves here, according to the last run of the client matrix."""

from typing import Annotated

import click
from rich.markup import escape

from lacuna.cli.command_line import option
from lacuna.cli.console import (
    is_for_people,
    is_for_programs,
    out,
    print_collected,
    table,
    tell,
)
from lacuna.cli.errors import fail
from lacuna.operating.clients import Client, ClientQuery, known_names, load, nearest, parse

_SAYS = {
    "same": "as with Kafka",
    "right": "correct, where Kafka is not",
    "as Kafka": "fails as with Kafka",
    "unsupported": "the client has no such feature",
    "differs": "DIFFERS from Kafka",
}


def doctor(
    client: Annotated[
        str | None,
        option(
            "--client",
            "-c",
            help="A Kafka client, NAME or NAME@VERSION. Without it, all tested clients are shown.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Shows how a Kafka client behaves with Lacuna, compared with Kafka.

    Each client in the list did the same work with Lacuna and with Apache Kafka: transactions, aborted ones, holes,
    groups. For a version that was not tested, the nearest tested ones are shown. The exit code is 1 if the client is
    not in the list or behaves differently than with Kafka. If the output is not a terminal, the columns are separated
    by tabs.
    """
    clients = load()
    if client is None:
        _list(clients)
        print_collected()
        return
    asked = parse(client)
    found = nearest(clients, asked)
    _tell(asked, found)
    print_collected()
    if any(one.differing for one in found):
        raise click.exceptions.Exit(1)


def _list(clients: list[Client]) -> None:
    rows = ((one.name, one.version, one.language, one.summary) for one in clients)
    table(("client", "version", "language", "here"), rows, title="Tested clients")


def _tell(asked: ClientQuery, found: list[Client]) -> None:
    """Shows the results of the nearest versions. Raises UserError for an unknown client."""
    if not found:
        known = ", ".join(known_names(load()))
        fail(
            f"{asked.name} was not tested, so nothing is known about it; the tested clients are {known}"
        )
    for one in found:
        _show(one, is_it=asked.is_of(one))


def _show(one: Client, *, is_it: bool) -> None:
    nearest_to = "" if is_it else " (the nearest version tested)"
    title = f"{one.name} {one.version}{nearest_to}, beside Kafka {one.kafka}: {one.summary}"
    rows = ((name, _SAYS[cell.outcome], cell.what) for name, cell in one.cells.items())
    if one.cells or is_for_programs():
        if not is_for_people():
            tell(title)
        table(("scenario", "here", "notes"), rows, title=title, name=f"{one.name} {one.version}")
    else:
        tell(title)
    for label, text in (("note", one.notes), ("advice", one.advice)):
        if text and is_for_people():
            out.print(f"[bold]{label}[/bold]  {escape(text)}", soft_wrap=True)
        elif text and not is_for_programs():
            click.echo(f"{label}\t{text}")
