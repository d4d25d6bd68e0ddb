"""The web console: pages that show the contents and the work of a cluster.

It is server-rendered HTML that works without JavaScript; one small script makes it live. It changes nothing unless the
operator allows changes. docs/console.md describes it.
"""
