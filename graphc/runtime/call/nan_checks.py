"""NaN in padding is no failure: padded programs look for it in true elements only.

`jax.debug_nans` and `jax.debug_infs` look at all that a jitted function returns, at
capacities. So they are off while a padded program computes; then its results, cut to
true sizes, are checked. `jax` is the module throughout.
"""

from collections.abc import Callable
from functools import wraps
from types import ModuleType

import numpy as np

from graphc.ir.types import JaxArray


def with_true_checks(
    jax: ModuleType, program: Callable[..., object]
) -> Callable[..., object]:
    """Wrap a program, so that its true elements are checked in place of its padding."""

    nans, infs = jax.debug_nans, jax.debug_infs

    @wraps(program)
    def checked(*args: object) -> object:
        if nans.value or infs.value:
            return checking_true_elements(jax, program, *args)
        return program(*args)

    return checked


def checking_true_elements(
    jax: ModuleType, program: Callable[..., object], *args: object
) -> object:
    """Run a padded program; raise FloatingPointError by true elements, as JAX would."""
    config = jax.config
    nans, infs = config.jax_debug_nans, config.jax_debug_infs
    if not (nans or infs):
        return program(*args)
    with jax.debug_nans(False), jax.debug_infs(False):  # padding may hold anything
        results = program(*args)
    if nans:
        _refuse_invalid(jax, results, "nan", np.isnan)
    if infs:
        _refuse_invalid(jax, results, "inf", np.isinf)
    return results


def _refuse_invalid(
    jax: ModuleType, results: object, kind: str, is_invalid: Callable[..., JaxArray]
) -> None:
    for path, x in jax.tree_util.tree_leaves_with_path(results):
        if isinstance(x, jax.core.Tracer) or x.dtype.kind in "iub":
            continue
        if is_invalid(np.asarray(x)).any():
            name = f"the result{jax.tree_util.keystr(path)}"
            hint = 'with dims="specialize", JAX names the operation'
            problem = f"invalid value ({kind}) encountered in {name}"
            raise FloatingPointError(f"{problem}\n  hint: {hint}")
