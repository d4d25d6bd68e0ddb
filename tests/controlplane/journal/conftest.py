from tests.postgresql_fixtures import database, postgresql

__all__ = ["database", "postgresql"]
