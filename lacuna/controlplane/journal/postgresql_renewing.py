"""Renewals of the lease of a journal in PostgreSQL, and what the server warns of when it has written something."""

from typing import Final

import asyncpg

from lacuna.controlplane.journal.journal import JournalFenced, JournalUnreachable
from lacuna.controlplane.journal.postgresql_connection import (
    Connection,
    connect,
    disconnect,
    errors_of,
    name_of,
)

# A sequence is changed in place. A row that is updated leaves a dead version each time, and while an old transaction is
# open in the database, each append would read all of them. Appends and renewals share the row's lock.
RENEW: Final = """
    WITH fence AS MATERIALIZED (SELECT FROM lacuna.leader WHERE epoch = $1 FOR SHARE)
    SELECT nextval('lacuna.renewals') FROM fence"""


class Warnings:
    """What the server of a connection to the database `name` has warned of since the last statement that writes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = ""

    def listen(self, connection: Connection) -> None:
        """Hear what is said on this connection."""
        connection.add_log_listener(self._note)

    def forget(self) -> None:
        """Begin anew: a statement that writes follows."""
        self._last = ""

    def _note(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        if message.severity_en == "WARNING":
            self._last = str(message.message)

    def check(self) -> None:
        """Raise JournalUnreachable if the server has warned of what was just written.

        A wait for a synchronous standby that is cancelled, by a time-out or by hand, ends in success and a warning: the
        transaction is committed here, and the standby may not have it when it is promoted.
        """
        if self._last:
            raise JournalUnreachable(
                f"{self._name}: PostgreSQL says: {self._last}. What was written may be lost in a failover, so it "
                "does not count. Let nothing cancel the waits of the journal's connections (statement_timeout, "
                "pg_cancel_backend), and look at the standby"
            )


def fenced(name: str, fencing_token: int) -> JournalFenced:
    """Return the error of a leader whose epoch, `fencing_token`, is not that of the journal any more."""
    return JournalFenced(
        f"another control plane has taken over {name} (its epoch is not ours, {fencing_token}): this one stops"
    )


async def renew(
    connection: Connection, warnings: Warnings, name: str, fencing_token: int, seconds: float
) -> None:
    """Tell the others that this leader is alive, and make sure that none of them has taken over.

    Raises JournalFenced, JournalUnreachable, and asyncpg's errors after `seconds` without an answer and otherwise.
    """
    warnings.forget()
    renewed = await connection.fetchval(RENEW, fencing_token, timeout=seconds)
    warnings.check()
    if renewed is None:
        raise fenced(name, fencing_token)


class PostgresqlRenewer:
    """Renews by a connection of its own, opened for the first renewal. One that is not answered in time has failed."""

    def __init__(self, url: str, fencing_token: int, answer_timeout: float) -> None:
        self._url = url
        self._name = name_of(url)
        self._fencing_token = fencing_token
        self._answer_timeout = answer_timeout
        self._warnings = Warnings(self._name)
        self._connection: Connection | None = None

    async def renew(self) -> None:
        """Renew the lease. Raises JournalFenced, JournalUnreachable, and other JournalErrors of the database."""
        connection = self._connection
        if connection is None:
            connection = self._connection = await connect(self._url)
            self._warnings.listen(connection)
        try:
            with errors_of(self._name):
                await renew(
                    connection,
                    self._warnings,
                    self._name,
                    self._fencing_token,
                    self._answer_timeout,
                )
        except BaseException:
            # To close a connection, asyncpg waits for what was asked.
            connection.terminate()
            raise

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None and not self._connection.is_closed():
            await disconnect(self._connection)
