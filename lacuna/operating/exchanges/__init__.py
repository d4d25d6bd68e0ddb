"""The Kafka protocol requests that commands and the console send: one row for each request, with its version.

`await connection.ask(*DELETE_GROUPS, DeleteGroupsRequest(["g"]))` sends one, and returns its response. Each module has
the rows for one subject, because importing the messages of all subjects takes a tenth of a second.
"""
