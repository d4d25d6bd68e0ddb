"""A cluster's security settings: users, ACLs, quotas, delegation tokens, and the configs of all brokers.

The control plane and each agent keep them as a `Security` object, to which they apply the same changes in the same
order.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from lacuna.controlplane.shared.config_values import shorten
from lacuna.controlplane.v1.security_pb2 import (
    Acl,
    DelegationToken,
    Quota,
    QuotaEntity,
    QuotaUse,
    ScramCredential,
    SecurityChanges,
)

#: Limits on a cluster's security settings. A change that would exceed them is rejected.
MOST_CREDENTIALS: Final = 100_000
MOST_ACLS: Final = 100_000
MOST_QUOTAS: Final = 100_000
MOST_TOKENS: Final = 10_000
#: Keeps one user from using up all tokens.
MOST_TOKENS_OF_ONE: Final = 1_000
_MOST_NEWS: Final = 1024


class AclEntry(NamedTuple):
    """An ACL as a value, with the numbers of Kafka's protocol."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    @classmethod
    def of(cls, message: Acl) -> "AclEntry":
        return cls(
            message.resource_type,
            message.resource_name,
            message.pattern_type,
            message.principal,
            message.host,
            message.operation,
            message.permission,
        )

    def message(self) -> Acl:
        return Acl(**self._asdict())


#: The entity of a quota: (type, name) pairs, ordered by type. The name None stands for the default entity of its type.
Entity = tuple[tuple[str, str | None], ...]


class Security:
    """The settings chosen by operators. `version` grows with each change, for caches of values derived from them."""

    __slots__ = (
        "acl_news",
        "acls",
        "acls_version",
        "configs",
        "credentials",
        "quotas",
        "tokens",
        "version",
    )

    def __init__(self) -> None:
        self.version = 0
        #: Increases by one with each ACL that is added or removed, and when all are dropped.
        self.acls_version = 0
        #: The latest ACLs added (True) or removed (False). Empty after all have been dropped.
        self.acl_news: deque[tuple[AclEntry, bool]] = deque(maxlen=_MOST_NEWS)
        #: by (user, mechanism)
        self.credentials: dict[tuple[str, int], ScramCredential] = {}
        #: A dict as an ordered set.
        self.acls: dict[AclEntry, None] = {}
        self.quotas: dict[Entity, dict[str, float]] = {}
        self.tokens: dict[str, DelegationToken] = {}
        #: by Kafka's names of broker configs
        self.configs: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.credentials or self.acls or self.quotas or self.tokens or self.configs)

    def clear(self) -> None:
        for kept in (self.credentials, self.acls, self.quotas, self.tokens, self.configs):
            kept.clear()
        self.version += 1
        self.acls_version += 1
        self.acl_news.clear()

    def apply(self, changes: SecurityChanges) -> None:
        """Apply changes. Items to be removed need not exist."""
        self.version += 1
        for credential in changes.credentials:
            key = credential.user, credential.mechanism
            if credential.stored_key:
                self.credentials[key] = credential
            else:
                self.credentials.pop(key, None)
        self._apply_acls(changes)
        for quota in changes.quotas:
            self._apply_quota(quota)
        for token_id in changes.removed_token_ids:
            self.tokens.pop(token_id, None)
        for token in changes.tokens:
            self.tokens[token.token_id] = token
        for name in changes.removed_configs:
            self.configs.pop(name, None)
        self.configs.update(changes.configs)

    def _apply_acls(self, changes: SecurityChanges) -> None:
        for acl in map(AclEntry.of, changes.removed_acls):
            if acl in self.acls:
                del self.acls[acl]
                self._note(acl, is_added=False)
        for acl in map(AclEntry.of, changes.added_acls):
            if acl not in self.acls:
                self.acls[acl] = None
                self._note(acl, is_added=True)

    def _note(self, acl: AclEntry, *, is_added: bool) -> None:
        self.acls_version += 1
        self.acl_news.append((acl, is_added))

    def _apply_quota(self, quota: Quota) -> None:
        entity = entity_of(quota)
        if values := self._quota_after(quota):
            self.quotas[entity] = values
        else:
            self.quotas.pop(entity, None)

    def _quota_after(self, quota: Quota) -> dict[str, float]:
        values = {**self.quotas.get(entity_of(quota), {}), **quota.set}
        for name in quota.removed:
            values.pop(name, None)
        return values

    def news(self, changes: SecurityChanges) -> SecurityChanges:
        """Return those changes that have an effect.

        A token that is both removed and added replaces an existing one, and is otherwise ignored.
        """
        removed = set(changes.removed_token_ids)
        added = {each.token_id for each in changes.tokens}
        return SecurityChanges(
            credentials=[each for each in changes.credentials if self._is_news(each)],
            added_acls=[each for each in changes.added_acls if AclEntry.of(each) not in self.acls],
            removed_acls=[each for each in changes.removed_acls if AclEntry.of(each) in self.acls],
            quotas=[
                each
                for each in changes.quotas
                if self._quota_after(each) != self.quotas.get(entity_of(each), {})
            ],
            tokens=[
                each
                for each in changes.tokens
                if self.tokens.get(each.token_id) != each
                and (each.token_id in self.tokens or each.token_id not in removed)
            ],
            removed_token_ids=sorted(removed & self.tokens.keys() - added),
            configs={
                name: value
                for name, value in changes.configs.items()
                if self.configs.get(name) != value
            },
            removed_configs=[each for each in changes.removed_configs if each in self.configs],
        )

    def _is_news(self, credential: ScramCredential) -> bool:
        kept = self.credentials.get((credential.user, credential.mechanism))
        return kept != credential if credential.stored_key else kept is not None

    def snapshot(self) -> SecurityChanges:
        """Return everything as changes to an empty Security."""
        return SecurityChanges(
            credentials=self.credentials.values(),
            added_acls=[acl.message() for acl in self.acls],
            quotas=list(self._quotas()),
            tokens=self.tokens.values(),
            configs=self.configs,
        )

    def _quotas(self) -> Iterator[Quota]:
        for entity, values in self.quotas.items():
            parts = [QuotaEntity(type=kind, name=name) for kind, name in entity]
            yield Quota(entity=parts, set=values)

    def excess(self, changes: SecurityChanges) -> str:
        """Return why the changes would exceed a cluster's limits, or "" if they would not."""
        credentials = {(e.user, e.mechanism) for e in changes.credentials if e.stored_key}
        acls = {AclEntry.of(each) for each in changes.added_acls}
        quotas = {entity_of(each) for each in changes.quotas if self._quota_after(each)}
        tokens = {each.token_id for each in changes.tokens}
        bounds = (
            (
                len(self.credentials),
                credentials - self.credentials.keys(),
                MOST_CREDENTIALS,
                "credentials",
            ),
            (len(self.acls), acls - self.acls.keys(), MOST_ACLS, "ACLs"),
            (len(self.quotas), quotas - self.quotas.keys(), MOST_QUOTAS, "quotas"),
            (len(self.tokens), tokens - self.tokens.keys(), MOST_TOKENS, "delegation tokens"),
        )
        for held, new, most, what in bounds:
            if new and held + len(new) > most:
                return (
                    f"A cluster can have at most {most} {what}, and this one has {held}: remove some "
                    "first."
                )
        owners = Counter(each.owner for each in changes.tokens if each.token_id not in self.tokens)
        held_by = Counter(each.owner for each in self.tokens.values()) if owners else owners
        for owner, new_of_one in owners.items():
            if held_by[owner] + new_of_one > MOST_TOKENS_OF_ONE:
                return (
                    f"A cluster can have at most {MOST_TOKENS_OF_ONE} delegation tokens per owner, and "
                    f"{shorten(owner)} has {held_by[owner]}: expire some first, or use one token for several jobs."
                )
        return ""


def entity_of(quota: Quota | QuotaUse) -> Entity:
    return tuple((part.type, part.name if part.HasField("name") else None) for part in quota.entity)
