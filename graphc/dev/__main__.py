"""`python -m graphc.dev COMMAND`: see `python -m graphc.dev --help`."""

import sys

from graphc.dev.regenerate import main

if __name__ == "__main__":
    sys.exit(main())
