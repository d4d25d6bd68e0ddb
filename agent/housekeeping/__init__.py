"""What keeps a cluster small without anybody asking: merging small extents, collecting objects."""

from agent.housekeeping.collecting import Collector
from agent.housekeeping.merging import Merger, MergeSettings
from agent.housekeeping.service import Housekeeping, HousekeepingSettings

__all__ = ["Collector", "Housekeeping", "HousekeepingSettings", "MergeSettings", "Merger"]
