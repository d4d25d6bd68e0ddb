from tests.journal_servers import database, moto_endpoint, postgresql, s3

__all__ = ["database", "moto_endpoint", "postgresql", "s3"]
