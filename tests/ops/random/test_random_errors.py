"""Messages for bad input to `gt.random`, when the graph is built and at the call."""

import re

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.ops.refusing import refused

R = gt.random
K = R.key(5)
REFUSED = {
    "needs one key, uint32[2]": [
        lambda: R.normal(0),
        lambda: R.normal(np.zeros(2)),
        lambda: R.split(np.zeros(2, "int32")),
    ],
    "make one with gt.random.key(seed)": [lambda: R.normal(3)],
    "take one of the keys, as keys[i]": [lambda: R.normal(R.split(K, 3))],
    "pass jax.random.key_data(key)": [lambda: R.normal(jax.random.key(0))],
    "a key has two words": [lambda: R.normal(np.zeros(3, "uint32"))],
    "negative size -1": [
        lambda: R.normal(K, -1),
        lambda: R.split(K, -1),
        lambda: R.randint(K, (2, -1), 0, 5),
    ],
    "a size must be an integer scalar": [lambda: R.normal(K, (2, 1.5))],
    "draws floats": [lambda: R.normal(K, 3, "int32")],
    "draws integers": [
        lambda: R.randint(K, 3, 0, 5, "float32"),
        lambda: R.poisson(K, 3.0, dtype="float32"),
    ],
    "draws unsigned integers": [lambda: R.bits(K, 3, "int32")],
    "bounds must be integers": [lambda: R.randint(K, 3, 0.5, 5)],
    "the bound 1099511627776 does not fit int32": [lambda: R.randint(K, 3, 0, 2**40)],
    "parameters must broadcast to the shape": [
        lambda: R.gamma(K, np.ones(3), (2,)),
        lambda: R.uniform(K, 2, minval=np.zeros(3)),
    ],
    "do not broadcast to the shape (3,)": [lambda: R.gamma(K, np.ones((2, 3)), 3)],
    "parameters do not broadcast": [lambda: R.beta(K, np.ones(3), np.ones(2))],
    "a parameter would be rounded to float32": [
        lambda: R.beta(K, np.ones(3), 1.0, dtype="float32")
    ],
    "parameters must be real": [lambda: R.gamma(K, 1j)],
    "p must be a float": [lambda: R.bernoulli(K, 1)],
    "p must be a vector": [lambda: R.choice(K, 5, 6, p=np.ones((5, 1)) / 5)],
    "one probability per element: 4 and 5": [
        lambda: R.choice(K, 5, 6, p=np.ones(4) / 4)
    ],
    "more draws than elements: 6 is more than 5": [lambda: R.choice(K, 5, 6, False)],
    "there is nothing to choose from": [lambda: R.choice(K, 0, 6)],
    "more draws than categories": [
        lambda: R.categorical(K, np.ones((3, 2)), shape=(5, 3), replace=False)
    ],
    "needs at least one category": [lambda: R.categorical(K, np.ones((3, 0)))],
    "needs an axis of categories": [
        lambda: R.categorical(K, 1.5),
        lambda: R.multinomial(K, 3, 0.5),
    ],
    "axis 2 is out of range": [lambda: R.categorical(K, np.ones((3, 2)), axis=2)],
    "alpha needs an axis": [lambda: R.dirichlet(K, 1.0)],
    "the covariance must fit the mean: 2 and 3": [
        lambda: R.multivariate_normal(K, np.ones(2), np.ones((3, 3)))
    ],
    "needs a mean vector and a covariance matrix": [
        lambda: R.multivariate_normal(K, np.ones(2), np.ones(2))
    ],
    "unknown method 'lu'": [
        lambda: R.multivariate_normal(K, np.ones(2), np.eye(2), method="lu")
    ],
    "needs a scalar df and a scale matrix": [lambda: R.wishart(K, 5, np.ones(3))],
    "needs an axis or an integer": [
        lambda: R.permutation(K, 1.5),
        lambda: R.choice(K, 1.5),
    ],
    "needs an axis": [lambda: R.shuffle(K, 5)],
    "the seed must be an integer scalar": [
        lambda: R.key(1.5),
        lambda: R.key(np.arange(2)),
    ],
    "the integer -1 does not fit uint32": [lambda: R.fold_in(K, -1)],
    "needs an integer scalar": [lambda: R.fold_in(K, 1.0)],
}


@pytest.mark.parametrize(
    ("message", "build"),
    [(message, build) for message, builds in REFUSED.items() for build in builds],
)
def test_bad_arguments_raise_when_the_graph_is_built(message, build):
    with refused(rf"(?s)^(random|normal: ).*{re.escape(message)}"):
        build()


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_sizes_that_do_not_fit_raise_at_the_call(backend):
    key, n = gt.tensor("key", "uint32", ("words",)), gt.iscalar("n")
    p = gt.vector("p", "float32", ("q",))
    outputs = [R.normal(key, n), R.choice(key, n, (2,), False, p)]
    f = graphc.function([key, n, p], outputs, backend=backend)
    words, share = np.zeros(2, "uint32"), np.full(3, 1 / 3, "float32")
    longer = np.zeros(3, "uint32")
    assert np.shape(f(words, 3, share)[0]) == (3,)
    bad = {
        "a key has two words: needs words == 2; got 3": (longer, 3, share),
        "one probability per element: needs q == n; got 3 and 4": (words, 4, share),
        "a size must not be negative: needs 0 <= n; got -1": (words, -1, share),
        "more draws than elements: needs 2 <= n; got 1": (words, 1, share[:1]),
    }
    for message, arguments in bad.items():
        with refused(re.escape(message), graphc.CallError):
            f(*arguments)


HUGE = 2**62
DRAWS = [
    lambda n: R.normal(K, (n,)),
    lambda n: R.uniform(K, (n,)),
    lambda n: R.bits(K, (n,)),
    lambda n: R.split(K, n),
    lambda n: R.randint(K, (n,), 0, 5),
    lambda n: R.gamma(K, 2.0, (n,)),
    lambda n: R.bernoulli(K, 0.5, (n,)),
    lambda n: R.poisson(K, 3.0, (n,)),
    lambda n: R.choice(K, 5, (n,)),
    lambda n: R.categorical(K, np.zeros(3, "float32"), shape=(n,)),
    lambda n: R.dirichlet(K, np.ones(3, "float32"), (n,)),
    lambda n: R.multivariate_normal(
        K, np.zeros(2, "float32"), np.eye(2, dtype="float32"), (n,)
    ),
    lambda n: gt.broadcast_to(np.float32(1), (n,)),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_draws_that_no_machine_holds(draw):
    """A known number raises when the graph is built, any other at the call."""
    limit = "is too large for graphc.config.max_bytes = 274877906944"
    with pytest.raises(graphc.GraphError, match=limit):
        draw(2**40)
    with pytest.raises(graphc.GraphError, match=f"{limit}|more bytes than int64 holds"):
        draw(HUGE)
    n = gt.tensor("number", "int64", ())
    f = graphc.function([n], draw(n), backend="numpy")
    assert len(f(3)) == 3
    with pytest.raises(graphc.CallError, match=limit) as caught:
        f(2**40)
    assert "asked for by test_random_errors.py" in str(caught.value)
    with pytest.raises(graphc.CallError, match="size, which is at most 2"):
        f(HUGE)


def test_the_whole_message_of_a_draw_that_is_too_large():
    with pytest.raises(graphc.GraphError) as caught:
        R.normal(K, (2**40,))
    assert str(caught.value).splitlines()[0] == (
        "random.normal: the float32 array is too large for graphc.config.max_bytes = "
        "274877906944: 1099511627776 is more than 68719476736"
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: R.pareto(K), r"pareto\(\) missing a required argument: 'b'"),
        (lambda: R.laplace(K, scale=2), r"laplace\(\) got an unexpected keyword"),
        (lambda: R.gumbel(K, 3, "float32", 1), r"gumbel\(\) too many positional"),
    ],
)
def test_arguments_that_a_distribution_has_not(call, text):
    with pytest.raises(TypeError, match=text):
        call()
