"""Configs of single groups: AlterConfigs, DescribeConfigs and ListConfigResources of the type GROUP.

A group need not exist to have them, and they outlive it, as in Kafka.
"""

from controlplane.errors import ErrorCode
from controlplane.group_configs import alter
from controlplane.groups.turn import Turn
from controlplane.topic_configs import InvalidConfig
from controlplane.v1.consumer_groups_pb2 import (
    AlterGroupConfigs,
    DescribeGroupConfigs,
    GroupConfigs,
    GroupConfigsAltered,
    GroupConfigsDescribed,
)
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.group_records_pb2 import GroupRecord


def decide_alter_configs(turn: Turn, command: AlterGroupConfigs) -> Reply:
    """All changes, or none. With `replaces_all` what is not named is at its default again."""
    before = turn.groups.configs.get(command.group_id, {})
    configs = {} if command.replaces_all else before
    if not command.group_id:
        return _refuse(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if len({change.name for change in command.changes}) < len(command.changes):
        return _refuse(ErrorCode.INVALID_REQUEST, "A config is named twice.")
    try:
        for change in command.changes:
            configs = alter(configs, change.name, change.operation, change.value)
    except InvalidConfig as invalid:
        return _refuse(ErrorCode.INVALID_CONFIG, str(invalid))
    if configs != before and not command.validate_only:
        record = GroupConfigs(group_id=command.group_id, configs=configs)
        turn.records.append(GroupRecord(group_configs_changed=record))
    return Reply(group_configs_altered=GroupConfigsAltered())


def decide_describe_configs(turn: Turn, command: DescribeGroupConfigs) -> Reply:
    """What was set, of the groups that are named or of all."""
    kept = turn.groups.configs
    named = sorted(kept) if command.all_groups else dict.fromkeys(command.group_ids)
    groups = [GroupConfigs(group_id=each, configs=kept[each]) for each in named if each in kept]
    return Reply(group_configs_described=GroupConfigsDescribed(groups=groups))


def _refuse(error_code: ErrorCode, message: str) -> Reply:
    altered = GroupConfigsAltered(error_code=error_code, error_message=message)
    return Reply(group_configs_altered=altered)
