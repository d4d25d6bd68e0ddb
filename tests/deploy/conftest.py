"""An S3 server for the chart's pods, which tests run as processes."""

from tests.journal_servers import bucket_url, moto_endpoint

__all__ = ["bucket_url", "moto_endpoint"]
