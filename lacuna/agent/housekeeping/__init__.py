"""Background work that keeps a cluster small: merges extents, compacts topics by key, and collects garbage objects."""

from lacuna.agent.housekeeping.cleaning import Cleaner, CleanSettings
from lacuna.agent.housekeeping.collecting import Collector
from lacuna.agent.housekeeping.merging import Merger, MergeSettings
from lacuna.agent.housekeeping.service import Housekeeping, HousekeepingSettings

__all__ = [
    "CleanSettings",
    "Cleaner",
    "Collector",
    "Housekeeping",
    "HousekeepingSettings",
    "MergeSettings",
    "Merger",
]
