"""The web console: what a cluster holds and does, as pages.

It is server-rendered HTML that works without JavaScript; one small script makes it live. Nothing is changed through it
unless that was switched on. docs/console.md describes it.
"""
