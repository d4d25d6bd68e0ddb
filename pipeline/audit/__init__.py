"""The audit of a bucket: is every byte what was written, and does all of it fit the metadata?"""

from pipeline.audit.findings import Finding, Hit, Kind
from pipeline.audit.job import AuditOptions, audit
from pipeline.audit.progress import Progress
from pipeline.audit.report import KeyCounts, PartitionReport, Report

__all__ = [
    "AuditOptions",
    "Finding",
    "Hit",
    "KeyCounts",
    "Kind",
    "PartitionReport",
    "Progress",
    "Report",
    "audit",
]
