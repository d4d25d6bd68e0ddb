"""The Kafka requests that commands and the console send: a row for each, with its version.

`await connection.ask(*DELETE_GROUPS, DeleteGroupsRequest(["g"]))` sends one, and returns the response. There is a
module for each subject, because importing the messages of all subjects takes a tenth of a second.
"""
