"""Tests upgrades: earlier journals can be read, and later ones are rejected with a one-line message.

The journals in tests/golden/journals all contain the same history: two committed transactions, an aborted one, an
idempotent producer, a group, and an open transaction.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lacuna
from lacuna.base.errors import UserError
from lacuna.controlplane import machine
from lacuna.controlplane.journal import (
    bucket_appends,
    bucket_manifest,
    postgresql_schema,
    sqlite,
    tables,
)
from lacuna.controlplane.journal.journal import JournalOfAnotherVersion, Snapshot
from lacuna.controlplane.journal.kinds import KINDS as JOURNAL_KINDS
from lacuna.controlplane.journal.kinds import SHARED_KINDS, forms, kind_of, shared_kind_of
from lacuna.controlplane.journal.kinds.bucket import IN_BUCKET
from lacuna.controlplane.journal.kinds.kind import JournalKind
from lacuna.controlplane.journal.kinds.postgresql import POSTGRESQL
from lacuna.controlplane.journal.kinds.sqlite import SQLITE
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, LeasesEnded
from lacuna.controlplane.v1.snapshot_pb2 import StateSnapshot
from tests.controlplane.journal.conftest import led
from tests.controlplane.journal.golden import KINDS, SHARED, Place, make_place, replayed


@pytest.fixture
def old(kind: str, request: pytest.FixtureRequest) -> Place:
    """A journal that an earlier version wrote."""
    place = make_place(kind, request)
    place.fill()
    return place


def raise_formats(patch: pytest.MonkeyPatch) -> None:
    """Raise every format that this version writes by one."""
    patch.setattr(sqlite, "FORMAT_VERSION", 2)
    patch.setattr(tables, "FORMAT_VERSION", 2)
    patch.setattr(bucket_manifest, "_FORMAT_VERSION", 2)
    patch.setattr(bucket_appends, "_FORMAT_VERSION", 2)
    patch.setattr(postgresql_schema, "FORMAT_VERSION", 2)


def facts(state: machine.State) -> dict[str, object]:
    """Return the history as a client sees it."""
    topics = {topic.name: topic.partitions[0] for topic in state.topics.values()}
    first = state.transactional_ids["first"]
    return {
        "orders": (topics["orders"].high_watermark, list(topics["orders"].dead.firsts)),
        "extents": (len(topics["orders"].extents), len(topics["plain"].extents)),
        "first": (first.state.value, first.producer_epoch),
        "offsets": [each.offset for each in state.groups.offsets.committed["readers"].values()],
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_what_an_earlier_version_wrote_is_read(old: Place) -> None:
    replica = await replayed(old.journal())
    assert replica.position == 22
    assert facts(replica.state) == {
        "orders": (5, [2]),
        "extents": (4, 1),
        "first": ("Ongoing", 0),
        "offsets": [4],
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_a_journal_that_a_later_version_leads_is_refused(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later version reads the journal. Once it has been the leader, only restoring a backup allows a downgrade."""
    with monkeypatch.context() as patched:
        raise_formats(patched)
        await replayed(old.journal())
    with pytest.raises(
        JournalOfAnotherVersion,
        match="format is 2, but this version reads only up to 1: install the version that wrote it, or restore",
    ):
        await old.journal().open(None)


@pytest.mark.parametrize("kind", SHARED)
async def test_a_standby_refuses_a_later_version_that_takes_over(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = old.journal()
    await journal.open(None)
    reader = journal.reader()  # type: ignore[attr-defined]
    assert await reader.leader() is not None
    with monkeypatch.context() as patched:
        raise_formats(patched)
        await old.journal().open(None)
    with pytest.raises(
        JournalOfAnotherVersion, match=r"format is \d, but this version reads only up to"
    ):
        await reader.leader()
    await reader.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_record_of_a_later_format_is_refused(old: Place) -> None:
    async with led(old.journal()) as (journal, token):
        record = JournalRecord(format_version=2, now_ms=1, leases_ended=LeasesEnded())
        await journal.append([record.SerializeToString()], token)
    with pytest.raises(JournalOfAnotherVersion, match=r"a record of format 2, but .* up to 1"):
        await replayed(old.journal())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_snapshot_of_a_later_format_is_refused(old: Place) -> None:
    replica = await replayed(old.journal())
    state = StateSnapshot.FromString(machine.snapshot(replica.state))
    assert state.format_version == 1
    state.format_version = 2
    async with led(old.journal()) as (journal, token):
        record = JournalRecord(now_ms=1, leases_ended=LeasesEnded())
        position = await journal.append([record.SerializeToString()], token)
        await journal.store_snapshot(Snapshot(position, (state.SerializeToString(),)))
    with pytest.raises(
        JournalOfAnotherVersion, match=rf"snapshot at position {position} has format 2"
    ):
        await replayed(old.journal())


SOURCES = Path(lacuna.__file__).parent
#: Where `bucket` is the place from which Spark's jobs read metadata, and no journal.
OTHERS = {"pipeline/metadata/__init__.py"}


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("sqlite:data", SQLITE),
        ("postgresql://user@host/database", POSTGRESQL),
        ("postgres://host", POSTGRESQL),
        ("bucket", IN_BUCKET),
    ],
)
def test_an_address_names_one_kind(address: str, kind: JournalKind) -> None:
    assert (
        [each for each in JOURNAL_KINDS if each.is_named(address)] == [kind] == [kind_of(address)]
    )
    if kind in SHARED_KINDS:
        assert shared_kind_of(address) is kind
    else:
        with pytest.raises(UserError, match="not a journal that several control planes can share"):
            shared_kind_of(address)


def test_an_error_says_how_addresses_are_written() -> None:
    with pytest.raises(UserError) as refused:
        kind_of("data")
    assert str(refused.value) == f"'data' is not a journal: use {forms()}"
    assert all(each.form in forms() for each in JOURNAL_KINDS)
    assert forms((POSTGRESQL, SQLITE)) == f"{POSTGRESQL.form} or {SQLITE.form} ({SQLITE.about})"


def decisions(tree: ast.AST) -> Iterator[int]:
    """Return the lines where code compares something with the address prefix of a kind of journal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            compared = node.args if node.func.attr in ("startswith", "removeprefix") else []
        else:
            continue
        for each in compared:
            names = {found.id for found in ast.walk(each) if isinstance(found, ast.Name)}
            texts = {found.value for found in ast.walk(each) if isinstance(found, ast.Constant)}
            if names & {"BUCKET", "POSTGRESQL"} or any(map(_is_address, texts)):
                yield node.lineno


def _is_address(text: object) -> bool:
    return isinstance(text, str) and any(each.is_named(text) for each in JOURNAL_KINDS)


@pytest.mark.slow
def test_nothing_else_asks_for_the_kind_of_a_journal() -> None:
    # To parse all files takes a hundred times as long as to search them for what a decision needs.
    needed = re.compile(r"""\bBUCKET\b|\bPOSTGRESQL\b|["'}](?:bucket["']|sqlite:|postgres)""")
    found = {
        path.relative_to(SOURCES).as_posix(): lines
        for path in SOURCES.rglob("*.py")
        if needed.search(text := path.read_text(encoding="utf-8"))
        and (lines := list(decisions(ast.parse(text))))
    }
    rows = {path for path in found if path.startswith("controlplane/journal/kinds/")}
    assert rows
    assert found.keys() - rows == OTHERS
    assert list(
        decisions(ast.parse("if url == BUCKET: ...\nif url.startswith('postgres://'): ..."))
    )
