"""`python -m fewset`: the command line, for launchers that start modules (torchrun's `-m`)."""

import sys

from fewset.cli.app import main

if __name__ == "__main__":
    sys.argv[0] = "fewset"  # as it is named in results
    main()
