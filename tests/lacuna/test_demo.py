"""Tests that `lacuna demo` prints what it checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lacuna.testing import Cluster
    from tests.lacuna.conftest import Command

CLAIM = "Every claim above was checked against the records that the client read."


def test_on_a_cluster_of_its_own(lacuna: Command) -> None:
    ran = lacuna("demo", columns=140, LACUNA_CONTROL="127.0.0.1:1")  # of some other cluster
    assert ran.code == 0, ran.err
    assert CLAIM in ran.out
    assert "a range in which every record was aborted" in ran.out
    assert "dropped: aborted; continues at 11" in ran.out, ran.out
    assert "filler: a control record that moves the consumer on to 11" in ran.out


@pytest.mark.parametrize("with_control", [False, True])
def test_on_a_running_cluster(lacuna: Command, lacuna_cluster: Cluster, with_control: bool) -> None:
    control = (lacuna_cluster.data / "control.address").read_text()
    options = ("--control", control) if with_control else ()
    ran = lacuna("demo", "--bootstrap", lacuna_cluster.bootstrap, *options, columns=140)
    assert ran.code == 0, ran.err
    assert CLAIM in ran.out
    assert ("what a read_committed consumer receives" in ran.out) == with_control
