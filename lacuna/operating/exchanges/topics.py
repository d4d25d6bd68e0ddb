"""Requests about topics, their configs and their records."""

from typing import Final

from lacuna.wire.messages import configs, fetch, topics

CREATE_PARTITIONS: Final = topics.CREATE_PARTITIONS_REQUEST, topics.CREATE_PARTITIONS_RESPONSE, 3
CREATE_TOPICS: Final = topics.CREATE_TOPICS_REQUEST, topics.CREATE_TOPICS_RESPONSE, 7
DELETE_RECORDS: Final = topics.DELETE_RECORDS_REQUEST, topics.DELETE_RECORDS_RESPONSE, 2
DELETE_TOPICS: Final = topics.DELETE_TOPICS_REQUEST, topics.DELETE_TOPICS_RESPONSE, 6
DESCRIBE_CONFIGS: Final = configs.DESCRIBE_CONFIGS_REQUEST, configs.DESCRIBE_CONFIGS_RESPONSE, 4
#: The last version with topic names instead of topic ids.
FETCH: Final = fetch.FETCH_REQUEST, fetch.FETCH_RESPONSE, 12
INCREMENTAL_ALTER_CONFIGS: Final = (
    configs.INCREMENTAL_ALTER_CONFIGS_REQUEST,
    configs.INCREMENTAL_ALTER_CONFIGS_RESPONSE,
    1,
)
LIST_OFFSETS: Final = fetch.LIST_OFFSETS_REQUEST, fetch.LIST_OFFSETS_RESPONSE, 9
METADATA: Final = topics.METADATA_REQUEST, topics.METADATA_RESPONSE, 12
