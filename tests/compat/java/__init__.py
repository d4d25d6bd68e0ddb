"""kafka-clients in the client matrix, and its behaviour when an agent dies."""
