"""Programs in a forked process, in which JAX would hang: NumPy runs them there.

Samplers fork: on Linux, PyMC starts its chains this way by default.
"""

import warnings
from collections.abc import Mapping
from functools import cache

from graphc.errors import user_level
from graphc.warning_kinds import ForkWarning

ON_JAX = ("device", "dims", "jit", "tier")  # options that NumPy has no use for


def numpy_options(options: Mapping[str, object]) -> dict[str, object]:
    """Options of `graphc.function` for the same program on NumPy."""
    others = {name: v for name, v in options.items() if name not in ON_JAX}
    return {**others, "backend": "numpy"}


@cache
def warn_of_numpy() -> None:
    """Warn, once in a process, that NumPy runs what was to run on JAX."""
    warnings.warn(ForkWarning(_TEXT), stacklevel=user_level())


_TEXT = (
    "GRAPHC: NumPy computes in this process, which was forked from one in which JAX "
    "had run: JAX would hang. Results differ by rounding at most, and large models "
    'are slower. pm.sample(..., mp_ctx="spawn") starts processes in which JAX runs; '
    'graphc.pytensor.mode(backend="numpy") needs no JAX'
)
