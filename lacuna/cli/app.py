"""The command's root: which commands there are."""

import typer

from lacuna.cli import demo, explain, groups, serve, topics, transactions

app = typer.Typer(
    name="lacuna",
    help="A Kafka-compatible log with transactions whose records live in an object store.\n\n"
    "Start with `lacuna demo`, then `lacuna up`.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
)
app.command("up")(serve.up)
app.command("agent")(serve.agent)
app.command("controlplane")(serve.controlplane)
app.command("demo")(demo.demo)
app.command("explain")(explain.explain)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(transactions.app, name="transactions")


def main() -> None:
    """Entry point of the `lacuna` command."""
    app()
