"""The web console, which shows what a cluster contains and does.

The pages are HTML rendered on the server and work without JavaScript; a small script keeps them up to date. The console
changes nothing unless the operator allows changes. See docs/console.md.
"""
