"""The requests about users, ACLs and quotas."""

from typing import Final

from lacuna.wire.messages import client_quotas, security

ALTER_CLIENT_QUOTAS: Final = (
    client_quotas.ALTER_CLIENT_QUOTAS_REQUEST,
    client_quotas.ALTER_CLIENT_QUOTAS_RESPONSE,
    1,
)
ALTER_USER_SCRAM_CREDENTIALS: Final = (
    security.ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
    security.ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
    0,
)
CREATE_ACLS: Final = security.CREATE_ACLS_REQUEST, security.CREATE_ACLS_RESPONSE, 3
DELETE_ACLS: Final = security.DELETE_ACLS_REQUEST, security.DELETE_ACLS_RESPONSE, 3
DESCRIBE_ACLS: Final = security.DESCRIBE_ACLS_REQUEST, security.DESCRIBE_ACLS_RESPONSE, 3
DESCRIBE_CLIENT_QUOTAS: Final = (
    client_quotas.DESCRIBE_CLIENT_QUOTAS_REQUEST,
    client_quotas.DESCRIBE_CLIENT_QUOTAS_RESPONSE,
    1,
)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = (
    security.DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
    security.DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
    0,
)
