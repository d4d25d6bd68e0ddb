"""The requests of Kafka's protocol that commands and the console send: one row for each, with its version.

`await connection.ask(*DELETE_GROUPS, DeleteGroupsRequest(["g"]))` sends one, and returns its response. Each module has
the rows of one subject, because the messages of all take a tenth of a second to import.
"""
