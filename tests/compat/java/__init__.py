"""kafka-clients in the client matrix, and what becomes of them when an agent dies."""
