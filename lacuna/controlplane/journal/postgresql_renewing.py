"""Renews the lease of a journal in PostgreSQL, and heeds the server's warnings after a write."""

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

# A sequence is changed in place, whereas each update of a row leaves a dead version behind. As long as an old
# transaction is open in the database, every append would have to read all of these versions. Appends and renewals share
# the row's lock.
RENEW: Final = """
    WITH fence AS MATERIALIZED (SELECT FROM lacuna.leader WHERE epoch = $1 FOR SHARE)
    SELECT nextval('lacuna.renewals') FROM fence"""


class Warnings:
    """Warnings on a connection to the database `name` since the last statement that writes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = ""

    def listen(self, connection: Connection) -> None:
        connection.add_log_listener(self._note)

    def forget(self) -> None:
        """Discard earlier warnings, before a statement that writes."""
        self._last = ""

    def _note(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        if message.severity_en == "WARNING":
            self._last = str(message.message)

    def check(self) -> None:
        """Raise JournalUnreachable if the server has warned about the last write.

        If a wait for a synchronous standby is cancelled, by a time-out or by hand, the statement succeeds with a
        warning. The transaction is then committed on this server, but a standby that is promoted may lack it.
        """
        if self._last:
            raise JournalUnreachable(
                f"{self._name}: PostgreSQL reported: {self._last}. The last write may be lost in a failover, so it is "
                "treated as failed. Make sure that nothing cancels the waits of the journal's connections "
                "(statement_timeout, pg_cancel_backend), and check the standby"
            )


def fenced(name: str, fencing_token: int) -> JournalFenced:
    """Return the error for a leader whose epoch, `fencing_token`, is no longer the journal's."""
    return JournalFenced(
        f"another control plane has taken over {name} (the epoch is no longer {fencing_token}): "
        "this one is stepping down"
    )


async def renew(
    connection: Connection, warnings: Warnings, name: str, fencing_token: int, seconds: float
) -> None:
    """Renew the lease, which also shows that no other leader has taken over.

    Raises JournalFenced, JournalUnreachable, TimeoutError if there is no answer within `seconds`, and asyncpg's other
    errors.
    """
    warnings.forget()
    renewed = await connection.fetchval(RENEW, fencing_token, timeout=seconds)
    warnings.check()
    if renewed is None:
        raise fenced(name, fencing_token)


class PostgresqlRenewer:
    """Renews over a separate connection, opened for the first renewal. A renewal that is not answered in time is
    treated as failed.
    """

    def __init__(self, url: str, fencing_token: int, answer_timeout: float) -> None:
        self._url = url
        self._name = name_of(url)
        self._fencing_token = fencing_token
        self._answer_timeout = answer_timeout
        self._warnings = Warnings(self._name)
        self._connection: Connection | None = None

    async def renew(self) -> None:
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
            # asyncpg waits for pending requests before it closes a connection.
            connection.terminate()
            raise

    async def close(self) -> None:
        if self._connection is not None and not self._connection.is_closed():
            await disconnect(self._connection)
