"""Guards for the APIs that concern the cluster: coordinators, configs and delegation tokens."""

from collections.abc import Mapping
from typing import Any, Final, cast

from google.protobuf.message import DecodeError

from lacuna.agent.admin import operations
from lacuna.agent.admin.config_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    AlteredResource,
)
from lacuna.agent.api import AnyApi, Call
from lacuna.agent.guards.guard import split, whole
from lacuna.agent.rights import Rights
from lacuna.controlplane.shared.acls import CLUSTER_NAME, Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.shared.rights import PrincipalRights
from lacuna.controlplane.v1.cluster_pb2 import Topic, TopicPartition
from lacuna.controlplane.v1.control_pb2 import AgentAnswer, AgentQuestion, SessionResponse
from lacuna.wire.messages import cluster as wire
from lacuna.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from lacuna.wire.messages.groups import FindCoordinatorRequest
from lacuna.wire.messages.security import (
    CreateDelegationTokenRequest,
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from lacuna.wire.peers import AskControlRequest, AskControlResponse

_FIRST_BATCHED: Final = 4
_FIRST_SHARE: Final = 6
_COORDINATED: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
_SHARE: Final = 2


async def find_coordinator(
    rights: Rights, api: AnyApi, call: Call, request: FindCoordinatorRequest
) -> Any:
    """Requires Describe on each group or transactional id. Only brokers may look up share partitions."""

    def code_of(key: str) -> int:
        if request.key_type == _SHARE and call.version >= _FIRST_SHARE:
            return rights.error(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        kind = _COORDINATED.get(request.key_type)
        return 0 if kind is None else rights.error(Operation.DESCRIBE, kind, key)

    if call.version >= _FIRST_BATCHED:
        return await split(api, call, request, "coordinator_keys", "coordinators", code_of)
    return await whole(api, call, request, code_of(request.key))


async def describe_cluster(
    rights: Rights, api: AnyApi, call: Call, request: wire.DescribeClusterRequest
) -> Any:
    """Lets every client see the brokers, and adds the client's authorized operations on the cluster to the answer."""
    response: wire.DescribeClusterResponse = await api.handle(call, request)
    if response.cluster_authorized_operations == operations.NOT_ASKED:
        return response
    return response._replace(cluster_authorized_operations=rights.cluster_operations())


async def describe_log_dirs(
    rights: Rights, api: AnyApi, call: Call, request: wire.DescribeLogDirsRequest
) -> Any:
    """Requires Describe on the cluster. Without it, the answer lists no directory."""
    if rights.may_cluster(Operation.DESCRIBE):
        return await api.handle(call, request)
    return wire.DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def describe_configs(
    rights: Rights, api: AnyApi, call: Call, request: DescribeConfigsRequest
) -> Any:
    """Requires DescribeConfigs on each topic or group, and on the cluster for other resources."""

    def code_of(resource: DescribeConfigsResource) -> int:
        kind, name = _place(resource.resource_type, resource.resource_name)
        if kind is None:
            return 0
        return rights.error(Operation.DESCRIBE_CONFIGS, kind, name)

    return await split(api, call, request, "resources", "results", code_of)


async def alter_configs(rights: Rights, api: AnyApi, call: Call, request: Any) -> Any:
    """Requires AlterConfigs on each topic or group and, for agents, on the cluster. Loggers require ClusterAction."""

    def code_of(resource: AlteredResource) -> int:
        kind, name = _place(resource.resource_type, resource.resource_name)
        if kind is None:
            return 0
        is_logger = resource.resource_type == BROKER_LOGGER
        operation = Operation.CLUSTER_ACTION if is_logger else Operation.ALTER_CONFIGS
        return rights.error(operation, kind, name)

    return await split(api, call, request, "resources", "responses", code_of)


def _place(resource_type: int, name: str) -> tuple[ResourceType | None, str]:
    """Return the resource whose ACLs govern a config resource. Its type is None if the resource has no configs."""
    if resource_type == TOPIC:
        return ResourceType.TOPIC, name
    if resource_type == GROUP:
        return ResourceType.GROUP, name
    if resource_type in (BROKER, BROKER_LOGGER, CLIENT_METRICS):
        return ResourceType.CLUSTER, CLUSTER_NAME
    return None, name


class _Names:
    """Maps the ids of the topics that the agent knows to their names."""

    def __init__(self, topics: Mapping[bytes, Topic]) -> None:
        self._topics = topics

    def topic_name(self, topic_id: bytes) -> str:
        topic = self._topics.get(topic_id)
        return "" if topic is None else topic.name


async def ask_control(
    rights: Rights, api: AnyApi, call: Call, request: AskControlRequest
) -> AskControlResponse:
    """Requires the rights that a job needs for each command and partition (`lacuna.controlplane.shared.rights`).

    Questions about locations and health require Describe on the cluster. The permitted part of the question is passed
    on, and the answer includes only what the client may see.
    """
    try:
        question = AgentQuestion.FromString(request.question)
    except DecodeError:
        return cast("AskControlResponse", api.refuse(call, request, ErrorCode.INVALID_REQUEST))
    if (question.wants_places or question.wants_health) and not rights.may_cluster(
        Operation.DESCRIBE
    ):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return cast("AskControlResponse", api.refuse(call, request, code))
    to_ask = rights.to_ask(_Names(call.context.control.cluster.topics_by_id))
    session = question.session
    failures = {each.command_id: to_ask.failure(each) for each in session.commands}
    refusals = {key_of(each): to_ask.refusal(each.topic_id) for each in session.subscribe}
    commands = [each for each in session.commands if not failures[each.command_id]]
    wanted = [each for each in session.subscribe if not refusals[key_of(each)]]
    del session.commands[:], session.subscribe[:]
    session.commands.extend(commands)
    session.subscribe.extend(wanted)
    passed = request._replace(question=question.SerializeToString())
    response: AskControlResponse = await api.handle(call, passed)
    if response.error_code:
        return response
    answer = AgentAnswer.FromString(response.answer)
    _hide(answer.session, to_ask, str(rights.principal))
    for command_id, failure in failures.items():
        if failure is not None:
            answer.session.replies.add(command_id=command_id, failure=failure)
    for (topic_id, partition), refusal in refusals.items():
        if refusal:
            refused = TopicPartition(topic_id=topic_id, partition=partition)
            answer.session.partitions.add(partition=refused, refusal=refusal)
    return response._replace(answer=answer.SerializeToString())


def _hide(session: SessionResponse, to_ask: PrincipalRights, principal: str) -> None:
    """Remove from an answer everything that the client may not see."""
    shown = [to_ask.answer(each) for each in session.replies]
    del session.replies[:]
    session.replies.extend(shown)
    for cluster in session.cluster:
        topics = [each for each in cluster.topics if to_ask.sees(each.name)]
        if len(topics) < len(cluster.topics):
            cluster.principal = principal
        del cluster.topics[:]
        cluster.topics.extend(topics)


async def create_delegation_token(
    rights: Rights, api: AnyApi, call: Call, request: CreateDelegationTokenRequest
) -> Any:
    """Requires CreateTokens on an owner other than the client (KIP-373). The client's own tokens require no right."""
    owner = rights.principal
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    session = call.peer.session
    may_ask = session.listener.protocol.has_sasl and not session.is_token
    code = 0
    if may_ask and owner != rights.principal:
        code = rights.error(Operation.CREATE_TOKENS, ResourceType.USER, str(owner))
    return await whole(api, call, request, code)


async def describe_delegation_token(
    rights: Rights, api: AnyApi, call: Call, request: DescribeDelegationTokenRequest
) -> Any:
    """Requires Describe on a token or DescribeTokens on its user, unless the client owns the token or may renew it."""
    response: DescribeDelegationTokenResponse = await api.handle(call, request)
    return response._replace(tokens=[each for each in response.tokens if _may_see(rights, each)])


def _may_see(rights: Rights, token: DescribedDelegationToken) -> bool:
    owner = Principal(token.principal_type, token.principal_name)
    requester = Principal(
        token.token_requester_principal_type or token.principal_type,
        token.token_requester_principal_name or token.principal_name,
    )
    renewers = [Principal(each.principal_type, each.principal_name) for each in token.renewers]
    if rights.principal in (owner, requester, *renewers):
        return True
    kinds = (
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id),
        (Operation.DESCRIBE_TOKENS, ResourceType.USER, str(owner)),
    )
    return any(rights.may(*each, is_logged=False) for each in kinds)
