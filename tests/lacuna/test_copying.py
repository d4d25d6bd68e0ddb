"""Tests `lacuna controlplane copy` and `set-time`, which move a journal to another place or time."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lacuna.testing import Cluster
from tests.lacuna.test_controlplane_and_agents import running

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal


@pytest.mark.slow
def test_a_cluster_moves_to_postgresql_and_its_clients_go_on(
    tmp_path: Path, database: str, clients: SimpleNamespace, lacuna: Command, refused: Refusal
) -> None:
    """The transactional id moves too, and no process can continue with the old file."""
    ends = ("--from", "sqlite:data", "--to", database)
    with Cluster(tmp_path / "data") as cluster:
        producer = clients.transactional(cluster.bootstrap, "t")
        for value, end in (
            ("before", producer.commit_transaction),
            ("never", producer.abort_transaction),
        ):
            producer.begin_transaction()
            clients.send(producer, "t", [value])
            end(60)
        said = refused("controlplane", "copy", *ends)
        assert "another control plane is running on this data" in said
    assert [row[0].split()[0] for row in lacuna("controlplane", "copy", *ends).rows[:3]] == [
        "copied",
        "position",
        "sha256",
    ]
    assert "which a copy does not overwrite" in refused("controlplane", "copy", *ends)

    journal = ("--journal", database)
    with running("control plane: ", "controlplane", "--listen", "127.0.0.1:0", *journal) as control:
        store = ("--objects", str(tmp_path / "data" / "objects"))
        options = ("--control", control, "--listen", "127.0.0.1:0", *store)
        with running("bootstrap: ", "agent", *options) as agent:
            again = clients.transactional(agent, "t")
            again.begin_transaction()
            clients.send(again, "t", ["after"])
            again.commit_transaction(60)
            assert clients.consume(agent, "t", 2) == [(0, "before"), (2, "after")]
    said = refused("up", "--data", "data", "--listen", "127.0.0.1:0")
    assert "or copied to another place where the cluster continued" in said


def test_the_time_is_set_to_the_clock_while_no_control_plane_runs(
    tmp_path: Path, lacuna: Command, refused: Refusal
) -> None:
    command = ("controlplane", "set-time", "--data", "data")
    assert "data has no journal, so nothing was changed" in refused(*command)
    with Cluster(tmp_path / "data") as cluster:
        cluster.advance(30 * 86_400_000)
        assert "another control plane is running on this data" in refused(*command)
    before, now = (datetime.fromisoformat(row[0].split()[1]) for row in lacuna(*command).rows)
    assert before - now > timedelta(days=29)
    again, _ = (datetime.fromisoformat(row[0].split()[1]) for row in lacuna(*command).rows)
    assert again == now


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("sqlite:none", "bucket", "none has no journal, so nothing was changed"),
        ("sqlite:", "bucket", "sqlite: names no file: write sqlite:PATH"),
        (
            "data",
            "bucket",
            "'data' is not a journal: write sqlite:PATH (a file, or a data folder), postgresql://USER",
        ),
        ("sqlite:file", "bucket", "name it with --store s3://BUCKET/PREFIX"),
        (
            "sqlite:file",
            "sqlite:no/folder/file",
            "cannot write beside no/folder/file: No such file",
        ),
    ],
)
def test_ends_that_cannot_be_used(
    tmp_path: Path, refused: Refusal, source: str, target: str, expected: str
) -> None:
    (tmp_path / "file").touch()
    assert expected in refused("controlplane", "copy", "--from", source, "--to", target)
