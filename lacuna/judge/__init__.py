"""Judges any Kafka from outside: a workload against its brokers, and a pure checker of what they answered.

`history` has the observations, `checker` and `cycles` find the anomalies in them, `shrinking` their smallest histories.
`client` and `workload` make the observations, and `page` draws them.
"""
