"""The list of commands. A command's module is imported when the command is called, not for `lacuna --help`."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import click

from lacuna.cli.command_line import Command, Group, make_command


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry in the list of commands.

    The command is the group `app` or, without one, a function named after the command. It is in the module `module` of
    this package or, by default, in the one named after the command. With `shows`, the command has options for the
    format of its tables.
    """

    help: str
    shows: bool = False
    module: str = ""

    def load(self, name: str) -> click.Command:
        """Imports the command's module, and returns the command as `name`."""
        own = name.replace("-", "_")
        module = import_module(f"{__package__}.{self.module or own}")
        target = getattr(module, "app", None) or getattr(module, own)
        if not isinstance(target, click.Command):
            return make_command(name, target, shows=self.shows)
        target.name = name
        return target


class LazyGroup(Group):
    """A group that lists its `entries` without importing them."""

    def __init__(self, name: str, entries: dict[str, Entry], **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.entries = entries
        for each, entry in entries.items():
            self.add_command(Command(each, help=entry.help))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Imports the command that is called. Returns its name, the command, and the remaining arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            command = self.entries[name].load(name)
        return name, command, rest


#: In the order in which a newcomer needs the commands.
ENTRIES: Final = {
    "demo": Entry(
        "Uses a real Kafka client to show what aborted transactions mean for a consumer."
    ),
    "up": Entry("Runs a complete cluster, with its records in a folder or a bucket."),
    "status": Entry(
        "Checks a cluster, and shows problems first, each with its remedy.", shows=True
    ),
    "console": Entry(
        "Runs the web console for a cluster that runs elsewhere.", module="serve_console"
    ),
    "topics": Entry("Lists, describes, creates, alters, trims and deletes topics."),
    "produce": Entry(
        "Writes lines from standard input or from files to a topic, one record per line.",
        shows=True,
    ),
    "consume": Entry("Prints the records of topics, from one offset or time to another."),
    "sql": Entry(
        "Runs an SQL query over topics with DuckDB, on the committed records in the bucket.",
        shows=True,
    ),
    "time-travel": Entry(
        "Shows the records of a topic that a read_committed consumer could see at a past time, and counts newer ones.",
        shows=True,
    ),
    "groups": Entry(
        "Lists, describes, resets and deletes consumer groups, and shows how far they are behind."
    ),
    "transactions": Entry(
        "Lists, describes and aborts transactions, and shows which ones consumers are waiting for."
    ),
    "acls": Entry("Lists, adds and removes ACLs, which define what each principal may do."),
    "users": Entry("Lists, adds and removes users and their passwords."),
    "quotas": Entry("Lists, sets and removes quotas for users, clients and hosts."),
    "explain": Entry(
        "Shows which records of a partition a read_committed consumer receives, and why.",
        shows=True,
    ),
    "doctor": Entry(
        "Shows how a Kafka client behaves with Lacuna, compared with Kafka.", shows=True
    ),
    "judge": Entry(
        "Judges any Kafka cluster by what its clients observe: puts a load on it, and looks for anomalies.",
        shows=True,
    ),
    "compact": Entry(
        "Rewrites the bucket into a few large objects, without aborted or superseded records."
    ),
    "import": Entry(
        "Migrates from Kafka: copies topics with their offsets, groups and rights, and follows "
        "the source until they are promoted.",
        module="importing",
    ),
    "export": Entry(
        "Exports each committed record exactly once, to Parquet files or Iceberg tables."
    ),
    "verify": Entry("Audits the bucket: reads all of it and compares it with the control plane."),
    "metadata": Entry(
        "Publishes and shows metadata snapshots, which let jobs read without a control plane."
    ),
    "controlplane": Entry(
        "Runs only a control plane, which keeps topics, transactions, groups and the index of records."
    ),
    "agent": Entry(
        "Runs only an agent, which serves Kafka clients from a bucket or a shared folder."
    ),
    "profile": Entry("Lists, sets and chooses profiles: names for clusters.", module="profiles"),
    "config": Entry(
        "Shows a command's options with their variables and values.",
        shows=True,
        module="showing_config",
    ),
    "completion": Entry("Prints the script that lets a shell complete commands and options."),
}

#: Settings for click that every command inherits.
CONTEXT: Final[dict[str, Any]] = {
    "help_option_names": ["--help", "-h"],
    "auto_envvar_prefix": "LACUNA",
}
