"""An S3 server for the pods of the chart, which a test runs as processes."""

from tests.journal_servers import bucket_url, moto_endpoint

__all__ = ["bucket_url", "moto_endpoint"]
