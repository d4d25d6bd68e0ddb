"""The one log directory that an agent reports; it stands for the object store."""

from typing import Final

#: Not a real path, unlike Kafka's. All agents report the same one.
LOG_DIR: Final = "/lacuna/objects"
