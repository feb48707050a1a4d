"""Arguments of other dtypes are cast once, as NumPy's rules allow, or refused."""

import itertools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.types import DTYPES
from tests.errors.messages import both, line_of, ones, raised, refused, whole

HERE = "test_casting.py"
x = gt.matrix("x")
wide = gt.tensor("wide", "float64", ("n",))
k = gt.iscalar("k")
byte = gt.tensor("byte", "uint8", ("n",))


def place(name):
    return f"{HERE}:{line_of(name, place)}"


@pytest.mark.parametrize("rule", ["exact", "safe", "same_kind"])
@pytest.mark.parametrize("wanted", DTYPES)
def test_what_is_cast_is_what_numpy_casts(wanted, rule):
    """Tries every pair of dtypes, on arrays, arrays of rank 0, and NumPy's numbers."""
    v, s = gt.tensor("v", wanted, ("n",)), gt.tensor("s", wanted, ())
    f = graphc.function([v, s], [v, s], backend="numpy", casting=rule)
    for given, dtype in DTYPES.items():
        array = np.array([0, 1, 1], dtype)
        right = np.array([0, 1, 1], wanted)
        allowed = np.can_cast(dtype, DTYPES[wanted], "no" if rule == "exact" else rule)
        for number in (array[1], np.array(1, dtype)):
            if allowed:
                found, one = f(array, number)
                assert found.dtype == np.asarray(one).dtype == DTYPES[wanted], given
                assert np.asarray(found).tolist() == right.tolist()
                continue
            for args in (
                (array, DTYPES[wanted].type(1)),
                (right, number),
            ):
                with pytest.raises(
                    graphc.CallError, match="^input . has another dtype"
                ):
                    f(*args)


@both
@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_lists_and_other_arrays(backend, dims):
    f = graphc.function([x, k], x[:k] * 2, backend=backend, dims=dims)
    expected = [[2.0, 4.0], [6.0, 8.0]]
    rows = [[1, 2], [3, 4], [5, 6]]
    lists = [rows, tuple(map(tuple, rows)), [[1.0, 2], [3, 4], (5, 6)]]
    arrays = [
        np.array(rows, d) for d in ("int16", "uint8", "float16", ">f4", "bfloat16")
    ]
    of_jax = [jnp.asarray(rows, d) for d in ("int16", "float16", "bfloat16", "float32")]
    for count, given in enumerate([*lists, *arrays, *of_jax], 1):
        for size in (2, np.int32(2), np.array(2, "uint8"), jnp.int32(2)):
            out = f(given, size)
            assert out.dtype == "float32" and np.asarray(out).tolist() == expected
        assert f.stats().calls == 4 * count
    kinds = 1 + (dims == "pad")  # padded, k is traced, and a Python int is weak
    assert len(f.stats().compilations) == kinds * (backend == "jax")


@both
def test_the_same_result_as_of_an_argument_of_the_right_dtype(backend):
    f = graphc.function([wide], wide / 3, backend=backend)
    given = np.array([0.1, 2, 3], "float32")
    expected = np.asarray(f(given.astype("float64"))).tolist()
    compiled = len(f.stats().compilations)
    for other in (given, jnp.asarray(given), given[::-1][::-1]):
        assert np.asarray(f(other)).tolist() == expected
    assert len(f.stats().compilations) == compiled
    assert not jax.config.jax_enable_x64


def test_tiers_and_examples_of_different_sizes_too():
    f = graphc.function([wide], wide + 1, tier="auto")
    assert f([1, 2]).tolist() == f(np.array([1, 2], "int8")).tolist() == [2, 3]
    one = gt.vector("one")
    g = graphc.ragged([one], one * 2, backend="numpy")
    assert [r.tolist() for r in g([np.ones(1, "int8"), [1, 2]])] == [[2], [2, 4]]
    with pytest.raises(graphc.CallError, match="another type"):
        g([np.ones(1)])
    g = graphc.ragged([one], one * 2, backend="numpy", casting="same_kind")
    assert [r.tolist() for r in g([np.ones(1)])] == [[2]]


@both
def test_the_refusal_of_a_wider_float_names_the_option(backend):
    f = graphc.function([x], x + 1, backend=backend)
    whole(
        lambda: f(np.eye(3)),
        "input x has another dtype\n"
        "  got: float64[3, 3]\n"
        f"  expected: float32[x_0, x_1], declared at {place('x')}\n"
        '  hint: graphc.function(..., casting="same_kind") takes it; or '
        'numpy.asarray(value, "float32") converts it, if that is meant'
        '; graphc.config.float = "float64" before that input loses none\n'
        "  arguments: x: float64[3, 3]",
        graphc.CallError,
    )
    f = graphc.function([x], x + 1, backend=backend, casting="same_kind")
    assert np.asarray(f(np.eye(1))).tolist() == [[2]]
    exact = graphc.function([x], x + 1, backend=backend, casting="exact")
    refused(
        lambda: exact(ones(2, 2).astype("float16")),
        "input x has another dtype",
        'hint: graphc.function(..., casting="safe") takes it; or numpy.asarray(',
    )
    refused(lambda: exact([[1.0]]), "input x is no array", "got: list")


@both
def test_what_stays_refused(backend):
    f = graphc.function([x, k], x[:k], backend=backend, casting="same_kind")
    for size in (2.0, np.float32(2), np.array(2.0), 1j, None, "2"):
        refused(lambda size=size: f(ones(2, 2), size), _problem(size))
    refused(lambda: f([[1], [1, 2]], 1), "input x is no array", "got: list")
    refused(lambda: f([["a"]], 1), "input x has another dtype", "got: <U1[1, 1]")
    refused(lambda: f([[None]], 1), "input x has another dtype", "got: object[1, 1]")
    refused(lambda: f([[1j]], 1), "input x has another dtype", "got: complex128[1, 1]")
    refused(lambda: f([1.0], 1), "input x has 1 axes, not 2", "got: float32[1]")
    refused(
        lambda: f([[k]], 1),
        "input x holds symbolic values",
        "hint: pass arrays or numbers, or go on building the graph",
    )
    g = graphc.function([byte], byte, backend=backend)
    refused(
        lambda: g([1, 300]),
        "input byte is out of range: an integer does not fit uint8",
        "hint: declare the input wider",
    )
    assert np.asarray(g([1, 255])).tolist() == [1, 255]


def _problem(size):
    whole_array = isinstance(size, (float, complex, np.generic, np.ndarray))
    return f"input k {'has another dtype' if whole_array else 'is no array'}"


def test_lists_of_numbers_with_a_dtype_keep_it():
    f = graphc.function([x], x, backend="numpy")
    first = "input x has another dtype"
    refused(lambda: f([np.ones(2), np.ones(2)]), first, "got: float64[2, 2]")
    assert f([ones(2), ones(2)]).tolist() == [[1, 1], [1, 1]]


def test_the_default_is_in_the_configuration(monkeypatch):
    for rule in ("exact", "same_kind"):
        monkeypatch.setattr(graphc.config, "casting", rule)
        f = graphc.function([x], x, backend="numpy")
        if rule == "exact":
            refused(lambda f=f: f([[1.0]]), "input x is no array")
        else:
            assert f(np.eye(1)).tolist() == [[1]]
    expected = "expected: one of 'exact', 'safe', 'same_kind'"
    first = "casting cannot be 'unsafe'"
    raised(
        lambda: setattr(graphc.config, "casting", "unsafe"),
        f"config: {first}",
        expected,
    )
    raised(
        lambda: graphc.function([x], x, casting="unsafe"),
        f"function: {first}",
        expected,
    )


@both
def test_defaults_are_cast_too(backend):
    inputs = [graphc.Input(wide, default=np.ones(2, "float32"))]
    f = graphc.function(inputs, wide / 3, backend=backend)
    assert np.asarray(f()).tolist() == [1 / 3, 1 / 3]


CASTING = """
import importlib, sys
import numpy as np

for name in sys.argv[1:]:
    saved = importlib.import_module(name)
    a, n = saved.program(np.arange(3, dtype="float32"), np.int32(2))
    print(np.asarray(a).tolist(), a.dtype, int(n))
    try:
        saved.program(np.ones(3, complex), 2)
    except saved.ProgramError as error:
        print(str(error).splitlines()[0])
"""


def test_saved_programs_cast_too(tmp_path):
    """One process imports all of them, since starting it takes longest."""
    outputs = [wide[:k] * 2, wide.shape[0]]
    options = [*itertools.product(["numpy", "jax"], ["specialize", "pad"])]
    for i, (backend, dims) in enumerate(options):
        f = graphc.function([wide, k], outputs, backend=backend, dims=dims)
        f.save(tmp_path / f"saved_{i}.py")
    modules = [f"saved_{i}" for i in range(len(options))]
    command = [sys.executable, "-c", CASTING, *modules]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    lines = ["[0.0, 2.0] float64 3", "input wide has another dtype"]
    assert run.stdout.splitlines() == lines * len(options), run.stderr


def test_the_plain_callable_casts_what_is_traced():
    f = graphc.function([x], gt.sum(x * x))
    given = jnp.ones((2, 2), "float16")
    assert jax.jit(f.jax_callable)(given) == 4
    assert jax.grad(f.jax_callable)(given).tolist() == [[2, 2], [2, 2]]
    with pytest.raises(graphc.CallError, match="^input x has another dtype"):
        jax.jit(f.jax_callable)(jnp.ones((2, 2), int))
