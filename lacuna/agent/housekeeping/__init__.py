"""Background work that keeps a cluster small: merges small extents, and collects garbage objects."""

from lacuna.agent.housekeeping.collecting import Collector
from lacuna.agent.housekeeping.merging import Merger, MergeSettings
from lacuna.agent.housekeeping.service import Housekeeping, HousekeepingSettings

__all__ = ["Collector", "Housekeeping", "HousekeepingSettings", "MergeSettings", "Merger"]
