"""The list of users with passwords, and the changes to it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.agent.security.sasl.users import MECHANISM_NAMES
from lacuna.console.editing import Done, Edit, Effect, Field, Turn, check, on_cluster, to_access
from lacuna.console.site import BadRequest, link
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.operating.changing import remove_user, set_password
from lacuna.operating.exchanges.access import DESCRIBE_USER_SCRAM_CREDENTIALS
from lacuna.wire.messages import security as wire

_REMOVES: Final = "/edit/user/remove"


class UserRow(NamedTuple):
    """A user with a password, and the mechanisms that the password is stored for."""

    user: str
    mechanisms: str

    @property
    def removal(self) -> str:
        """The address of the form that removes the user."""
        return link(_REMOVES, user=self.user)


async def rows(turn: Turn) -> list[UserRow]:
    """Return the cluster's users, sorted. Raises NotAllowed, BadRequest."""
    response = await turn.ask(
        *DESCRIBE_USER_SCRAM_CREDENTIALS, wire.DescribeUserScramCredentialsRequest(None)
    )
    check(response.error_code, "users", response.error_message)
    return [
        UserRow(
            each.user,
            ", ".join(MECHANISM_NAMES[info.mechanism] for info in each.credential_infos),
        )
        for each in sorted(response.results, key=lambda each: each.user)
    ]


async def _user_fields(_turn: Turn) -> Sequence[Field]:
    return (
        Field(name="user", label="User"),
        Field(name="password", label="Password", kind="secret"),
        Field(name="again", label="Repeat the password", kind="secret"),
    )


async def _add_user(turn: Turn) -> Done:
    user, password = turn.text("user"), turn.given.get("password", "")
    if not user or not password:
        raise BadRequest("Enter a user and a password.")
    if password != turn.given.get("again", ""):
        raise BadRequest("The passwords differ: enter the same password in both fields.")
    for refused in await set_password(turn.ask, user, password.encode()):
        check(refused.error_code, refused.subject, refused.message)
    return Done(f"{user} can now authenticate with this password.", "/access")


async def _preview_no_user(turn: Turn) -> Effect:
    user = turn.text("user")
    about = (
        f"Removes the user {user}, who can then no longer authenticate. Open connections stay open."
    )
    return Effect(sentences=[about], is_destructive=True)


async def _remove_user(turn: Turn) -> Done:
    user = turn.text("user")
    for refused in await remove_user(turn.ask, user):
        if refused.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            raise BadRequest(f"The user {user} does not exist.")
        check(refused.error_code, refused.subject, refused.message)
    return Done(f"Removed the user {user}.", "/access")


EDITS: Final = (
    Edit(
        path="/edit/user",
        title="Add a user or change a password",
        button="Save",
        needs=on_cluster(Operation.ALTER),
        fields=_user_fields,
        apply=_add_user,
        on="access",
        back=to_access,
    ),
    Edit(
        path=_REMOVES,
        title="Remove a user",
        button="Remove",
        needs=on_cluster(Operation.ALTER),
        preview=_preview_no_user,
        apply=_remove_user,
        on="row",
        back=to_access,
    ),
)
