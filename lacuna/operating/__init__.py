"""Runs and inspects clusters: embedded clusters, agents, journals and stores, and the reports that commands and the
console show.
"""
