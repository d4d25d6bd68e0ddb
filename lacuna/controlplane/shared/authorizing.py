"""The authorization settings shared by agents and control planes."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from lacuna.base.errors import UserError
from lacuna.base.setting import check_settings, setting
from lacuna.controlplane.shared.authorizer import Authorizer
from lacuna.controlplane.shared.principal import Principal, parse_principals
from lacuna.controlplane.shared.security import Security

#: The only authorizer, named after the class in Kafka whose rules it follows.
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerSettings:
    """Whether ACLs apply, and who the super users are. Raises SettingsError."""

    authorizer: str = setting(
        "authorizer.class.name",
        "",
        f"{STANDARD_AUTHORIZER}: ACLs decide what each principal may do. "
        "If empty, any client that can connect may do anything.",
        option="--authorizer",
        flag=STANDARD_AUTHORIZER,
        help="Let ACLs decide what each principal may do. Default: every client that can connect may do anything.",
        panel="Clients",
        choices=("", STANDARD_AUTHORIZER),
    )
    super_users: str = setting(
        "super.users",
        "",
        "Principals that may do anything regardless of ACLs, such as User:admin;User:operator.",
        option="--super-user",
        metavar="PRINCIPALS",
        panel="Clients",
    )
    allows_without_acls: bool = setting(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether a resource without any ACL is open to every principal.",
    )

    def __post_init__(self) -> None:
        check_settings(self)


def authorizer_of(
    settings: AuthorizerSettings, security: Security, trusted: Collection[Principal] = ()
) -> Authorizer | None:
    """Return the authorizer for the ACLs in `security`, or None if clients may do anything.

    `trusted` principals may do anything, like super users. Raises UserError if settings are missing.
    """
    try:
        super_users = parse_principals(settings.super_users)
    except ValueError as error:
        raise UserError(
            f"super.users: {error}; separate multiple principals with semicolons"
        ) from error
    if not settings.authorizer:
        if super_users or settings.allows_without_acls:
            given = "super.users" if super_users else "allow.everyone.if.no.acl.found"
            raise UserError(
                f"{given} is set, but ACLs are not used, so all clients may do anything: add "
                "--authorizer, or remove the setting"
            )
        return None
    if not super_users and not settings.allows_without_acls:
        raise UserError(
            "--authorizer without a super user denies everything to everyone, even adding the "
            "first ACL: specify a super user with --super-user User:NAME"
        )
    return Authorizer(
        security, {*super_users, *trusted}, allows_without_acls=settings.allows_without_acls
    )
