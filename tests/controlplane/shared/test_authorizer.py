"""Compares decisions based on ACLs with a straightforward reading of Kafka's rules."""

import sys
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.shared.acls import (
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from lacuna.controlplane.shared.authorizer import Authorizer
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.shared.security import AclEntry, Security
from lacuna.controlplane.v1.security_pb2 import SecurityChanges

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALICE: Final = Principal("User", "alice")
HOST: Final = "10.0.0.1"
#: An operation, and those that allow it when they are allowed.
IMPLIED: Final = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def acl(
    name: str = "t",
    operation: int = Operation.READ,
    permission: int = Permission.ALLOW,
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    kind: int = TOPIC,
) -> AclEntry:
    return AclEntry(kind, name, pattern, principal, host, operation, permission)


def change(
    security: Security, added: list[AclEntry], removed: tuple[AclEntry, ...] | list[AclEntry] = ()
) -> None:
    security.apply(
        SecurityChanges(
            added_acls=[each.message() for each in added],
            removed_acls=[each.message() for each in removed],
        )
    )


def authorizer(*acls: AclEntry, **settings: bool) -> Authorizer:
    security = Security()
    change(security, list(acls))
    return Authorizer(security, [Principal("User", "root")], **settings)


def may(asked: Authorizer, operation: int, name: str = "t", host: str = HOST) -> bool:
    return asked.allows(ALICE, host, operation, TOPIC, name)


def naive(
    acls: list[AclEntry], who: str, host: str, operation: int, kind: int, name: str, default: bool
) -> bool:
    """Apply Kafka's rules as its documentation states them."""
    found = [
        each
        for each in acls
        if each.resource_type == kind
        and (
            name.startswith(each.resource_name)
            if each.pattern_type == PREFIXED
            else each.resource_name in ("*", name)
        )
    ]
    if not found:
        return default
    mine = [
        each for each in found if each.principal in (who, "User:*") and each.host in ("*", host)
    ]
    same = [each for each in mine if each.operation in (Operation.ALL, operation)]
    if any(each.permission == Permission.DENY for each in same):
        return False
    implied = IMPLIED.get(Operation(operation), set())
    granting = same + [each for each in mine if each.operation in implied]
    return any(each.permission == Permission.ALLOW for each in granting)


ACLS: Final = st.builds(
    acl,
    name=st.sampled_from(["*", "a", "ab", "abc", "b", "t"]),
    operation=st.sampled_from([*Operation][2:]),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
    pattern=st.sampled_from([LITERAL, PREFIXED]),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.sampled_from(["*", HOST, "10.0.0.2"]),
    kind=st.sampled_from([TOPIC, GROUP]),
)


@given(
    acls=st.lists(ACLS, max_size=8),
    more=st.lists(ACLS, max_size=4),
    default=st.booleans(),
    name=st.sampled_from(["a", "ab", "abc", "abcd", "b", "*", ""]),
    operation=st.sampled_from([*Operation][3:]),
)
def test_decisions_are_those_of_a_plain_reading(
    acls: list[AclEntry], more: list[AclEntry], default: bool, name: str, operation: int
) -> None:
    """This also holds after ACLs are added and removed."""
    security = Security()
    asked = Authorizer(security, allows_without_acls=default)
    for added, removed in ((acls, []), (more, acls[:3]), ([], more)):
        change(security, added, removed)
        kept = list(security.acls)
        expected = naive(kept, "User:alice", HOST, operation, TOPIC, name, default)
        assert asked.allows(ALICE, HOST, operation, TOPIC, name) is expected
        assert asked.rule(ALICE, HOST, operation, TOPIC, name).startswith(("Matching", "Default"))


@given(acls=st.lists(ACLS, max_size=8), operation=st.sampled_from([*Operation][3:]))
def test_what_is_allowed_somewhere(acls: list[AclEntry], operation: int) -> None:
    """An operation is allowed somewhere only if these ACLs allow it for some name."""
    asked = authorizer(*acls)
    kept = [
        each
        for each in acls
        if each.operation in (Operation.ALL, operation) or each.permission == Permission.DENY
    ]
    names = {each.resource_name + end for each in acls for end in ("", "z", "~")} | {"hardcode"}
    somewhere = any(
        naive(kept, "User:alice", HOST, operation, TOPIC, name, False)
        for name in names - {"*", "*z"}
    )
    if somewhere:
        assert asked.allows_somewhere(ALICE, HOST, operation, TOPIC)


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ([], False),
        ([acl(operation=Operation.WRITE)], True),
        ([acl("a", Operation.WRITE, pattern=PREFIXED)], True),
        ([acl("*", Operation.WRITE), acl("*", Operation.WRITE, Permission.DENY)], False),
        ([acl("a", Operation.WRITE), acl("a", Operation.WRITE, Permission.DENY)], False),
        ([acl("ab", Operation.WRITE), acl("a", Operation.WRITE, Permission.DENY, PREFIXED)], False),
        ([acl("a", Operation.WRITE), acl("ab", Operation.WRITE, Permission.DENY, PREFIXED)], True),
        (
            [
                acl("a", Operation.WRITE, pattern=PREFIXED),
                acl("a", Operation.WRITE, Permission.DENY),
            ],
            True,
        ),
        ([acl("a", Operation.WRITE, kind=GROUP)], False),
        ([acl("a", Operation.WRITE, host="10.0.0.9")], False),
    ],
)
def test_an_idempotent_producer_needs_one_topic(acls: list[AclEntry], is_allowed: bool) -> None:
    """KIP-679: a topic does not count if an ACL for a prefix or for the same name denies it."""
    assert authorizer(*acls).allows_somewhere(ALICE, HOST, Operation.WRITE, TOPIC) is is_allowed


def test_super_users_may_do_everything() -> None:
    asked = authorizer(acl("t", Operation.ALL, Permission.DENY, principal="User:*"))
    root = Principal("User", "root")
    assert asked.allows(root, HOST, Operation.DELETE, TOPIC, "t")
    assert asked.rule(root, HOST, Operation.DELETE, TOPIC, "t") == "SuperUser"
    assert not may(asked, Operation.DESCRIBE)


def test_a_denied_operation_does_not_deny_what_it_implies() -> None:
    asked = authorizer(
        acl(operation=Operation.ALL), acl(operation=Operation.READ, permission=Permission.DENY)
    )
    assert may(asked, Operation.DESCRIBE)
    assert not may(asked, Operation.READ)


@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1"])
def test_an_address_may_be_written_in_several_ways(host: str) -> None:
    """Kafka writes ::1 in full, and an IPv4 client of an IPv6 listener appears as ::ffff:ADDRESS."""
    asked = authorizer(acl(host=host), acl("u", host="127.0.0.1"))
    assert may(asked, Operation.READ, host="::1")
    assert may(asked, Operation.READ, "u", host="::ffff:127.0.0.1")
    assert not may(asked, Operation.READ, host="127.0.0.1")


def test_changes_take_effect_at_once() -> None:
    security = Security()
    asked = Authorizer(security)
    assert not may(asked, Operation.READ)
    change(security, [acl()])
    assert may(asked, Operation.READ)
    change(security, [], [acl()])
    assert not may(asked, Operation.READ)
    change(security, [acl()])
    security.clear()
    assert not may(asked, Operation.READ)


@pytest.mark.slow
def test_many_changes_at_once_are_not_lost() -> None:
    """There are more changes than are remembered individually."""
    security = Security()
    asked = Authorizer(security)
    change(security, [acl(f"t{number}") for number in range(3000)])
    assert all(may(asked, Operation.READ, f"t{number}") for number in range(3000))
    change(security, [], [acl(f"t{number}") for number in range(1, 3000)])
    assert [number for number in range(3000) if may(asked, Operation.READ, f"t{number}")] == [0]
    for number in range(10):
        change(security, [acl(f"t{number}")], [acl("t0")])
        assert may(asked, Operation.READ, f"t{number}")


def test_operations_are_bits() -> None:
    asked = authorizer(acl(operation=Operation.WRITE), acl(operation=Operation.ALTER_CONFIGS))
    allowed = (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )
    assert asked.operations(ALICE, HOST, TOPIC, "t") == sum(1 << each for each in allowed)
    assert asked.operations(ALICE, HOST, TOPIC, "u") == 0


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (AclFilter(), {"abc", "ab", "*", "g"}),
        (AclFilter(TOPIC), {"abc", "ab", "*"}),
        (AclFilter(TOPIC, "abc"), {"abc"}),
        (AclFilter(TOPIC, "abc", PatternType.MATCH), {"abc", "ab", "*"}),
        (AclFilter(TOPIC, "b", PatternType.MATCH), {"*"}),
        (AclFilter(TOPIC, "ab", PREFIXED), {"ab"}),
        (AclFilter(TOPIC, None, PREFIXED), {"ab"}),
        (AclFilter(TOPIC, "ab", LITERAL), set()),
        (AclFilter(principal="User:bob"), {"*"}),
        (AclFilter(host=HOST), {"g"}),
        (AclFilter(operation=Operation.WRITE), {"ab"}),
        (AclFilter(permission=Permission.DENY), {"abc"}),
    ],
)
def test_filters(wanted: AclFilter, names: set[str]) -> None:
    acls = [
        acl("abc", permission=Permission.DENY),
        acl("ab", Operation.WRITE, pattern=PREFIXED),
        acl("*", principal="User:bob"),
        acl("g", kind=GROUP, host=HOST),
    ]
    assert {each.resource_name for each in acls if wanted.matches(each)} == names


def test_long_names_are_not_remembered() -> None:
    """Clients choose the names, and the cache is bounded in decisions rather than bytes."""
    asked = authorizer(acl("n", pattern=PREFIXED))
    for length, references in ((256, 1), (257, 0)):
        name = "n" * length
        before = sys.getrefcount(name)
        assert may(asked, Operation.READ, name)
        assert sys.getrefcount(name) == before + references
        assert may(asked, Operation.READ, name)
