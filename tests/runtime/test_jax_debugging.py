"""JAX's flags for debugging do not change the results of programs."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.ops.sampling import Batch, Trial, trial
from tests.ops.test_samples import AT_LENGTH, FAMILIES
from tests.transform.alike import alike
from tests.transform.dirty import clean_function

pytestmark = pytest.mark.usefixtures("compiled_quickly")
X = gt.tensor("x", "float64", ("n",))
H = gt.tensor("h", "float32", ("n", 3))
K = gt.tensor("k", "int64", ())
DIMS = "specialize", "pad"


def outputs():
    """Methods that NumPy arrays lack, and indices out of bounds, which JAX clamps."""
    halves = gt.while_loop(lambda s: s < K, lambda s: (s + 1, s), 0, collect=True)[1]
    c, ys = gt.scan(lambda c, row: (c + row, c * row), gt.zeros(3), H)
    return [
        *(X.at[0].set(3.0), X[X > 1], H.at[K].add(1), gt.arange(K), X[K:], c, ys),
        *(gt.sort(X), X * X, X[K + 9], X // 2, halves, gt.sum(H)),
    ]


@pytest.mark.parametrize("dims", DIMS)
def test_disable_jit_with_arrays_of_numpy(dims):
    f = graphc.function([X, H, K], outputs(), dims=dims)
    arguments = np.arange(1.0, 5.0), np.ones((4, 3), "float32"), 2
    expected = f(*arguments)
    compilations = len(f.stats().compilations)
    with jax.disable_jit():
        alike(f(*arguments), expected)
    assert len(f.stats().compilations) == compilations
    assert all(isinstance(x, jax.Array) for x in f(*arguments))


NAN = """\
FloatingPointError: invalid value (nan) encountered in the result['a'][1]
  hint: with dims="specialize", JAX names the operation
  arguments: x: float64[3]
  at """


@pytest.mark.parametrize("flag", ["jax_debug_nans", "jax_debug_infs"])
def test_alarms_are_of_true_elements(flag):
    f = graphc.function([X], {"a": [X * 2, X / X], "b": gt.log(X)}, dims="pad")
    jax.config.update(flag, True)
    try:
        alike([f(np.ones(3))["a"][1]], [np.ones(3)])
        with pytest.raises(graphc.CallError) as caught:
            f(np.array([1.0, 0.0, 2.0]))
    finally:
        jax.config.update(flag, False)
    if flag == "jax_debug_nans":
        assert str(caught.value).startswith(NAN)
    else:
        assert "invalid value (inf) encountered in the result['b']" in str(caught.value)
    f(np.array([1.0, 0.0, 2.0]))


def test_alarms_in_examples_of_different_sizes():
    f = graphc.ragged([X], X / X)
    with jax.debug_nans(True):
        alike(f([np.ones(2), np.ones(5)]), [np.ones(2), np.ones(5)])
        with pytest.raises(graphc.CallError) as caught:
            f([np.ones(2), np.zeros(1)])
    problem = "FloatingPointError: invalid value (nan) encountered in the result[1]"
    assert str(caught.value).startswith(f"ragged: {problem}")


def is_finite(one: Trial) -> bool:
    """Whether the results of a call are finite."""
    if one.refused is not None:
        return False
    results = [x for x in one.expected if x.dtype.kind in "fc"]
    return all(np.isfinite(x).all() for x in results)


def calls_of(given):
    """All calls of a sample at length, else the first."""
    return given.calls if AT_LENGTH else given.calls[:1]


FEW = ["elementwise", "search", "statistics", "linalg"]


@pytest.mark.parametrize("family", FAMILIES if AT_LENGTH else FEW)
def test_samples_without_nan_raise_no_alarm(family):
    """All sizes are padded, and no op is left out."""
    samples = [s for s in FAMILIES[family] if "float32" in s.dtypes and not s.static]
    samples = samples if AT_LENGTH else samples[::12]
    trials = [trial(s, c, "float32", "jax") for s in samples for c in calls_of(s)]
    trials = [t for t in trials if is_finite(t)]
    assert trials
    with jax.debug_nans(True):
        run(trials)


def run(trials):
    """Compile and call the trials together."""
    batch = Batch("float32", symbolic=True)
    for one in trials:
        batch.add(one)
    batch.run("jax", clean_function)
    assert not batch.problems, "\n".join(batch.problems)


@pytest.mark.parametrize(("ops", "noted"), [(3, True), (700, False)])
def test_jax_notes_lines_of_short_programs_alone(ops, noted):
    y = X
    for _ in range(ops):
        y = y + X
    f = graphc.function([X], y, rewrites=graphc.rewrites.none)
    with jax.enable_x64(True):
        lowered = jax.jit(f.jax_callable).lower(np.ones(3))
    assert ("<graphc " in lowered.as_text(debug_info=True)) == noted
