"""AlterConfigs, DescribeConfigs and ListConfigResources for groups.

As in Kafka, a group's configs can be set before the group exists, and outlive it.
"""

from collections.abc import Iterable
from typing import Final

from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import alter
from lacuna.controlplane.shared.parts import MOST_LISTED
from lacuna.controlplane.shared.rights import of_groups
from lacuna.controlplane.shared.topic_configs import InvalidConfig
from lacuna.controlplane.state.groups.live import SIZE_OF_NAME
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import Outcome
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    AlterGroupConfigs,
    DescribeGroupConfigs,
    GroupConfigs,
    GroupConfigsDescribed,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord
from lacuna.controlplane.verbs.groups.dropping import of_one_group
from lacuna.controlplane.verbs.parts import following
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


@of_one_group
def alter_group_configs(turn: Turn, command: AlterGroupConfigs) -> Reply:
    """Apply all changes or none. With `replaces_all`, all configs that are not named return to their defaults."""
    before = turn.groups.configs.get(command.group_id, {})
    configs = {} if command.replaces_all else before
    if not command.group_id:
        return _refuse(
            ErrorCode.INVALID_REQUEST,
            "Default group resources are not allowed.",
        )
    if len({change.name for change in command.changes}) < len(command.changes):
        return _refuse(ErrorCode.INVALID_REQUEST, "A config is named twice.")
    try:
        for change in command.changes:
            configs = alter(configs, change.name, change.operation, change.value)
    except InvalidConfig as invalid:
        return _refuse(ErrorCode.INVALID_CONFIG, str(invalid))
    size = SIZE_OF_NAME + len(command.group_id)
    if not before and not turn.groups.has_room(command.group_id, size, turn.principal):
        return _refuse(
            ErrorCode.POLICY_VIOLATION,
            "Groups have used up groups.max.bytes, or a principal's share (principal.max.percent): delete some groups.",
        )
    if configs != before and not command.validate_only:
        record = GroupConfigs(group_id=command.group_id, configs=configs)
        turn.journal_group(GroupRecord(group_configs_changed=record))
    return Reply(group_configs_altered=Outcome())


def describe_group_configs(turn: Turn, command: DescribeGroupConfigs) -> Reply:
    """Return the configs set on the named groups, or on all groups."""
    kept = turn.groups.configs
    named: Iterable[str] = dict.fromkeys(command.group_ids)
    next_after = None
    if command.all_groups:
        after = command.after if command.HasField("after") else None
        named, next_after = following(kept, after, MOST_LISTED)
    groups = [GroupConfigs(group_id=each, configs=kept[each]) for each in named if each in kept]
    answer = GroupConfigsDescribed(groups=groups, next_after=next_after)
    return Reply(group_configs_described=answer)


def _refuse(error_code: ErrorCode, message: str) -> Reply:
    altered = Outcome(error_code=error_code, error_message=message)
    return Reply(group_configs_altered=altered)


def replay_group_configs_changed(state: State, record: GroupConfigs, _now_ms: int) -> None:
    state.groups.set_configs(record)


VERBS: Final = (
    Verb(alter_group_configs),
    Verb(describe_group_configs, looks=True, needs=of_groups(Operation.DESCRIBE_CONFIGS)),
)
REPLAYS: Final = (replay_group_configs_changed,)
