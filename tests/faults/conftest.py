from tests.journal_servers import database, kept_database, postgresql

__all__ = ["database", "kept_database", "postgresql"]
