"""`python -m graphc calibrate`: print the costs of the device on which JAX runs."""

import argparse

from graphc.runtime.calibrate import calibrated


def main() -> None:
    """Run the command that is named."""
    parser = argparse.ArgumentParser("graphc", description=__doc__)
    parser.add_argument("command", choices=["calibrate"])
    parser.parse_args()
    print(calibrated())


if __name__ == "__main__":
    main()
