"""Tests users, ACLs, quotas and delegation tokens in the state machine, its snapshots and the agents' copies."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.shared import security
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.security import AclEntry, Security
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.security_pb2 import (
    Acl,
    AlterSecurity,
    DelegationToken,
    Quota,
    QuotaEntity,
    ScramCredential,
    SecurityChanges,
)
from tests.controlplane.verbs.cluster import Cluster

ALICE = ScramCredential(
    user="alice", mechanism=1, iterations=4096, salt=b"s", stored_key=b"k", server_key=b"v"
)
READ = Acl(
    resource_type=2,
    resource_name="t",
    pattern_type=3,
    principal="User:alice",
    host="*",
    operation=3,
    permission=3,
)


def alter(cluster: Cluster, **changes: Any) -> Any:
    command = AlterSecurity(changes=SecurityChanges(**changes))
    return cluster.do("alter_security", command)


def quota(name: str | None, *removed: str, **values: float) -> Quota:
    return Quota(entity=[QuotaEntity(type="user", name=name)], set=values, removed=removed)


def agents_copy(cluster: Cluster) -> Security:
    """Return the copy that an agent receives if it connects now."""
    copy = Security()
    copy.apply(cluster.state.cluster_snapshot().security)
    return copy


def held(kept: Security) -> tuple[object, ...]:
    return kept.credentials, list(kept.acls), kept.quotas, kept.tokens


def test_changes_are_kept_and_told_and_survive_a_snapshot() -> None:
    cluster = Cluster()
    copy = agents_copy(cluster)
    cluster.state.take_changes()
    alter(cluster, credentials=[ALICE], added_acls=[READ, READ], quotas=[quota(None, rate=5.0)])
    alter(
        cluster, quotas=[quota("", rate=1.0)], tokens=[DelegationToken(token_id="t", expiry_ms=9)]
    )
    for change in cluster.state.take_changes():
        assert isinstance(change, ClusterDelta)
        copy.apply(change.security)
    kept = cluster.state.security
    assert list(kept.acls) == [AclEntry(2, "t", 3, "User:alice", "*", 3, 3)]
    assert kept.quotas == {(("user", None),): {"rate": 5.0}, (("user", ""),): {"rate": 1.0}}
    restored = machine.restore((machine.snapshot(cluster.state),))
    assert held(kept) == held(copy) == held(restored.security) == held(agents_copy(cluster))
    cluster.check()


@pytest.mark.parametrize(
    ("remove", "left"),
    [
        (
            lambda c: alter(c, credentials=[ScramCredential(user="alice", mechanism=1)]),
            (0, 1, 1, 1),
        ),
        (lambda c: alter(c, removed_acls=[READ]), (1, 0, 1, 1)),
        (lambda c: alter(c, quotas=[quota("a", "rate", "other")]), (1, 1, 0, 1)),
        (lambda c: alter(c, removed_token_ids=["t"]), (1, 1, 1, 0)),
    ],
)
def test_what_is_removed_is_gone(remove: Callable[[Cluster], Any], left: tuple[int, ...]) -> None:
    cluster = Cluster()
    token = DelegationToken(token_id="t", expiry_ms=1 << 50)
    given = quota("a", rate=1.0)
    alter(cluster, credentials=[ALICE], added_acls=[READ], quotas=[given], tokens=[token])
    for _ in range(2):
        assert remove(cluster).error_code == ErrorCode.NONE
        kept = cluster.state.security
        assert tuple(map(len, held(kept))) == left  # type: ignore[arg-type]
    cluster.check()


def test_a_quota_is_changed_value_by_value() -> None:
    cluster = Cluster()
    alter(cluster, quotas=[quota("a", producer_byte_rate=1.0, consumer_byte_rate=2.0)])
    alter(cluster, quotas=[quota("a", "consumer_byte_rate", request_percentage=3.0)])
    expected = {"producer_byte_rate": 1.0, "request_percentage": 3.0}
    assert cluster.state.security.quotas == {(("user", "a"),): expected}


def test_more_than_a_cluster_keeps_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MOST_ACLS", 1)
    cluster = Cluster()
    other = Acl(principal="User:b")
    refused = alter(cluster, credentials=[ALICE], added_acls=[READ, other])
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert "at most 1 ACLs, and this one has 0" in refused.error_message
    assert not cluster.state.security
    assert alter(cluster, added_acls=[READ]).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "changes",
    [
        {"quotas": [quota("a", request_percentage=math.nan)]},
        {"quotas": [quota("a", request_percentage=0.0)]},
        {"configs": {"log.retention.ms": "soon"}},
        {"configs": {"num.io.thread": "8"}},
    ],
)
def test_values_that_nobody_can_use_are_refused(changes: dict[str, Any]) -> None:
    cluster = Cluster()
    assert alter(cluster, added_acls=[READ], **changes).error_code == ErrorCode.INVALID_CONFIG
    assert not cluster.state.security


def test_tokens_that_have_expired_are_removed() -> None:
    cluster = Cluster()
    soon = DelegationToken(token_id="soon", expiry_ms=cluster.now_ms + 30_000)
    later = DelegationToken(token_id="later", expiry_ms=cluster.now_ms + 90_000)
    alter(cluster, tokens=[soon, later])
    cluster.tick(1)
    cluster.tick(60_000)
    assert list(cluster.state.security.tokens) == ["later"]


@pytest.mark.parametrize(
    ("bound", "first", "more", "fewer"),
    [
        (
            "MOST_CREDENTIALS",
            {"credentials": [ALICE]},
            {"credentials": [ScramCredential(user="bob", mechanism=1, stored_key=b"k")]},
            {"credentials": [ScramCredential(user="alice", mechanism=1)]},
        ),
        (
            "MOST_QUOTAS",
            {"quotas": [quota("a", rate=1.0)]},
            {"quotas": [quota("b", rate=1.0)]},
            {"quotas": [quota("a", "rate")]},
        ),
        (
            "MOST_TOKENS",
            {"tokens": [DelegationToken(token_id="t", expiry_ms=1 << 50)]},
            {"tokens": [DelegationToken(token_id="u", expiry_ms=1 << 50)]},
            {"tokens": [DelegationToken(token_id="t", expiry_ms=1 << 51)]},
        ),
        (
            "MOST_TOKENS_OF_ONE",
            {"tokens": [DelegationToken(token_id="t", owner="User:alice", expiry_ms=1 << 50)]},
            {"tokens": [DelegationToken(token_id="u", owner="User:alice", expiry_ms=1 << 50)]},
            {"tokens": [DelegationToken(token_id="t", owner="User:alice", expiry_ms=1 << 51)]},
        ),
    ],
)
def test_at_the_bound_what_is_there_is_changed_and_removed(
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    first: dict[str, Any],
    more: dict[str, Any],
    fewer: dict[str, Any],
) -> None:
    monkeypatch.setattr(security, bound, 1)
    cluster = Cluster()
    assert alter(cluster, **first).error_code == ErrorCode.NONE
    assert alter(cluster, **more).error_code == ErrorCode.POLICY_VIOLATION
    assert alter(cluster, **fewer).error_code == ErrorCode.NONE


def test_one_owner_cannot_use_up_all_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MOST_TOKENS_OF_ONE", 2)

    def made(owner: str, *token_ids: str) -> Any:
        tokens = [
            DelegationToken(token_id=each, owner=owner, expiry_ms=1 << 50) for each in token_ids
        ]
        return alter(cluster, tokens=tokens)

    cluster = Cluster()
    assert made("User:alice", "a", "b").error_code == ErrorCode.NONE
    refused = made("User:alice", "c")
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert refused.error_message == (
        "A cluster can have at most 2 delegation tokens per owner, and User:alice has 2: expire "
        "some first, or use one token for several jobs."
    )
    assert made("User:bob", "d", "e").error_code == ErrorCode.NONE
    assert made("User:carol", "f", "g", "h").error_code == ErrorCode.POLICY_VIOLATION
    alter(cluster, removed_token_ids=["a"])
    assert made("User:alice", "c").error_code == ErrorCode.NONE


def test_a_token_that_is_gone_is_not_renewed() -> None:
    """The renewal also removes the token, so one that its owner has expired cannot return."""
    cluster = Cluster()
    token = DelegationToken(token_id="t", expiry_ms=1 << 50)
    later = DelegationToken(token_id="t", expiry_ms=1 << 51)
    alter(cluster, tokens=[token])
    for _ in range(2):  # a lost reply has it sent again
        alter(cluster, tokens=[later], removed_token_ids=["t"])
        assert cluster.state.security.tokens == {"t": later}
    alter(cluster, removed_token_ids=["t"])
    alter(cluster, tokens=[later], removed_token_ids=["t"])
    assert not cluster.state.security.tokens
