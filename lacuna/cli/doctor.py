"""`lacuna doctor`: what to expect of a Kafka client here, from the last run of the client matrix."""

from typing import Annotated

import typer
from rich.markup import escape

from lacuna.cli.console import is_for_people, out, table
from lacuna.cli.errors import fail
from lacuna.clients import Cell, Client, ClientQuery, known_names, load, nearest, parse

_SAYS = {
    "same": "as with Kafka",
    "right": "right, where with Kafka it is not",
    "as Kafka": "fails as with Kafka",
    "unsupported": "the client has no such thing",
    "differs": "DIFFERS from Kafka",
}


def doctor(
    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            "-c",
            help="NAME or NAME@VERSION of a Kafka client; all that were run if not given.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Tells what to expect of a Kafka client here.

    Each client in the list did the same things to Lacuna and to Apache Kafka: transactions, aborted ones, holes,
    groups. For a version that was not run it tells of the nearest ones. Exit code 1 where the client is not in
    the list, or does something else here than with Kafka. Where the output is no terminal it is tab-separated.
    """
    clients = load()
    if client is None:
        _list(clients)
        return
    asked = parse(client)
    _tell(asked, nearest(clients, asked))


def _list(clients: list[Client]) -> None:
    rows = ((one.name, one.version, one.language, _summary(one)) for one in clients)
    table(("client", "version", "language", "here"), rows, title="Clients that were run")


def _tell(asked: ClientQuery, found: list[Client]) -> None:
    """The nearest versions' verdicts. Raises UserError for an unknown one, typer.Exit(1) where one differs."""
    if not found:
        known = ", ".join(known_names(load()))
        fail(f"nothing is known of {asked.name}: it was not run; known are {known}")
    for one in found:
        _show(one, is_it=asked.is_of(one))
    if any(one.differing for one in found):
        raise typer.Exit(1)


def _show(one: Client, *, is_it: bool) -> None:
    nearest_to = "" if is_it else " (the nearest version that was run)"
    title = f"{one.name} {one.version}{nearest_to}, beside Kafka {one.kafka}: {_summary(one)}"
    if one.cells:
        rows = ((name, _SAYS[cell.outcome], cell.what) for name, cell in one.cells.items())
        if not is_for_people():
            typer.echo(title)
        table(("scenario", "here", "what there is to say"), rows, title=title)
    else:
        typer.echo(title)
    for label, text in (("note", one.notes), ("advice", one.advice)):
        if text and is_for_people():
            out.print(f"[bold]{label}[/bold]  {escape(text)}", soft_wrap=True)
        elif text:
            typer.echo(f"{label}\t{text}")


def _summary(one: Client) -> str:
    if not one.cells:
        return f"{one.outcome}: {one.what}"
    if one.differing:
        return f"differs from Kafka in {', '.join(one.differing)}"
    failing = _having(one.cells, "as Kafka")
    lacking = _having(one.cells, "unsupported")
    parts = ["as with Kafka"]
    parts += [f"fails there too: {', '.join(failing)}"] if failing else []
    parts += [f"has no {', '.join(lacking)}"] if lacking else []
    return "; ".join(parts)


def _having(cells: dict[str, Cell], outcome: str) -> list[str]:
    return [name for name, cell in cells.items() if cell.outcome == outcome]
