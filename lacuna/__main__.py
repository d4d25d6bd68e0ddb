"""Makes `python -m lacuna` run the `lacuna` command."""

from lacuna.cli import main

if __name__ == "__main__":
    main()
