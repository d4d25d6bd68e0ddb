"""`lacuna users`: lists, adds and removes users who authenticate with SCRAM or PLAIN (KIP-554)."""

from typing import Annotated

import click

from lacuna.agent.security.sasl.users import LEAST_ITERATIONS, MECHANISM_NAMES
from lacuna.base.secret import read_secret
from lacuna.cli.answers import check
from lacuna.cli.command_line import Group, argument, option
from lacuna.cli.console import asynchronous, print_done, table
from lacuna.cli.errors import fail
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.operating.changing import remove_user, set_password
from lacuna.operating.exchanges.access import DESCRIBE_USER_SCRAM_CREDENTIALS
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.wire.messages import security as wire

app = Group(help="Lists, adds and removes users and their passwords.")

User = Annotated[str, argument(help="Name of the user.")]


@app.adds("list", shows=True)
@asynchronous
async def list_users(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Lists users and their mechanisms."""
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.ask(
            *DESCRIBE_USER_SCRAM_CREDENTIALS, wire.DescribeUserScramCredentialsRequest(None)
        )
    check(response.error_code, "users", response.error_message)
    rows = [
        (each.user, MECHANISM_NAMES[info.mechanism], info.iterations)
        for each in response.results
        for info in each.credential_infos
    ]
    table(("user", "mechanism", "iterations"), rows, name="users")


@app.adds("add", shows=True)
def add(
    user: User,
    password: Annotated[
        str | None,
        option(
            metavar="REFERENCE",
            help="Where to get the password: file:PATH, env:NAME or command:LINE. By default, the command "
            "prompts for the password.",
        ),
    ] = None,
    iterations: Annotated[
        int, option(min=LEAST_ITERATIONS, max=16384, help="Number of hash iterations.")
    ] = LEAST_ITERATIONS,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Adds a user, or changes a user's password, for all mechanisms. The password itself is not sent."""
    if password is None:
        secret = str(click.prompt("Password", hide_input=True, confirmation_prompt=True)).encode()
    else:
        secret = read_secret(password, "--password")
    _store(user, secret, iterations, bootstrap)
    print_done(f"{user} can now authenticate with this password", user=user)


@asynchronous
async def _store(user: str, password: bytes, iterations: int, bootstrap: Agents) -> None:
    async with KafkaConnection(bootstrap) as connection:
        for refused in await set_password(connection.ask, user, password, iterations):
            check(refused.error_code, user, refused.message)


@app.adds("remove", shows=True)
@asynchronous
async def remove(user: User, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Removes a user. Open connections stay open."""
    async with KafkaConnection(bootstrap) as connection:
        for refused in await remove_user(connection.ask, user):
            if refused.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                fail(f"the user {user} does not exist; `lacuna users list` lists the users")
            check(refused.error_code, user, refused.message)
    print_done(f"{user} is removed", user=user)
