"""Removes safeguards that keep several control planes on one journal consistent (see `safeguards.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest import mock

from lacuna.controlplane import machine, node, tenure
from lacuna.controlplane.client.session import SessionClient
from lacuna.controlplane.journal import bucket_calls, postgresql_renewing
from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.bucket_manifest import Manifest, Mark
from lacuna.controlplane.node import Node
from lacuna.controlplane.tenure import LeasedTenure
from tests.simulation import database

Remove = Callable[[], AbstractContextManager[Any]]
patch = mock.patch.object


def _no_fence() -> AbstractContextManager[Any]:
    """An append in PostgreSQL counts under any leader."""
    return patch(database._Server, "is_fence_passed", lambda *_: True)


def _unfenced_answers() -> AbstractContextManager[Any]:
    """Commands without changes are answered without checking the journal."""
    return patch(machine, "needs_proof", lambda *_: False)


def _no_row_lock() -> AbstractContextManager[Any]:
    """A takeover does not wait for an append in progress."""
    held = database._RowLock.held
    return patch(database._RowLock, "held", lambda self, **_: held(self, is_shared=True))


def _no_openings() -> AbstractContextManager[Any]:
    """A takeover of a journal in the bucket creates nothing at its end."""

    async def fence(self: BucketJournal, manifest: Manifest, _: Mark) -> Mark:
        following = await self._following(manifest.last)
        if not following:
            return manifest.last
        return await self._read_on(manifest.last, following[-1], manifest.epoch)

    return patch(BucketJournal, "_fence", fence)


def _unread_refusals() -> AbstractContextManager[Any]:
    """A 412 answer to an append is taken to mean that an earlier attempt succeeded."""

    async def create(self: bucket_calls.Bucket, key: str, data: bytes, **given: Any) -> bool:
        await create_or_not(self, key, data, **given)
        return True

    create_or_not = bucket_calls.Bucket.create
    return patch(bucket_calls.Bucket, "create", create)


def _no_tenure() -> AbstractContextManager[Any]:
    """A leader answers until it learns of the next one."""
    return patch(LeasedTenure, "holds", lambda _: True)


def _kept_state() -> AbstractContextManager[Any]:
    """A former leader continues with its state, parts of which were not durable."""
    start = Node._start

    async def remember(self: Any, *given: Any) -> Any:
        kept = self._replica
        runtime = await start(self, *given)
        self._kept = (kept, runtime)
        return runtime

    follow = Node._follow

    async def go_on(self: Any, *given: Any) -> None:
        kept = getattr(self, "_kept", None)
        if kept is None:
            return await follow(self, *given)
        replica, runtime = kept
        replica.position = runtime.durable_position
        with patch(node, "Replica", lambda: replica):
            following = asyncio.ensure_future(follow(self, *given))
            await asyncio.sleep(0)
        return await following

    return mock.patch.multiple(Node, _start=remember, _follow=go_on)


def _any_journal() -> AbstractContextManager[Any]:
    """A client accepts a control plane even if its journal is shorter than before."""
    return patch(SessionClient, "_is_older", lambda *_: False)


#: Name → what takes it away. Short histories find them.
LEADER_SAFEGUARDS: Final[Mapping[str, Remove]] = {
    "fence of an append": _no_fence,
    "row lock of an append": _no_row_lock,
    "warning of a lost standby": lambda: patch(
        postgresql_renewing.Warnings, "check", lambda _: None
    ),
    "fence of an answer": _unfenced_answers,
    "openings of the bucket's journal": _no_openings,
    "comparison after a 412": _unread_refusals,
    "tenure of a leader": _no_tenure,
    "margin of the tenure": lambda: patch(tenure, "_MARGIN", 0.0),
    "state read anew": _kept_state,
    "shorter journal refused": _any_journal,
}
