from tests.journal_servers import database, moto_endpoint, postgresql

__all__ = ["database", "moto_endpoint", "postgresql"]
