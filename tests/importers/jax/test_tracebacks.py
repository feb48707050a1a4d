"""Tracebacks keep the frames of users, and the frames that JAX itself would show."""

import builtins
import pickle
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.tracebacks import hide_own_frames

OURS = graphc.__file__.removesuffix("__init__.py")
x, y = gt.tensor("x", "float32", ("n",)), gt.tensor("y", "float32", ("m",))


def ones(*shape):
    return np.ones(shape, "float32")


def picky(x):
    if len(x.shape) == 1 and x.shape[0] == 5:
        raise ValueError("five")
    return x + 1


def product(x, w):
    return x @ w


def after(function, *calls):
    """Call a function several times; the last call raises."""
    for args in calls:
        function(*args)


PICKY = [(ones(n),) for n in (3, 4, 5)]
PRODUCTS = [(ones(3, n), ones(min(n, 4))) for n in (3, 4, 5)]
CASES = {
    "mask": lambda: graphc.jit(lambda x: x[x > 0])(ones(3)),
    "first": lambda: graphc.jit(picky)(ones(5)),
    "third": lambda: after(graphc.jit(picky), *PICKY),
    "third product": lambda: after(graphc.jit(product), *PRODUCTS),
    "shapes": lambda: graphc.jit(product, shapes="n d, d")(ones(3, 4), ones(3)),
    "option": lambda: graphc.jit(picky, dims="padd"),
    "numpy": lambda: graphc.jit(picky, frontend="numpy")(ones(5)),
    "numpy third": lambda: after(graphc.jit(product, frontend="numpy"), *PRODUCTS),
    "optimize": lambda: graphc.optimize(picky)(ones(5)),
    "ragged": lambda: graphc.ragged(picky)([ones(5)]),
    "from_jax": lambda: graphc.from_jax(lambda x: x[x > 0], ones(3)),
    "dims": lambda: graphc.function([x], x, dims={"q": "pad"}),
    "backend": lambda: graphc.function([x], x, backend="torch"),
    "inputs": lambda: graphc.function([x], y * 2),
    "one segment": lambda: graphc.function([x], gt.nonzero(x)[0], jit=True),
    "no scalar": lambda: graphc.grad(x, x),
    "function of gt": lambda: gt.sort(x, axis=3),
    "function of a space": lambda: gt.linalg.cholesky(x),
    "method": lambda: x.sum(axis=2),
    "operator": lambda: x @ "a",
    "index": lambda: x[0, 0],
    "update": lambda: x.at[0].set("a"),
    "variable": lambda: gt.tensor("v", "float31", ()),
    "mapped": lambda: graphc.vmap(lambda a, b: a)(x),
    "policy": lambda: graphc.Pad(growth=0),
    "body": lambda: gt.scan(lambda c, v: (c + v[0], v), 0.0, x),
    "examples": lambda: graphc.ragged([x], x, backend="numpy")([ones(2, 2)]),
}


def raised(run):
    with pytest.raises(Exception) as caught:
        run()
    return caught.value


def files(error):
    return [f.f_code.co_filename for f, _ in traceback.walk_tb(error.__traceback__)]


@pytest.mark.filterwarnings("ignore::graphc.FallbackWarning")
@pytest.mark.parametrize("name", CASES)
def test_they_have_none_of_ours(name):
    error = raised(CASES[name])
    assert not any(file.startswith(OURS) for file in files(error))
    assert files(error)[-1] == __file__ or "/jax/" in files(error)[-1]
    assert error.__context__ is None or error.__suppress_context__


def test_they_are_as_long_as_those_of_jax():
    for function, args in ((lambda x: x[x > 0], (ones(3),)), (product, PRODUCTS[-1])):
        ours, theirs = graphc.jit(function), jax.jit(function)
        wanted = files(raised(lambda theirs=theirs, args=args: theirs(*args)))
        assert files(raised(lambda ours=ours, args=args: ours(*args))) == wanted


def test_settings_of_jax_hold_here(monkeypatch):
    with _filtering("off"):
        assert any(file.startswith(OURS) for file in files(raised(CASES["third"])))
    with _filtering("tracebackhide"):
        error = raised(CASES["numpy"])
    frames = [f for f, _ in traceback.walk_tb(error.__traceback__)]
    ours = [f for f in frames if f.f_code.co_filename.startswith(OURS)]
    assert ours and all(f.f_locals.get("__tracebackhide__") for f in ours)
    monkeypatch.setattr(builtins, "get_ipython", None, raising=False)
    assert any(file.startswith(OURS) for file in files(raised(CASES["dims"])))


class _filtering:
    """Sets JAX's mode of filtering tracebacks within a block."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        self.before = jax.config.jax_traceback_filtering
        jax.config.update("jax_traceback_filtering", self.mode)

    def __exit__(self, *_):
        jax.config.update("jax_traceback_filtering", self.before)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: gt.mean(x, dim=0), "'dim'; write axis="),
        (lambda: x.sum(keepdim=True), "'keepdim'; write keepdims="),
        (lambda: gt.sort(x, descendin=True), "; did you mean 'descending'?"),
        (lambda: gt.clip(x, out=x), "; values are never written to: take the result"),
        (lambda: gt.nn.softmax(x, foo=1), "'foo'; it takes x, axis"),
        (lambda: graphc.Pad(size=3), "'size'; it takes growth, minimum"),
        (lambda: graphc.function([x], x, static_argnums=0), "; it takes inputs, out"),
    ],
)
def test_unknown_keywords_are_told_what_to_write(call, told):
    error = raised(call)
    assert type(error) is TypeError and told in str(error)
    assert not any(file.startswith(OURS) for file in files(error))


def test_functions_of_gt_can_be_pickled_and_stay_the_same():
    for function in (gt.sum, gt.linalg.solve, gt.scan):
        assert pickle.loads(pickle.dumps(function)) is function
    assert gt.sum.__module__ == "graphc.tensor" and gt.sum is gt.sum


def test_mistakes_of_ours_are_shown_whole():
    @hide_own_frames
    def own():
        return gt.zeros.no_such_name

    own.__wrapped__.__code__ = own.__wrapped__.__code__.replace(
        co_filename=f"{OURS}mistake.py"
    )
    assert f"{OURS}mistake.py" in files(raised(own))


def test_values_and_warnings_are_as_before():
    assert jnp.array_equal(graphc.jit(picky)(ones(3)), 2 * ones(3))
    with pytest.warns(graphc.UnusedInputWarning) as warned:
        graphc.function([x, y], x, backend="numpy")
    assert warned[0].filename == __file__
