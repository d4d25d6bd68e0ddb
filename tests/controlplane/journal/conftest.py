from tests.controlplane.journal.kept import kept
from tests.journal_servers import database, kept_database, moto_endpoint, postgresql, s3

__all__ = ["database", "kept", "kept_database", "moto_endpoint", "postgresql", "s3"]
