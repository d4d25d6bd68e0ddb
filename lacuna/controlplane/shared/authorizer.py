"""Authorizes operations according to the rules of Kafka's StandardAuthorizer (KIP-11, KIP-290, KIP-801).

Super users may do anything. Of the ACLs that apply to a resource (by its name, a prefix of its name, or `*`), those
that deny the operation take precedence over those that allow it. Without an ACL that allows it, the operation is
denied. An ACL that allows Read, Write, Delete or Alter also allows Describe, and one that allows AlterConfigs also
allows DescribeConfigs; one that denies an operation denies nothing else.

Only the ACLs of the principal and of User:* are considered. They are looked up under each name that can match, which
takes a few microseconds, whether there are ten ACLs or 100,000. Decisions are cached until an ACL changes, except those
about long names, which clients could use to fill the memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final, TypeVar

from lacuna.controlplane.shared.acls import (
    EVERYBODY,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.hosts import plain_host
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.shared.security import AclEntry, Security

_LITERAL, _PREFIXED = int(PatternType.LITERAL), int(PatternType.PREFIXED)
_ALL, _DENY, _ALLOW = int(Operation.ALL), int(Permission.DENY), int(Permission.ALLOW)
#: For each requested operation, the other operations whose ACLs allow it as well.
_IMPLIED_BY: Final = {
    int(Operation.DESCRIBE): frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    int(Operation.DESCRIBE_CONFIGS): frozenset({Operation.ALTER_CONFIGS}),
}
_NONE: Final[frozenset[Operation]] = frozenset()
_MOST_REMEMBERED: Final = 16_384
_LONGEST_REMEMBERED: Final = 256

#: The operations that apply to each type of resource (KIP-430).
OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}

#: The error that tells a client that it may not use a resource, by resource type.
DENIED: Final[Mapping[int, int]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

K = TypeVar("K")

#: Resource type, pattern type, name.
_Pattern = tuple[int, int, str]


class Authorizer:
    """Authorizes operations according to the ACLs in `security`, and follows changes to them."""

    def __init__(
        self,
        security: Security,
        super_users: Iterable[Principal] = (),
        *,
        allows_without_acls: bool = False,
    ) -> None:
        """`allows_without_acls` is allow.everyone.if.no.acl.found: everyone may access resources without ACLs."""
        self._security = security
        self._super_users = frozenset(super_users)
        self.allows_without_acls = allows_without_acls
        self._version = -1
        #: The ACLs in the index. The dict serves as an ordered set.
        self._acls: dict[AclEntry, None] = {}
        self._by_place: dict[tuple[_Pattern, str], dict[AclEntry, None]] = {}
        self._by_principal: dict[tuple[int, str], dict[AclEntry, None]] = {}
        self._patterns: Counter[_Pattern] = Counter()
        #: The number of prefixes of each length, by resource type.
        self._prefixes: dict[int, Counter[int]] = {}
        self._remembered: dict[tuple[Principal, str, int, int, str | None], bool] = {}

    @property
    def version(self) -> int:
        """A number that changes whenever a decision may have changed."""
        return self._security.acls_version

    def is_super(self, principal: Principal) -> bool:
        return principal in self._super_users

    def allows(
        self, principal: Principal, host: str, operation: int, resource_type: int, name: str
    ) -> bool:
        """Return whether a principal at an address may perform an operation on a resource."""
        if principal in self._super_users:
            return True
        if self._version != self._security.acls_version:
            self._update()
        key = principal, host, operation, resource_type, name
        found = self._remembered.get(key)
        if found is None:
            found = self._decide(str(principal), plain_host(host), operation, resource_type, name)[
                0
            ]
            self._remember(key, found)
        return found

    def allows_somewhere(
        self, principal: Principal, host: str, operation: int, resource_type: int
    ) -> bool:
        """Return whether a principal may perform an operation on any resource of a type, which need not exist
        (KIP-679).
        """
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        key = principal, host, operation, resource_type, None
        found = self._remembered.get(key)
        if found is None:
            found = self._look_everywhere(
                str(principal), plain_host(host), operation, resource_type
            )
            self._remember(key, found)
        return found

    def rule(
        self, principal: Principal, host: str, operation: int, resource_type: int, name: str
    ) -> str:
        """Return the rule that applies to an operation, in the words of Kafka's log."""
        if principal in self._super_users:
            return "SuperUser"
        if self._version != self._security.acls_version:
            self._update()
        decision = self._decide(str(principal), plain_host(host), operation, resource_type, name)
        is_allowed, acl = decision
        if acl is not None:
            return f"MatchingAcl(acl={described(acl)})"
        return "DefaultAllow" if is_allowed else "DefaultDeny"

    def operations(self, principal: Principal, host: str, resource_type: int, name: str) -> int:
        """Return the operations that a principal may perform on a resource, as a bit field (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS[ResourceType(resource_type)]
            if self.allows(principal, host, operation, resource_type, name)
        )

    def _remember(self, key: tuple[Principal, str, int, int, str | None], found: bool) -> None:
        name = key[-1]
        if name is not None and len(name) > _LONGEST_REMEMBERED:
            return
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = found

    def _decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> tuple[bool, AclEntry | None]:
        allowing = None
        has_acls = False
        for pattern in self._patterns_of(resource_type, name):
            has_acls = has_acls or pattern in self._patterns
            for who in (principal, EVERYBODY):
                for acl in self._by_place.get((pattern, who), ()):
                    if acl.host != WILDCARD and plain_host(acl.host) != host:
                        continue
                    if acl.permission == _DENY and acl.operation in (_ALL, operation):
                        return False, acl
                    if acl.permission == _ALLOW and _grants(acl.operation, operation):
                        allowing = acl
        if allowing is not None:
            return True, allowing
        return self.allows_without_acls and not has_acls, None

    def _patterns_of(self, resource_type: int, name: str) -> Iterator[_Pattern]:
        yield resource_type, _LITERAL, name
        yield resource_type, _LITERAL, WILDCARD
        for length in self._prefixes.get(resource_type, ()):
            if length <= len(name):
                yield resource_type, _PREFIXED, name[:length]

    def _look_everywhere(
        self, principal: str, host: str, operation: int, resource_type: int
    ) -> bool:
        allowed: set[tuple[int, str]] = set()
        denied: set[tuple[int, str]] = set()
        for who in {principal, EVERYBODY}:
            for acl in self._by_principal.get((resource_type, who), ()):
                # No operation implies another here, as in Kafka.
                if acl.operation not in (_ALL, operation):
                    continue
                if acl.host == WILDCARD or plain_host(acl.host) == host:
                    found = denied if acl.permission == _DENY else allowed
                    found.add((acl.pattern_type, acl.resource_name))
        everything = (_LITERAL, WILDCARD)
        if everything in denied:
            return False
        return everything in allowed or any(not _is_dominated(each, denied) for each in allowed)

    def _update(self) -> None:
        """Update the index with the latest changes or, if there are too many, by comparing all ACLs."""
        security = self._security
        behind = security.acls_version - self._version
        self._version = security.acls_version
        self._remembered.clear()
        kept = len(security.acl_news)
        if behind <= kept:
            for acl, is_added in islice(security.acl_news, kept - behind, None):
                (self._add if is_added else self._remove)(acl)
            return
        now = security.acls
        for acl in self._acls.keys() - now.keys():
            self._remove(acl)
        for acl in now.keys() - self._acls.keys():
            self._add(acl)

    def _add(self, acl: AclEntry) -> None:
        self._acls[acl] = None
        pattern = acl.resource_type, acl.pattern_type, acl.resource_name
        self._by_place.setdefault((pattern, acl.principal), {})[acl] = None
        self._by_principal.setdefault((acl.resource_type, acl.principal), {})[acl] = None
        self._patterns[pattern] += 1
        if acl.pattern_type == _PREFIXED:
            self._prefixes.setdefault(acl.resource_type, Counter())[len(acl.resource_name)] += 1

    def _remove(self, acl: AclEntry) -> None:
        del self._acls[acl]
        pattern = acl.resource_type, acl.pattern_type, acl.resource_name
        _drop(self._by_place, (pattern, acl.principal), acl)
        _drop(self._by_principal, (acl.resource_type, acl.principal), acl)
        _count_down(self._patterns, pattern)
        if acl.pattern_type == _PREFIXED:
            _count_down(self._prefixes[acl.resource_type], len(acl.resource_name))


def _grants(allowed: int, asked: int) -> bool:
    return allowed in (_ALL, asked) or allowed in _IMPLIED_BY.get(asked, _NONE)


def _is_dominated(allowed: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    """Whether denials cover all names that a pattern allows."""
    kind, name = allowed
    if kind == _LITERAL and allowed in denied:
        return True
    return any((_PREFIXED, name[: end + 1]) in denied for end in range(len(name)))


def _drop(index: dict[K, dict[AclEntry, None]], key: K, acl: AclEntry) -> None:
    del index[key][acl]
    if not index[key]:
        del index[key]


def _count_down(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


@lru_cache(maxsize=4096)
def described(acl: AclEntry) -> str:
    """Return an ACL in words, as in Kafka's log."""
    return (
        f"StandardAcl(resourceType={ResourceType(acl.resource_type).name}, resourceName={acl.resource_name}, "
        f"patternType={PatternType(acl.pattern_type).name}, principal={acl.principal}, host={acl.host}, "
        f"operation={Operation(acl.operation).name}, permissionType={Permission(acl.permission).name})"
    )
