"""What an agent names as its one log directory: the object store, which is nobody's disk."""

from typing import Final

#: Kafka's are paths of a broker's file system. All agents name the same.
LOG_DIR: Final = "/lacuna/objects"
