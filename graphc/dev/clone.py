"""The clone of the repository that contains this package."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
PARTS = ("docs", "tests/samples", "pyproject.toml")


def missing_parts(root: pathlib.Path = ROOT) -> list[str]:
    """The parts of a clone that are missing beside the package; none in a clone."""
    return [part for part in PARTS if not (root / part).exists()]
