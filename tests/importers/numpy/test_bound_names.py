"""Functions of NumPy that the user's code has bound to names of its own."""

import threading
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from numpy import arange, array, asarray, atleast_2d, exp, eye, full, r_, take, zeros
from numpy import mean as average
from numpy import random as draws

import graphc
from graphc.importers.numpy.names import numpy_of_values
from tests.importers.numpy.test_function import same, some

TABLE = {"zeros": np.zeros, "mean": np.mean, np.zeros: 2.0, np.exp: 3.0}
LISTED = [np.asarray, np.mean]


@dataclass(frozen=True)
class Chosen:
    make: object = np.zeros
    reduce: object = np.mean

    def both(self, x):
        y = self.make(3)
        y[0] = x[0]
        return self.reduce(x) + y


CHOSEN = Chosen()


def written(x):
    y = zeros(3)
    y[0] = x[0]
    return y, full(2, x[0]), array([x[0], 2.0]), r_[x, 0.5]


def written_into_what_is_shared(x):
    y = zeros(3)
    z = asarray(y)
    y[0] = x[0]
    return z


def by_default(x, make=np.zeros, *, rows=atleast_2d):
    y = make(x.shape[0])
    y[0] = x[0]
    return rows(y)


def in_closure(make):
    return lambda x: make(x.shape[0]) + x


FUNCTIONS = {
    "sizes": lambda x: (zeros(x.shape) + x, arange(len(x)) * x, eye(x.shape[0]) @ x),
    "written": written,
    "shared": written_into_what_is_shared,
    "values": lambda x: (asarray(x), atleast_2d(x), take(np.arange(9.0), x > 0)),
    "defaults": by_default,
    "closure": in_closure(np.zeros),
    "table": lambda x: TABLE["zeros"](x.shape) + TABLE["mean"](x),
    "object": CHOSEN.both,
    "partial": partial(by_default, make=np.ones),
    "getattr": lambda x: [getattr(np, name)(x) for name in ("asarray", "atleast_2d")],
    "mapped": lambda x: list(map(np.asarray, [x, x * 2])),
    "kept": lambda x: [f(n) for f, n in ((np.zeros, x.shape), (np.ones, x.shape))],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_by_other_names_take_values(name):
    function = FUNCTIONS[name]
    ours = graphc.jit(function, frontend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in (4, 6, 9):
            same(ours(some(n)), function(some(n)))


def by_identity(x, reduce):
    makes = np.zeros
    answers = [
        *(reduce is np.mean, np.mean is reduce, reduce is average, np.exp is exp),
        *(CHOSEN.reduce is np.mean, CHOSEN.make is not np.ones, LISTED[1] is np.mean),
        *(makes is np.zeros, makes == zeros, reduce in (np.sum, np.mean)),
        *(np.zeros in TABLE, zeros in TABLE, exp in TABLE, TABLE[np.exp] == 3),
    ]
    return x * np.array(answers), reduce(x)


def test_functions_are_the_same_as_by_other_names():
    ours = graphc.jit(by_identity, frontend="numpy", static_argnums=1)
    for n in (14, 1):
        same(ours(some(n), np.mean), by_identity(some(n), np.mean))


def test_names_are_as_they_were_after_the_trace():
    def fails(x):
        assert asarray is not LISTED[0]
        raise ValueError("of the user's")

    with pytest.raises(ValueError, match="of the user's"):
        graphc.jit(fails, frontend="numpy")(some(3))
    kept = (asarray, zeros, TABLE["zeros"], CHOSEN.make, by_default.__defaults__[0])
    plain = (np.asarray, np.zeros, np.zeros, np.zeros, np.zeros)
    assert all(a is b for a, b in zip(kept, plain, strict=True))
    assert by_default.__kwdefaults__ == {"rows": np.atleast_2d}


def test_other_threads_have_functions_of_numpy():
    kinds = []

    def asks(x):
        thread = threading.Thread(target=lambda: kinds.append(type(zeros(2))))
        thread.start()
        thread.join()
        return zeros(2) + x[0]

    same(graphc.jit(asks, frontend="numpy")(some(3)), np.zeros(2) + some(3)[0])
    assert kinds == [np.ndarray]


def test_a_lookup_that_lasts_longer_than_a_trace_finds_the_function_of_numpy():
    """A thread may look a name up while another ends its trace."""
    with numpy_of_values():
        look_up = type(np).__getattribute__
    assert look_up(np, "zeros") is np.zeros


def test_draws_by_another_name_are_refused():
    told = "random numbers would be drawn once"
    with pytest.raises(graphc.GraphError, match=told):
        graphc.jit(lambda x: x + draws.normal(), frontend="numpy")(some(3))
