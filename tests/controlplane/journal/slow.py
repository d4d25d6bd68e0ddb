"""A machine whose import never ends: what a snapshot process may hang in."""

import signal

signal.pause()
