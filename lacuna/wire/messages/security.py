"""Security. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bytes, In, Int8, Int16, Int32, Int64, String, messages


class ScramCredentialDeletion(NamedTuple):
    name: String = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(NamedTuple):
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


class AlterUserScramCredentialsRequest(NamedTuple):
    deletions: Sequence[ScramCredentialDeletion] = ()
    upsertions: Sequence[ScramCredentialUpsertion] = ()


class AlterUserScramCredentialsResult(NamedTuple):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class AlterUserScramCredentialsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[AlterUserScramCredentialsResult] = ()


class AclCreation(NamedTuple):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Annotated[Int8, In(since=1)] = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(NamedTuple):
    creations: Sequence[AclCreation] = ()


class AclCreationResult(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""


class CreateAclsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[AclCreationResult] = ()


class CreatableRenewers(NamedTuple):
    principal_type: String = ""
    principal_name: String = ""


class CreateDelegationTokenRequest(NamedTuple):
    owner_principal_type: Annotated[String | None, In(since=3)] = ""
    owner_principal_name: Annotated[String | None, In(since=3)] = ""
    renewers: Sequence[CreatableRenewers] = ()
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, In(since=3)] = ""
    token_requester_principal_name: Annotated[String, In(since=3)] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0


class DeleteAclsFilter(NamedTuple):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Annotated[Int8, In(since=1)] = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(NamedTuple):
    filters: Sequence[DeleteAclsFilter] = ()


class DeleteAclsMatchingAcl(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Annotated[Int8, In(since=1)] = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: Sequence[DeleteAclsMatchingAcl] = ()


class DeleteAclsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    filter_results: Sequence[DeleteAclsFilterResult] = ()


class DescribeAclsRequest(NamedTuple):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Annotated[Int8, In(since=1)] = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(NamedTuple):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(NamedTuple):
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Annotated[Int8, In(since=1)] = 3
    acls: Sequence[AclDescription] = ()


class DescribeAclsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: Sequence[DescribeAclsResource] = ()


class DescribeDelegationTokenOwner(NamedTuple):
    principal_type: String = ""
    principal_name: String = ""


class DescribeDelegationTokenRequest(NamedTuple):
    owners: Sequence[DescribeDelegationTokenOwner] | None = ()


class DescribedDelegationTokenRenewer(NamedTuple):
    principal_type: String = ""
    principal_name: String = ""


class DescribedDelegationToken(NamedTuple):
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, In(since=3)] = ""
    token_requester_principal_name: Annotated[String, In(since=3)] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: Sequence[DescribedDelegationTokenRenewer] = ()


class DescribeDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    tokens: Sequence[DescribedDelegationToken] = ()
    throttle_time_ms: Int32 = 0


class UserName(NamedTuple):
    name: String = ""


class DescribeUserScramCredentialsRequest(NamedTuple):
    users: Sequence[UserName] | None = ()


class CredentialInfo(NamedTuple):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(NamedTuple):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: Sequence[CredentialInfo] = ()


class DescribeUserScramCredentialsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Sequence[DescribeUserScramCredentialsResult] = ()


class ExpireDelegationTokenRequest(NamedTuple):
    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class RenewDelegationTokenRequest(NamedTuple):
    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class SaslAuthenticateRequest(NamedTuple):
    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, In(since=1)] = 0


class SaslHandshakeRequest(NamedTuple):
    mechanism: String = ""


class SaslHandshakeResponse(NamedTuple):
    error_code: Int16 = 0
    mechanisms: Sequence[String] = ()


ALTER_USER_SCRAM_CREDENTIALS_REQUEST, ALTER_USER_SCRAM_CREDENTIALS_RESPONSE = messages(
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    api_key=51,
    versions=(0, 0),
    first_flexible=0,
)

CREATE_ACLS_REQUEST, CREATE_ACLS_RESPONSE = messages(
    CreateAclsRequest, CreateAclsResponse, api_key=30, versions=(0, 3), first_flexible=2
)

CREATE_DELEGATION_TOKEN_REQUEST, CREATE_DELEGATION_TOKEN_RESPONSE = messages(
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    api_key=38,
    versions=(0, 3),
    first_flexible=2,
)

DELETE_ACLS_REQUEST, DELETE_ACLS_RESPONSE = messages(
    DeleteAclsRequest, DeleteAclsResponse, api_key=31, versions=(0, 3), first_flexible=2
)

DESCRIBE_ACLS_REQUEST, DESCRIBE_ACLS_RESPONSE = messages(
    DescribeAclsRequest, DescribeAclsResponse, api_key=29, versions=(0, 3), first_flexible=2
)

DESCRIBE_DELEGATION_TOKEN_REQUEST, DESCRIBE_DELEGATION_TOKEN_RESPONSE = messages(
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    api_key=41,
    versions=(0, 3),
    first_flexible=2,
)

DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST, DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE = messages(
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    api_key=50,
    versions=(0, 0),
    first_flexible=0,
)

EXPIRE_DELEGATION_TOKEN_REQUEST, EXPIRE_DELEGATION_TOKEN_RESPONSE = messages(
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    api_key=40,
    versions=(0, 2),
    first_flexible=2,
)

RENEW_DELEGATION_TOKEN_REQUEST, RENEW_DELEGATION_TOKEN_RESPONSE = messages(
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    api_key=39,
    versions=(0, 2),
    first_flexible=2,
)

SASL_AUTHENTICATE_REQUEST, SASL_AUTHENTICATE_RESPONSE = messages(
    SaslAuthenticateRequest, SaslAuthenticateResponse, api_key=36, versions=(0, 2), first_flexible=2
)

SASL_HANDSHAKE_REQUEST, SASL_HANDSHAKE_RESPONSE = messages(
    SaslHandshakeRequest, SaslHandshakeResponse, api_key=17, versions=(0, 1), first_flexible=None
)
