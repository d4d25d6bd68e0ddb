from tests.journal_servers import database, kept_database, moto_endpoint, postgresql

__all__ = ["database", "kept_database", "moto_endpoint", "postgresql"]
