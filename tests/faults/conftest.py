from tests.journal_servers import database, postgresql

__all__ = ["database", "postgresql"]
