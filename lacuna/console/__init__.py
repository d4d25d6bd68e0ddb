"""The web console: pages that show the contents and the work of a cluster.

The pages are server-rendered HTML and work without JavaScript; one small script makes them live. The console changes
nothing unless the operator allows changes. docs/console.md describes it.
"""
