"""Requests about quotas."""

from typing import Final

from lacuna.wire.messages import client_quotas

ALTER_CLIENT_QUOTAS: Final = (
    client_quotas.ALTER_CLIENT_QUOTAS_REQUEST,
    client_quotas.ALTER_CLIENT_QUOTAS_RESPONSE,
    1,
)
DESCRIBE_CLIENT_QUOTAS: Final = (
    client_quotas.DESCRIBE_CLIENT_QUOTAS_REQUEST,
    client_quotas.DESCRIBE_CLIENT_QUOTAS_RESPONSE,
    1,
)
