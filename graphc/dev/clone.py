"""The clone of the repository in which graphc stands."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
PARTS = ("docs", "tests/samples", "pyproject.toml")


def missing_parts(root: pathlib.Path = ROOT) -> list[str]:
    """The parts of a clone that are not beside the package; none in a clone."""
    return [part for part in PARTS if not (root / part).exists()]
