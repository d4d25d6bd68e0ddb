"""What the client of a request may do, as the authorizer decides for its principal and host. Logs denials."""

from lacuna.agent.client import Peer
from lacuna.controlplane.shared.acls import CLUSTER_NAME, Operation, ResourceType
from lacuna.controlplane.shared.audit import Audit
from lacuna.controlplane.shared.authorizer import DENIED, Authorizer
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.rights import Names, PrincipalRights


class Rights:
    """The rights of a request's client. With `is_logged=False`, a right is checked without logging a denial."""

    __slots__ = ("_api", "_audit", "_authorizer", "host", "principal")

    def __init__(self, authorizer: Authorizer, audit: Audit, peer: Peer, api: str) -> None:
        self._authorizer = authorizer
        self._audit = audit
        self._api = api
        self.principal = peer.session.principal
        self.host = peer.host

    def may(self, operation: int, resource_type: int, name: str, *, is_logged: bool = True) -> bool:
        if self._authorizer.allows(self.principal, self.host, operation, resource_type, name):
            return True
        if is_logged:
            self._audit.denied(self.principal, self.host, operation, resource_type, name, self._api)
        return False

    def may_topic(self, operation: int, name: str, *, is_logged: bool = True) -> bool:
        return self.may(operation, ResourceType.TOPIC, name, is_logged=is_logged)

    def may_cluster(self, operation: int, *, is_logged: bool = True) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=is_logged)

    def error(self, operation: int, resource_type: int, name: str) -> int:
        """Return the error if the client may not perform an operation on a resource, or NONE if it may."""
        if self.may(operation, resource_type, name):
            return ErrorCode.NONE
        return DENIED[resource_type]

    def to_ask(self, names: Names) -> PrincipalRights:
        """Return the client's rights to send questions to the control plane. `names` provides the names of topics."""
        return PrincipalRights(names, self._authorizer, self._audit, self.principal, self.host)

    def may_write_somewhere(self) -> bool:
        return self._authorizer.allows_somewhere(
            self.principal, self.host, Operation.WRITE, ResourceType.TOPIC
        )

    def operations(self, resource_type: int, name: str) -> int:
        """Return the client's authorized operations on a resource, encoded as KIP-430's bits."""
        return self._authorizer.operations(self.principal, self.host, resource_type, name)

    def cluster_operations(self) -> int:
        """Return the client's operations on the cluster as KIP-430's bits, or 0 if it may not describe the cluster."""
        if not self.may_cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)

    @property
    def whose(self) -> tuple[object, ...]:
        """A value that changes whenever the authorizer's decisions for the client may change."""
        return self.principal, self.host, self._authorizer.version
