"""The root of errors whose message tells a user what to do."""


class UserError(Exception):
    """Something that whoever called can mend; the message is one line and says how."""
