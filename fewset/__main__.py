"""The command line, as the script `fewset` and as a module (torchrun's `-m`)."""

import sys


def main() -> None:
    """Load the command line and run it; Ctrl-C while it is loaded is one line, too."""
    try:
        from fewset.cli.app import main as run

        run()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
