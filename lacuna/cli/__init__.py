"""The `lacuna` command."""

import gc


def main() -> None:
    """Entry point of the `lacuna` command. Ctrl-C ends it without a traceback, even during its imports."""
    # What is imported is never garbage, and at Python's own threshold an eighth of the imports' time went into looking.
    gc.set_threshold(50_000)
    try:
        from lacuna.cli.app import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
