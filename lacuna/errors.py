"""The root of errors whose message tells a user what to do."""


class UserError(Exception):
    """An error that the user can put right; the message is one line and says how."""


class ListenError(UserError):
    """An address could not be listened on; the message says why."""
