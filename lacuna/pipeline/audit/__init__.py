"""The audit of a bucket: checks that every byte is as it was written, and that the data agrees with the metadata."""

from lacuna.pipeline.audit.findings import Finding, Hit, Kind
from lacuna.pipeline.audit.job import AuditOptions, audit
from lacuna.pipeline.audit.report import KeyCounts, PartitionReport, Report

__all__ = [
    "AuditOptions",
    "Finding",
    "Hit",
    "KeyCounts",
    "Kind",
    "PartitionReport",
    "Report",
    "audit",
]
