"""The command line, as the script `fewset` and as a module (torchrun's `-m`)."""

import os
import sys


def main() -> None:
    """Load the command line and run it; Ctrl-C while it is loaded is one line, too.

    Libraries that are loaded for it end the process where there is no working directory.
    """
    try:
        os.getcwd()  # noqa: PTH109, nothing else is loaded yet
    except OSError:
        print("error: the working directory is gone; change to one that is there", file=sys.stderr)
        sys.exit(2)
    try:
        from fewset.cli.app import main as run

        run()
    except SystemExit as leaving:
        if leaving.code in (0, None) and os.environ.get("WORLD_SIZE", "1") != "1":
            # All is done. While Python ends, threads of torch.distributed sometimes abort the process.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
