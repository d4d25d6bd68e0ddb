"""The `lacuna` command."""


def main() -> None:
    """Entry point of the `lacuna` command. Ctrl-C ends it without a traceback, even during its imports."""
    try:
        from lacuna.cli.app import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
