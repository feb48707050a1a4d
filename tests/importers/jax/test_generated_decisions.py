"""Generated functions that decide by sizes give what `jax.jit` gives at every size.

`GRAPHC_EXAMPLES=20 pytest tests/importers/jax/test_generated_decisions.py` runs 600
functions at 60 sizes each.
"""

import os
import warnings

import jax
import numpy as np
import pytest

import graphc
from tests.importers.jax.comparing import outcome, outcomes_by_jax
from tests.importers.jax.deciding import Deciding, arrays_of, sizes_of
from tests.importers.jax.questions import STEPS
from tests.importers.jax.steps_of_params import STEPS_OF_PARAMS

AT_LENGTH = int(os.environ.get("GRAPHC_EXAMPLES", "0"))
FUNCTIONS = 25 * AT_LENGTH or 6
OF_PARAMS = 5 * AT_LENGTH or 3
CALLS = 60 if AT_LENGTH else 9
WAYS = {"auto": {}, "pad": {"dims": "pad"}, "shapes": {"shapes": "n, m"}}


def require_same(ours, theirs):
    """Require the same results, types included, or the same exception."""
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs), ours
        return
    if isinstance(ours, Exception):
        raise ours
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (a.dtype, a.shape, a.weak_type) == (b.dtype, b.shape, b.weak_type)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def require_one_program_per_answers(compiled):
    """Require that sizes with the same decisions share one program."""
    for family in compiled._families.values():
        programs = [
            p
            for p in family.programs
            if not (p.template or p.decisions.opaque or p.doubted)
        ]
        for sizes in family.served:
            alike = [
                p.pattern
                for p in programs
                if p.pattern.has(sizes) and p.decisions.hold(p.pattern.sizes(sizes))
            ]
            assert len(alike) == len(set(alike)), compiled.explain()


@pytest.mark.parametrize("seed", range(FUNCTIONS))
def test_generated_functions_get_the_branch_of_each_size(seed):
    require_branches(seed, STEPS)


@pytest.mark.parametrize("seed", range(OF_PARAMS))
def test_generated_functions_get_the_params_of_each_size(seed):
    require_branches(seed, STEPS_OF_PARAMS)


def require_branches(seed, steps):
    """Require at each size the outcome by `jax.jit` of a function of these steps."""
    calls = sizes_of(seed, CALLS)
    known = outcomes_by_jax(
        Deciding(seed, steps), {sizes: arrays_of(*sizes) for sizes in calls}
    )
    for name in WAYS if AT_LENGTH else [list(WAYS)[seed % len(WAYS)]]:
        function = Deciding(seed, steps)
        compiled = graphc.jit(function, **WAYS[name])
        for sizes in calls:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", graphc.FallbackWarning)
                ours = outcome(compiled, arrays_of(*sizes))
            try:
                require_same(ours, known[sizes])
            except Exception as error:
                error.add_note(f"{name}, sizes {sizes}:\n{function.text}")
                raise
        require_one_program_per_answers(compiled)
