"""The command's root: which commands there are, and one line for every error that a user can mend."""

import importlib.metadata
import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from lacuna.cli.lazy import MARKUP, Entry, LazyGroup


class Commands(LazyGroup):
    """The commands, in the order of a newcomer's steps."""

    entries = {  # noqa: RUF012 - it is the base's ClassVar
        "demo": Entry(
            "lacuna.cli.demo:demo",
            "Shows with a real Kafka client what aborted transactions mean to a consumer.",
        ),
        "up": Entry(
            "lacuna.cli.up:up",
            "Runs a whole cluster in one command; the records go to a folder or a bucket.",
        ),
        "topics": Entry("lacuna.cli.topics:app", "List, describe, create and delete topics."),
        "groups": Entry("lacuna.cli.groups:app", "List, describe and delete consumer groups."),
        "transactions": Entry(
            "lacuna.cli.transactions:app", "List, describe and abort transactions."
        ),
        "explain": Entry(
            "lacuna.cli.explain:explain",
            "Shows what a read_committed consumer gets of a partition, and why.",
        ),
        "doctor": Entry("lacuna.cli.doctor:doctor", "Tells what to expect of a Kafka client here."),
        "compact": Entry(
            "lacuna.cli.compact:compact",
            "Rewrites the bucket on Spark: few large objects, no aborted or superseded records.",
        ),
        "export": Entry(
            "lacuna.cli.export:export",
            "Writes committed records to Parquet files or Iceberg tables, each exactly once.",
        ),
        "verify": Entry(
            "lacuna.cli.verify:verify",
            "Audits the bucket: reads all of it and holds it against the control plane.",
        ),
        "metadata": Entry(
            "lacuna.cli.metadata:app",
            "Publish and show snapshots of the metadata, which readers without a server need.",
        ),
        "controlplane": Entry(
            "lacuna.cli.controlplane:controlplane",
            "Runs a control plane alone: topics, transactions, groups, and which records count.",
        ),
        "agent": Entry(
            "lacuna.cli.agent:agent",
            "Runs an agent alone: it serves Kafka clients from a bucket or a shared folder.",
        ),
    }


app = typer.Typer(
    name="lacuna",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=MARKUP,
    pretty_exceptions_show_locals=False,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"lacuna {importlib.metadata.version('lacuna')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """A Kafka-compatible log with transactions whose records live in an object store.

    New here? `lacuna demo` shows in a few seconds what it does. `lacuna up` starts a cluster on
    127.0.0.1:9092 for any Kafka client, with its data in ./data. `lacuna COMMAND --help` explains a command.
    """


def main() -> None:
    """Entry point of the `lacuna` command."""
    # gRPC writes lines of its own beside our errors otherwise.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if isinstance(sys.stdout, TextIOWrapper):
        # A name or an arrow that the terminal's encoding lacks is an escape, as it is on the error output.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(prog_name="lacuna", standalone_mode=False)
    except Exception as error:
        from lacuna.cli.errors import report

        code = report(error)
        if code is None:
            raise
    raise SystemExit(code)
