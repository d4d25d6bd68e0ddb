"""The root command: the list of commands, and one line for each error that a user can put right."""

import importlib.metadata
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Final

import click

from lacuna.cli.command_line import Option
from lacuna.cli.config_file import take_file
from lacuna.cli.lazy import Entry, LazyGroup

#: In the order in which a newcomer needs them.
ENTRIES: Final = {
    "demo": Entry(
        "lacuna.cli.demo:demo",
        "Shows, with a real Kafka client, what aborted transactions mean for a consumer.",
    ),
    "up": Entry(
        "lacuna.cli.up:up",
        "Runs a whole cluster in one command, with its records in a folder or a bucket.",
    ),
    "status": Entry(
        "lacuna.cli.status:status",
        "Shows a cluster's agents, and how many topics, groups and transactions it has in which state.",
        shows=True,
    ),
    "console": Entry(
        "lacuna.cli.serve_console:console",
        "Runs the web console of a cluster that runs elsewhere.",
    ),
    "topics": Entry(
        "lacuna.cli.topics:app", "Lists, describes, creates, alters and deletes topics."
    ),
    "produce": Entry(
        "lacuna.cli.produce:produce",
        "Writes the lines of standard input to a topic, one record per line.",
        shows=True,
    ),
    "consume": Entry(
        "lacuna.cli.consume:consume",
        "Prints the records of a topic, from one offset or time until another.",
    ),
    "time-travel": Entry(
        "lacuna.cli.time_travel:time_travel",
        "Shows the records of a topic that a read_committed consumer could see at a past time, and the number of "
        "newer ones.",
        shows=True,
    ),
    "groups": Entry(
        "lacuna.cli.groups:app",
        "Lists, describes, resets and deletes consumer groups, and shows how far they are behind.",
    ),
    "transactions": Entry(
        "lacuna.cli.transactions:app",
        "Lists, describes and aborts transactions, and shows which ones consumers wait for.",
    ),
    "acls": Entry(
        "lacuna.cli.acls:app",
        "Lists, adds and removes ACLs, which define what each principal may do.",
    ),
    "users": Entry("lacuna.cli.users:app", "Lists, adds and removes users and their passwords."),
    "explain": Entry(
        "lacuna.cli.explain:explain",
        "Shows which records of a partition a read_committed consumer gets, and why.",
        shows=True,
    ),
    "doctor": Entry(
        "lacuna.cli.doctor:doctor",
        "Shows how a Kafka client behaves with Lacuna, compared with Kafka.",
        shows=True,
    ),
    "compact": Entry(
        "lacuna.cli.compact:compact",
        "Rewrites the bucket: few large objects, without aborted or superseded records.",
    ),
    "export": Entry(
        "lacuna.cli.export:export",
        "Exports committed records to Parquet files or Iceberg tables, each exactly once.",
    ),
    "verify": Entry(
        "lacuna.cli.verify:verify",
        "Audits the bucket: reads all of it and compares it with the control plane.",
    ),
    "metadata": Entry(
        "lacuna.cli.metadata:app",
        "Publishes and shows metadata snapshots, which let jobs read without a control plane.",
    ),
    "controlplane": Entry(
        "lacuna.cli.controlplane:app",
        "Runs only a control plane, which keeps topics, transactions, groups and the index of records.",
    ),
    "agent": Entry(
        "lacuna.cli.agent:agent",
        "Runs only an agent, which serves Kafka clients from a bucket or a shared folder.",
    ),
    "config": Entry(
        "lacuna.cli.showing_config:config",
        "Shows the options of a command with their variables and values.",
        shows=True,
    ),
    "completion": Entry(
        "lacuna.cli.completion:completion",
        "Prints the script with which a shell completes commands and options.",
    ),
}


def _print_version(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        click.echo(f"lacuna {importlib.metadata.version('lacuna-log')}")
        context.exit()


app = LazyGroup(
    "lacuna",
    ENTRIES,
    # Every command below inherits them.
    context_settings={"help_option_names": ["--help", "-h"], "auto_envvar_prefix": "LACUNA"},
    params=[
        Option(
            ["--config", "-c"],
            envvar="LACUNA_CONFIG",
            type=click.Path(path_type=Path),
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=take_file,
            show_envvar=True,
            help="A TOML file of settings, and of options of every command.",
        ),
        Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            allow_from_autoenv=False,
            callback=_print_version,
            help="Print the version.",
        ),
    ],
    help="A Kafka-compatible log with transactions whose records live in an object store.\n\n    New "
    "here? `lacuna demo` shows in a few seconds what it does. `lacuna up` starts a cluster on\n    "
    "127.0.0.1:9092 for any Kafka client, with its data in ./data. `lacuna COMMAND --help` "
    "explains a command.\n    ",
)


def main() -> None:
    """Entry point of the `lacuna` command."""
    if isinstance(sys.stdout, TextIOWrapper):
        # Characters that the terminal's encoding lacks are printed as escapes, as standard error does by default.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app.main(prog_name="lacuna", standalone_mode=False)
    except Exception as error:
        from lacuna.cli.errors import report

        code = report(error)
        if code is None:
            raise
    raise SystemExit(code)
