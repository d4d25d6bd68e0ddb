"""The `lacuna` command."""


def main() -> None:
    """Entry point. Ctrl-C ends a command without a trace, also one that still imports."""
    try:
        from lacuna.cli.app import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
