"""`python -m graphc COMMAND`: see `python -m graphc --help`."""

import sys

from graphc.command.main import main

if __name__ == "__main__":
    sys.exit(main())
