"""Functions written with NumPy's names give NumPy's values, dtypes and structures."""

import pickle
import re
import threading
import warnings

import jax
import numpy as np
import pytest
import scipy.fft
import scipy.special
from scipy import special
from scipy.special import expit, logsumexp

import graphc
from graphc.importers.numpy.names import _functions_of_numpy, numpy_of_values
from graphc.importers.numpy.traced.arrays import TracedArray
from graphc.importers.reachable import reachable_objects

TABLE = np.arange(10.0)


def some(n):
    return np.cos(np.arange(n) * 1.3).astype("float32")


FUNCTIONS = {
    "mask": lambda x: (x[x > 0].sum(), x[x > 0]),
    "nonzero": lambda x: np.nonzero(x > 0),
    "unique": lambda x: np.unique(np.round(x), return_counts=True),
    "size as a float": lambda x: x / np.sqrt(x.shape[0]),
    "integers": lambda x: np.mean(np.arange(x.shape[0])) + np.arange(x.size) * 2.5,
    "table": lambda x: np.take(TABLE, np.arange(x.shape[0])),
    "reshape": lambda x: np.reshape(np.ones(12), (x.shape[0] // x.shape[0], -1)),
    "grids": lambda x: (np.linspace(0, 1, x.shape[0]), np.identity(len(TABLE)) @ TABLE),
    "eye": lambda x: np.eye(x.shape[0]) @ x,
    "full": lambda x: (np.full(x.shape, 2), np.broadcast_to(1.5, x.shape)),
    "list": lambda x: np.array([x.sum(), 1.0, x.shape[0]]),
    "ufunc methods": lambda x: (np.add.reduce(x), np.subtract.outer(x, x)),
    "accumulate": lambda x: (np.add.accumulate(x), np.maximum.reduce(x)),
    "copies": lambda x: np.copy(x) + np.ascontiguousarray(x) + x.copy(),
    "kind of sort": lambda x: np.argsort(x, kind="stable"),
    "structure": lambda x: {"a": [x, None, (x.shape[0],)], "b": 2.5},
    "repeat": lambda x: np.repeat(x, (x > 0) + 1),
    "other floats": lambda x: (np.around(x, 1), x * np.float64(2), np.zeros(3)),
    "triangles": lambda x: (np.tril_indices(x.size, -1), np.triu_indices(2, 0, x.size)),
    "positions": lambda x: np.unravel_index(x.argmax(), (x.shape[0], 1)),
    "flat": lambda x: np.ravel_multi_index((x.argsort(), [0]), (x.size, 2)),
    "diagonal": lambda x: np.outer(x, x)[np.diag_indices(x.size)],
    "moved over": lambda x: (np.convolve(x, TABLE), np.correlate(x, TABLE, "same")),
    "polynomial": lambda x: (np.polyval([1.0, 2.0], x), np.polyadd(x, [1.0])),
    "slopes": lambda x: np.gradient(np.outer(x, TABLE), 0.5, axis=1),
    "angles": lambda x: np.unwrap(x * 5),
    "mesh": lambda x: np.outer(x, x)[np.ix_([0], x > -2)],
    "methods": lambda x: (x.mean(), x.argmax(), x.reshape(-1, 1), x.clip(0)),
}


def same(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        b = np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_those_of_numpy(name):
    function = FUNCTIONS[name]
    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    for n in (3, 4, 6, 1):
        same(ours(some(n)), function(some(n)))
    assert ours.stats().fallbacks == []


@pytest.mark.parametrize("name", ["mask", "size as a float", "structure"])
def test_they_are_compiled_by_jax(name):
    function = FUNCTIONS[name]
    ours = graphc.jit(function, frontend="numpy")
    for n in (3, 4, 6):
        same(ours(some(n)), function(some(n)))
    assert ours.stats().fallbacks == [] and ours.stats().compilations


def test_sizes_that_depend_on_data_split_the_program():
    @graphc.jit(frontend="numpy", shapes="n")
    def spread(x):
        kept = x[x > 0]
        return kept - np.sum(kept) / kept.shape[0]

    same(spread(some(7)), some(7)[some(7) > 0] - some(7)[some(7) > 0].mean())
    assert "segment 1: " in spread.explain()


def test_arguments_are_told_as_to_jax():
    @graphc.jit(frontend="numpy", backend="numpy", static_argnames="how")
    def scaled(batch, k, /, *, how="sum", shift=0):
        x = batch["x"][:k] * k + shift
        return {"out": getattr(np, how)(x), "k": k}

    for n in (3, 5, 6):
        for how in ("sum", "max"):
            batch = {"x": some(n), "rest": None}
            found = scaled(batch, 2, how=how, shift=True)
            same(found, scaled.__wrapped__(batch, 2, how=how, shift=True))
    assert scaled.stats().calls == 6


def test_python_numbers_are_weak():
    ours = graphc.jit(lambda x, k: (x * k, k * 2), frontend="numpy", backend="numpy")
    for k in (2, 2.5, True, np.float64(2), 1j):
        same(ours(some(3), k), (some(3) * k, k * 2))


def test_what_python_decides_by_a_size_is_compiled_for_each():
    def unrolled(x):
        steps = [np.sin if i.bit_count() % 2 else np.cos for i in range(x.shape[0])]
        return sum(step(x[i]) for i, step in enumerate(steps))

    ours = graphc.jit(unrolled, frontend="numpy", backend="numpy")
    with pytest.warns(graphc.FallbackWarning) as told:
        for n in (2, 3, 4):
            same(ours(some(n)), np.float32(unrolled(some(n))))
    (text,) = [str(w.message) for w in told]
    assert text.startswith("unrolled is compiled once for each size: ")
    assert told[0].filename == __file__


def test_a_type_that_only_some_sizes_give_is_noticed():
    def odd(x):
        return x.sum() / (2 if type(x.shape[0]) is int else np.float64(2))

    ours = graphc.jit(odd, frontend="numpy", backend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (3, 4):
            same(ours(some(n)), odd(some(n)))
    assert "other types" in ours.stats().fallbacks[0]


def test_derivatives_are_taken_here():
    def cost(w, x):
        return np.sum(np.tanh(x[x > 0] * w["a"])) + w["b"] ** 2, {"n": x.size}

    def by_hand(w, x):
        kept = x[x > 0]
        return np.sum(kept / np.cosh(kept * w["a"]) ** 2), 2 * w["b"]

    told = {"frontend": "numpy", "backend": "numpy"}
    slope = graphc.jit(graphc.grad(cost, has_aux=True), **told)
    both = graphc.jit(graphc.value_and_grad(cost, has_aux=True), **told)
    blocks = graphc.jit(graphc.jacobian(lambda x: {"y": x**2}), **told)
    for n in (3, 5):
        w, x = {"a": np.float32(0.5), "b": np.float32(2)}, some(n)
        a, b = by_hand(w, x)
        same(slope(w, x), ({"a": a, "b": b}, {"n": n}))
        same(both(w, x), (cost(w, x), {"a": a, "b": b}))
        same(blocks(x), {"y": np.diag(2 * x)})


def test_transformations_of_jax_see_the_program():
    ours = graphc.jit(lambda x: np.sum(np.sin(x)), frontend="numpy")
    slope = jax.jit(jax.grad(ours))(some(4))
    np.testing.assert_allclose(slope, np.cos(some(4)), rtol=1e-6)
    batch = np.stack([some(3), some(3) + 1])
    wanted = np.sin(batch).sum(1)
    np.testing.assert_allclose(jax.vmap(ours)(batch), wanted, rtol=1e-6)
    with jax.disable_jit():
        same(ours(some(4)), np.sum(np.sin(some(4))))


def test_numpy_is_as_it_was():
    def names():
        return type(np), {name: vars(np)[name] for name, _ in _functions_of_numpy()}

    before = names()
    with numpy_of_values(), numpy_of_values():
        assert type(np) is not before[0] and names()[1] == before[1]
        assert np.zeros is not before[1]["zeros"]
        assert type(np.zeros(2)) is TracedArray
        assert type(np.linalg.inv(np.eye(2)[:1, :1]).content) is np.ndarray
        found = []
        x = graphc.tensor.vector("x")

        def elsewhere():
            try:
                np.zeros(x.shape)
            except graphc.GraphError as error:
                found.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert found
    assert names() == before


TEXT = """\
args[0][1]['x'] of f is of type str, which is neither an array nor a number; use \
static_argnums or static_argnames for an argument that stays as it is"""


def test_leaves_that_are_no_arrays_are_named():
    def f(x, y=None):
        return x

    ours = graphc.jit(f, frontend="numpy")
    with pytest.raises(TypeError, match=f"^{re.escape(TEXT)}$"):
        ours([some(2), {"x": "text"}])
    with pytest.raises(TypeError, match=re.escape("named['y'] of f is of type object")):
        ours(some(2), y=object())


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(graphc.GraphError) as error:
        graphc.jit(lambda x: x, frontend="torch")
    assert str(error.value).startswith("jit: frontend cannot be 'torch'")
    assert "one of 'jax', 'numpy'" in str(error.value)
    with pytest.raises(graphc.GraphError, match="only functions of JAX"):
        graphc.jit(lambda x: x, frontend="numpy", donate_argnums=0)


def test_names_of_numpy_reach_nothing_within_it():
    with numpy_of_values():
        assert list(reachable_objects(lambda: np.zeros(3))) == [np]


@graphc.jit(frontend="numpy", backend="numpy")
def centred(x):
    y = np.zeros(x.shape)
    y += x - x.mean()
    return y


def test_functions_that_are_called_within_belong_to_the_trace():
    def function(x):
        y = centred(x)
        y[0] = 7
        y += centred(np.arange(3.0)).sum()
        return y

    for n in (3, 4, 5):
        x = np.arange(n * 1.0)
        expected = x - x.mean()
        expected[0] = 7
        ours = graphc.jit(function, frontend="numpy", backend="numpy")
        np.testing.assert_allclose(ours(x), expected)


def test_ufuncs_of_scipy_take_arrays():
    def function(x, half):
        y = np.zeros(x.shape)
        scipy.special.gammaln(x, out=y)
        y[1:] += expit(half[1:]) + scipy.special.xlogy(2, x[0])
        return y, expit(half), scipy.special.ndtr(x > 1), expit(np.arange(3.0))

    ours = graphc.jit(function, frontend="numpy")
    for n in (3, 4, 5):
        x = np.arange(1.0, n + 1)
        for got, expected in zip(
            ours(x, x.astype("float16")), function(x, x.astype("float16")), strict=True
        ):
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, 1e-6)


def all_are_like_scipy(functions, dtype, least, atol):
    def called(x):
        return [function(x) for function in functions.values()]

    ours = graphc.jit(called, frontend="numpy", backend="numpy")
    for n in (3, 4, 6):
        x = (np.arange(n * 5).reshape(n, 5) % 7 + least).astype(dtype)
        for got, expected, name in zip(ours(x), called(x), functions, strict=True):
            assert got.dtype == expected.dtype, name
            np.testing.assert_allclose(got, expected, 1e-5, atol, err_msg=name)


EXPONENTIALS = {
    "imported": lambda x: logsumexp(x),
    "of the module": lambda x: scipy.special.logsumexp(a=x, axis=0, keepdims=True),
    "by another name": lambda x: special.log_softmax(x, axis=-1),
    "weighted": lambda x: logsumexp(x, b=np.arange(x.shape[1]), axis=1),
    "with signs": lambda x: logsumexp(x, axis=1, b=-x, return_sign=True)[1],
    "shares": lambda x: special.softmax(x, axis=1),
    "of known numbers": lambda x: special.logsumexp(np.arange(3.0)) + x[0],
    "of rows": lambda x: special.logsumexp([x[0], x[1]], axis=0),
    "of others": lambda x: scipy.special.comb(5, 2) * x[0],
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_sums_of_exponentials_of_scipy_take_arrays(dtype):
    all_are_like_scipy(EXPONENTIALS, dtype, least=-3, atol=0)


TRANSFORMS = {
    "one axis": lambda x: scipy.fft.fft(x, axis=0, overwrite_x=True),
    "so many points": lambda x: scipy.fft.rfft(x, x.shape[0] + 1, norm="ortho"),
    "back": lambda x: scipy.fft.irfft(x, workers=2),
    "several axes": lambda x: scipy.fft.fftn(x, axes=(0,)),
    "two axes": lambda x: scipy.fft.ifft2(x, (4, 3), norm="forward"),
    "of known numbers": lambda x: (
        scipy.fft.dct(np.ones(3)) + scipy.fft.ihfft(x[0]).real[0]
    ),
    "a known frequency": lambda x: np.fft.fftfreq(4)[np.argmax(x.shape)],
    "frequencies": lambda x: scipy.fft.fftshift(scipy.fft.fftfreq(x.shape[0])),
}


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_transforms_of_scipy_take_arrays(dtype):
    all_are_like_scipy(TRANSFORMS, dtype, least=0, atol=1e-5)


def test_traced_arrays_are_not_pickled():
    ours = graphc.jit(lambda x: pickle.loads(pickle.dumps(x)), frontend="numpy")
    with pytest.raises(graphc.GraphError, match="pickle: an array that is traced"):
        ours(some(3))


def test_random_names_that_are_kept_draw_after_the_trace():
    names = []

    def function(x):
        names.extend([np.random, np.random.normal])
        return x

    graphc.jit(function, frontend="numpy", backend="numpy")(some(3))
    assert names[0].normal(size=2).shape == names[1](size=2).shape == (2,)


@pytest.mark.parametrize("kind", [np.matrix, np.ma.MaskedArray, np.recarray])
def test_arrays_of_other_classes_are_told(kind):
    array = np.zeros((2, 2)).view(kind)
    with pytest.raises(graphc.GraphError, match=r"np\.\w+\.?\w*\(a.*is a plain array"):
        graphc.jit(lambda x: x * x, frontend="numpy")(array)
