"""The list of quotas, and the changes to it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.console import formats
from lacuna.console.editing import Done, Edit, Effect, Field, Turn, check, on_cluster, to_access
from lacuna.console.site import BadRequest, link
from lacuna.controlplane.shared.acls import Operation
from lacuna.operating.exchanges.quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from lacuna.wire.messages.client_quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)

#: The quotas, and the unit of each value.
_QUOTAS: Final = {
    "producer_byte_rate": "bytes per second",
    "consumer_byte_rate": "bytes per second",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "partitions per second",
}
#: The name of the default entity, which Kafka's messages represent as null.
_DEFAULT: Final = "(default)"
_ENTITIES: Final = {"user": "user", "client-id": "client_id"}
_REMOVES: Final = "/edit/quota/remove"


class QuotaRow(NamedTuple):
    """A quota of a user, a client id, or both. If the quota does not depend on one of them, that field is "".

    "(default)" stands for all users or client ids without a quota of their own.
    """

    user: str
    client_id: str
    quota: str
    value: str
    unit: str

    @property
    def removal(self) -> str:
        """The address of the form that removes the quota."""
        return link(
            _REMOVES,
            user=self.user or None,
            client_id=self.client_id or None,
            quota=self.quota,
        )


async def rows(turn: Turn) -> list[QuotaRow]:
    """Return the cluster's quotas, sorted. Raises NotAllowed, BadRequest."""
    response = await turn.ask(*DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest())
    check(response.error_code, "quotas", response.error_message)
    found = []
    for entry in response.entries or ():
        names = {
            each.entity_type: _DEFAULT if each.entity_name is None else each.entity_name
            for each in entry.entity
        }
        found += [
            QuotaRow(
                names.get("user", ""),
                names.get("client-id", ""),
                value.key,
                f"{value.value:.15g}",
                _QUOTAS.get(value.key, ""),
            )
            for value in entry.values
        ]
    return sorted(found)


async def _quota_fields(_turn: Turn) -> Sequence[Field]:
    hint = f"{_DEFAULT} for all that have no quota of their own."
    return (
        Field(name="user", label="User", hint=hint, is_required=False),
        Field(name="client_id", label="Client id", hint=hint, is_required=False),
        Field(name="quota", label="Quota", kind="select", choices=tuple(_QUOTAS)),
        Field(
            name="value",
            label="Value",
            hint="; ".join(f"{name}: {unit}" for name, unit in _QUOTAS.items()),
        ),
    )


def _entity_of(turn: Turn) -> list[EntityData]:
    """Parse the entity in the form's fields. Raises BadRequest."""
    entity = [
        EntityData(kind, None if turn.text(name) == _DEFAULT else turn.text(name))
        for kind, name in _ENTITIES.items()
        if turn.text(name)
    ]
    if not entity:
        raise BadRequest("Enter a user, a client id, or both.")
    return entity


def _whose(turn: Turn) -> str:
    return " and ".join(
        f"{kind} {turn.text(name)}" for kind, name in _ENTITIES.items() if turn.text(name)
    )


async def _alter_quota(turn: Turn, change: OpData, *, validate_only: bool) -> None:
    response = await turn.ask(
        *ALTER_CLIENT_QUOTAS,
        AlterClientQuotasRequest([EntryData(_entity_of(turn), [change])], validate_only),
    )
    (result,) = response.entries
    check(result.error_code, f"quota of {_whose(turn)}", result.error_message)


def _quota_of(turn: Turn) -> OpData:
    text = turn.text("value").replace(",", "")
    try:
        return OpData(turn.text("quota"), float(text))
    except ValueError as error:
        raise BadRequest(f"{text[:40]!r} is not a number") from error


async def _preview_quota(turn: Turn) -> Effect:
    change = _quota_of(turn)
    await _alter_quota(turn, change, validate_only=True)
    unit = _QUOTAS.get(change.key, "")
    about = f"Sets {change.key} for {_whose(turn)} to {formats.number(change.value)} {unit}."
    return Effect(sentences=[about])


async def _set_quota(turn: Turn) -> Done:
    change = _quota_of(turn)
    await _alter_quota(turn, change, validate_only=False)
    return Done(f"Set {change.key} for {_whose(turn)}.", "/access")


async def _preview_no_quota(turn: Turn) -> Effect:
    await _alter_quota(turn, OpData(turn.text("quota"), 0.0, True), validate_only=True)
    about = f"Removes {turn.text('quota')} for {_whose(turn)}."
    return Effect(sentences=[about], is_destructive=True)


async def _remove_quota(turn: Turn) -> Done:
    await _alter_quota(turn, OpData(turn.text("quota"), 0.0, True), validate_only=False)
    return Done(f"Removed {turn.text('quota')} for {_whose(turn)}.", "/access")


EDITS: Final = (
    Edit(
        path="/edit/quota",
        title="Set a quota",
        button="Set",
        needs=on_cluster(Operation.ALTER_CONFIGS),
        fields=_quota_fields,
        preview=_preview_quota,
        apply=_set_quota,
        on="access",
        back=to_access,
    ),
    Edit(
        path=_REMOVES,
        title="Remove a quota",
        button="Remove",
        needs=on_cluster(Operation.ALTER_CONFIGS),
        preview=_preview_no_quota,
        apply=_remove_quota,
        on="row",
        back=to_access,
    ),
)
