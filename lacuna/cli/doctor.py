"""`lacuna doctor`: shows how a Kafka client behaves with Lacuna, according to the last run of the client matrix."""

from typing import Annotated

import click
from rich.markup import escape

from lacuna.cli.command_line import option
from lacuna.cli.console import is_for_people, is_for_programs, out, print_line, table
from lacuna.cli.errors import fail
from lacuna.operating.clients import Client, ClientQuery, known_names, load, nearest, parse

_SAYS = {
    "same": "as with Kafka",
    "right": "correct, unlike with Kafka",
    "as Kafka": "fails, as it does with Kafka",
    "unsupported": "the client does not have this feature",
    "differs": "DIFFERS from Kafka",
}


def doctor(
    client: Annotated[
        str | None,
        option(
            "--client",
            "-c",
            help="A Kafka client, NAME or NAME@VERSION. By default, all tested clients are shown.",
        ),
    ] = None,
) -> None:
    """Shows how a Kafka client behaves with Lacuna, compared with Kafka.

    Each client in the list was tested with Lacuna and with Apache Kafka, using committed and aborted transactions,
    holes, and groups. For a version that was not tested, the nearest tested versions are shown. The exit code is 1 if
    the client is not in the list or behaves differently with Lacuna than with Kafka. If the output is not a terminal,
    the columns are separated by tabs.
    """
    clients = load()
    if client is None:
        _list(clients)
        return
    query = parse(client)
    matching = nearest(clients, query)
    _show_clients(query, matching)
    if any(one.differing for one in matching):
        raise click.exceptions.Exit(1)


def _list(clients: list[Client]) -> None:
    rows = ((one.name, one.version, one.language, one.summary) for one in clients)
    table(("client", "version", "language", "here"), rows, title="Tested clients")


def _show_clients(query: ClientQuery, matching: list[Client]) -> None:
    """Show the results for the nearest tested versions. Raises UserError for an unknown client."""
    if not matching:
        known = ", ".join(known_names(load()))
        fail(
            f"{query.name} was not tested, so its behaviour is not known; the tested clients are {known}"
        )
    for one in matching:
        _show(one, is_it=query.is_of(one))


def _show(one: Client, *, is_it: bool) -> None:
    nearest_to = "" if is_it else " (the nearest version tested)"
    title = f"{one.name} {one.version}{nearest_to}, compared with Kafka {one.kafka}: {one.summary}"
    rows = ((name, _SAYS[cell.outcome], cell.what) for name, cell in one.cells.items())
    if one.cells or is_for_programs():
        if not is_for_people():
            print_line(title)
        table(("scenario", "here", "notes"), rows, title=title, name=f"{one.name} {one.version}")
    else:
        print_line(title)
    for label, text in (("note", one.notes), ("advice", one.advice)):
        if text and is_for_people():
            out.print(f"[bold]{label}[/bold]  {escape(text)}", soft_wrap=True)
        elif text and not is_for_programs():
            click.echo(f"{label}\t{text}")
