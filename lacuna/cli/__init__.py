"""The `lacuna` command."""

import gc


def main() -> None:
    """Runs the `lacuna` command. Ctrl-C ends it without a traceback, even while modules are being imported."""
    # Imported modules are never garbage. With Python's default threshold, the collector takes an eighth of the import
    # time.
    gc.set_threshold(50_000)
    try:
        from lacuna.cli.app import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
