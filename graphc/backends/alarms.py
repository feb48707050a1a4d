"""NaN in padding is no alarm: padded programs look for it in what counts.

`jax.debug_nans` and `jax.debug_infs` look at all that a jitted function returns, at
capacities. So they are off while a padded program computes, and then what has been cut
to true sizes is looked at.
"""

from typing import Any

import numpy as np


def without_alarms(jax: Any, function: Any, *args: Any) -> Any:
    """Printed into programs: `function`, whose padding may hold anything."""
    if not (jax.config.jax_debug_nans or jax.config.jax_debug_infs):
        return function(*args)
    with jax.debug_nans(False), jax.debug_infs(False):
        return function(*args)


def with_alarms(jax: Any, results: Any) -> Any:
    """Printed into programs: the results, looked at as JAX would have done."""
    config = jax.config
    for asked, kind, found in (
        (config.jax_debug_nans, "nan", np.isnan),
        (config.jax_debug_infs, "inf", np.isinf),
    ):
        for path, x in jax.tree_util.tree_leaves_with_path(results) if asked else ():
            if isinstance(x, jax.core.Tracer) or x.dtype.kind in "iub":
                continue
            if found(np.asarray(x)).any():
                name = f"the result{jax.tree_util.keystr(path)}"
                hint = 'with dims="specialize", JAX says in which operation'
                problem = f"invalid value ({kind}) encountered in {name}"
                raise FloatingPointError(f"{problem}\n  hint: {hint}")
    return results
