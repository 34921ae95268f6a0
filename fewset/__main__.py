"""`python -m fewset`: the command line, for launchers that start modules (torchrun's `-m`)."""

from fewset.cli.app import main

if __name__ == "__main__":
    main()
