from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScramCredential(_message.Message):
    __slots__ = ("user", "mechanism", "iterations", "salt", "stored_key", "server_key")
    USER_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    user: str
    mechanism: int
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    def __init__(self, user: _Optional[str] = ..., mechanism: _Optional[int] = ..., iterations: _Optional[int] = ..., salt: _Optional[bytes] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ...) -> None: ...

class Acl(_message.Message):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., pattern_type: _Optional[int] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission: _Optional[int] = ...) -> None: ...

class QuotaEntity(_message.Message):
    __slots__ = ("type", "name")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    type: str
    name: str
    def __init__(self, type: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Quota(_message.Message):
    __slots__ = ("entity", "set", "removed")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    entity: _containers.RepeatedCompositeFieldContainer[QuotaEntity]
    set: _containers.ScalarMap[str, float]
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, entity: _Optional[_Iterable[_Union[QuotaEntity, _Mapping]]] = ..., set: _Optional[_Mapping[str, float]] = ..., removed: _Optional[_Iterable[str]] = ...) -> None: ...

class DelegationToken(_message.Message):
    __slots__ = ("token_id", "owner", "requester", "renewers", "issued_ms", "expiry_ms", "max_ms")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    RENEWERS_FIELD_NUMBER: _ClassVar[int]
    ISSUED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_MS_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    owner: str
    requester: str
    renewers: _containers.RepeatedScalarFieldContainer[str]
    issued_ms: int
    expiry_ms: int
    max_ms: int
    def __init__(self, token_id: _Optional[str] = ..., owner: _Optional[str] = ..., requester: _Optional[str] = ..., renewers: _Optional[_Iterable[str]] = ..., issued_ms: _Optional[int] = ..., expiry_ms: _Optional[int] = ..., max_ms: _Optional[int] = ...) -> None: ...

class SecurityChanges(_message.Message):
    __slots__ = ("credentials", "added_acls", "removed_acls", "quotas", "tokens", "removed_token_ids", "configs", "removed_configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    ADDED_ACLS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_ACLS_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    credentials: _containers.RepeatedCompositeFieldContainer[ScramCredential]
    added_acls: _containers.RepeatedCompositeFieldContainer[Acl]
    removed_acls: _containers.RepeatedCompositeFieldContainer[Acl]
    quotas: _containers.RepeatedCompositeFieldContainer[Quota]
    tokens: _containers.RepeatedCompositeFieldContainer[DelegationToken]
    removed_token_ids: _containers.RepeatedScalarFieldContainer[str]
    configs: _containers.ScalarMap[str, str]
    removed_configs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, credentials: _Optional[_Iterable[_Union[ScramCredential, _Mapping]]] = ..., added_acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., removed_acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., quotas: _Optional[_Iterable[_Union[Quota, _Mapping]]] = ..., tokens: _Optional[_Iterable[_Union[DelegationToken, _Mapping]]] = ..., removed_token_ids: _Optional[_Iterable[str]] = ..., configs: _Optional[_Mapping[str, str]] = ..., removed_configs: _Optional[_Iterable[str]] = ...) -> None: ...

class AlterSecurity(_message.Message):
    __slots__ = ("changes",)
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: SecurityChanges
    def __init__(self, changes: _Optional[_Union[SecurityChanges, _Mapping]] = ...) -> None: ...

class QuotaUse(_message.Message):
    __slots__ = ("key", "entity", "used", "is_short")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    IS_SHORT_FIELD_NUMBER: _ClassVar[int]
    key: str
    entity: _containers.RepeatedCompositeFieldContainer[QuotaEntity]
    used: float
    is_short: bool
    def __init__(self, key: _Optional[str] = ..., entity: _Optional[_Iterable[_Union[QuotaEntity, _Mapping]]] = ..., used: _Optional[float] = ..., is_short: _Optional[bool] = ...) -> None: ...

class ShareQuotas(_message.Message):
    __slots__ = ("lease_id", "uses")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    uses: _containers.RepeatedCompositeFieldContainer[QuotaUse]
    def __init__(self, lease_id: _Optional[int] = ..., uses: _Optional[_Iterable[_Union[QuotaUse, _Mapping]]] = ...) -> None: ...

class QuotasShared(_message.Message):
    __slots__ = ("error_code", "shares")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    shares: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, error_code: _Optional[int] = ..., shares: _Optional[_Iterable[float]] = ...) -> None: ...
