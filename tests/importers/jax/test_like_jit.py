"""Arguments and results that JAX accepts and graphs lack, and results that coincide."""

import re
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
from graphc.importers.jax.sizes.family import FallbackWarning
from graphc.importers.jax.trace.subject import Subject
from tests.importers.jax.comparing import outcomes_by_jax

SIZES = 3, 4, 5, 6


def column(n):
    return jnp.arange(1.0, n + 1)


def is_token(x):
    return type(x).__name__ == "Token"


def in_structure(x, token):
    return {"x": x + 1, "rest": [token, None]}


def within(x):
    token = lax.after_all(lax.create_token(x), lax.create_token())
    return x * 2, token


@pytest.mark.parametrize("given", [True, False])
def test_tokens_are_taken_and_returned(given):
    token = lax.create_token()
    ours = graphc.jit(in_structure if given else within)
    for n in SIZES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            found = ours(column(n), token) if given else ours(column(n))
        leaves = jax.tree.leaves(found)
        (made,) = filter(is_token, leaves)
        (array,) = (leaf for leaf in leaves if leaf is not made)
        assert made is not token
        np.testing.assert_array_equal(array, column(n) + 1 if given else 2 * column(n))
    (why,) = ours.stats().fallbacks
    told = "an argument is not an array" if given else "a value is not an array"
    assert told in why


UNREAD = {
    "convert_element_type: there is no dtype int4": lambda x: x.astype("int4") * 2,
    "random_seed: keys of the generator": lambda x: (
        jax.random.normal(jax.random.key(0, impl="rbg"), x.shape) * x
    ),
    "create_token: a value is not an array": within,
}


@pytest.mark.parametrize("reason", UNREAD)
def test_the_primitive_and_the_line_are_told(reason):
    ours = graphc.jit(UNREAD[reason])
    with pytest.warns(FallbackWarning, match=rf"{reason}.*, at test_like_jit.py:\d+"):
        for n in SIZES[:2]:
            ours(column(n))


def of_tokens_alone(token):
    return lax.after_all(token, lax.create_token())


def test_a_call_without_arrays_may_have_a_token():
    ours = graphc.jit(of_tokens_alone)
    assert all(is_token(ours(lax.create_token())) for _ in range(2))


def counting(total, x):
    total[...] += x.sum()
    return 2 * x


def with_own_total(x):
    total = jax.new_ref(jnp.float32(0))
    for i in range(3):
        total[...] += x[i]
    return total[...] * x


def test_references_are_read_and_written_at_every_size():
    outside, given = jax.new_ref(jnp.float32(0)), jax.new_ref(jnp.float32(0))
    closed = graphc.jit(lambda x: counting(outside, x))
    told, own = graphc.jit(counting), graphc.jit(with_own_total)
    for n in SIZES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            found = closed(column(n)), told(given, column(n)), own(column(n))
        for x, factor in zip(found, (2, 2, 6), strict=True):
            np.testing.assert_array_equal(x, factor * column(n))
    total = sum(n * (n + 1) / 2 for n in SIZES)
    assert outside[...] == given[...] == total


SAME = {
    "argument": lambda x: x,
    "twice": lambda x: (x, x),
    "nothing done": lambda x: (x * 1, lax.stop_gradient(x), x[:]),
    "alike": lambda x: {"a": x * 2, "b": [2 * x]},
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_results_are_arrays_of_their_own(name, backend):
    """One of them may be donated or written, and the others must stay."""
    ours = graphc.jit(SAME[name], backend=backend)
    for n in SIZES:
        x = column(n)
        found = [x, *jax.tree.leaves(ours(x))]
        where = [np.asarray(leaf).ctypes.data for leaf in found]
        assert len(set(where)) == len(where)


def test_what_is_captured_stays_when_a_result_is_donated():
    table = jnp.arange(100.0)
    ours = graphc.jit(lambda x: (x, table))
    consumed = jax.jit(lambda y: y + 1, donate_argnums=0)
    for n in SIZES:
        for _ in range(2):
            consumed(ours(column(n))[1])
    assert table.sum() == ours(column(4))[1].sum() == 4950


def kinds(seen):
    """Functions that record which arguments are traced, T, and which static, s."""

    def note(*args):
        kind = ("T" if isinstance(x, jax.core.Tracer) else "s" for x in args)
        seen.append("".join(kind))

    def plain(x, y, z=0):
        note(x, y, z)
        return x

    def many(x, *args):
        note(x, *args)
        return x

    def only(x, /, y, *, z=1):
        note(x, y, z)
        return x

    return {"plain": plain, "many": many, "only": only}


STATICS = [
    ("plain", dict(static_argnums=-1), (2, 3), {}),
    ("plain", dict(static_argnums=-1), (2,), {}),
    ("plain", dict(static_argnums=-1), (2,), {"z": 3}),
    ("plain", dict(static_argnums=(1, -1)), (2,), {}),
    ("many", dict(static_argnums=-1), (2,), {}),
    ("plain", dict(static_argnums=1, static_argnames=()), (), {"y": 2}),
    ("plain", dict(static_argnums=(), static_argnames="y"), (2, 3), {}),
    ("plain", dict(static_argnums=(), static_argnames="y"), (), {"y": 2}),
    ("plain", dict(static_argnums=1, static_argnames="z"), (2,), {"z": "a"}),
    ("plain", dict(static_argnums=1, static_argnames="z"), (), {"y": 2, "z": 3}),
    ("plain", dict(static_argnums=np.int64(1)), (2, 3), {}),
    ("plain", dict(static_argnums=np.array([1, 2])), (2, 3), {}),
    ("plain", dict(static_argnums=range(1, 3)), (2, 3), {}),
    ("plain", dict(static_argnums=(1, -2)), (2, 3), {}),
    ("many", dict(static_argnums=-1), (2, 3), {}),
    ("many", dict(static_argnums=(1, 3)), (2, 3), {}),
    ("many", dict(static_argnums=(1, 3)), (2, 3, 4), {}),
    ("only", dict(static_argnames=("y", "z")), (2,), {}),
    ("only", dict(static_argnames=("y", "z")), (), {"y": 2, "z": 3}),
    ("only", dict(static_argnums=1), (), {"y": 2}),
]


@pytest.mark.parametrize("name, told, args, named", STATICS)
def test_the_arguments_that_jax_takes_as_static_are_static(name, told, args, named):
    def noted(jit):
        seen = []
        function = jit(kinds(seen)[name], **told)
        for n in SIZES:
            function(column(n), *args, **named)
        return seen[-1]

    assert noted(graphc.jit) == noted(jax.jit)


@pytest.mark.parametrize("jit", [jax.jit, graphc.jit])
def test_options_that_are_read_once_are_read_once(jit):
    function = jit(lambda x, y, z: x * len(y) * z, static_argnames=iter(["y", "z"]))
    for n in SIZES:
        assert function(column(n), y="ab", z=3).sum() == 6 * column(n).sum()


@pytest.mark.parametrize("order", [(1, True, 1.0), (True, 1.0, 1), (1.0, 1, True)])
def test_statics_that_are_equal_and_of_other_types_differ(order):
    ours, theirs = (
        partial(jit, static_argnums=1)(lambda x, k: (x, k))
        for jit in (graphc.jit, jax.jit)
    )
    for n in SIZES:
        for static in order:
            found, wanted = ours(column(n), static), theirs(column(n), static)
            assert found[1].dtype == wanted[1].dtype
            assert found[1].weak_type == wanted[1].weak_type


class Power:
    """A static argument whose `__eq__` works only with its own kind."""

    def __init__(self, exponent):
        self.exponent = exponent

    def __hash__(self):
        return hash(self.exponent)

    def __eq__(self, other):
        return self.exponent == other.exponent


def test_statics_of_two_types_are_not_compared():
    """Their `__eq__` may fail, for example on a field that the other type lacks."""

    def power(x, key):
        return x ** getattr(key, "exponent", key)

    function = graphc.jit(power, static_argnums=1)
    for key in (2, Power(2), Power(3), 3, Power(2), 2):
        for n in SIZES:
            np.testing.assert_allclose(function(column(n), key), power(column(n), key))


def test_a_parameter_may_have_any_name():
    ours = graphc.jit(lambda **named: sum(named.values()))
    for n in SIZES:
        own = {"self": column(n), "args": 1, "named": 2, "function": 3}
        np.testing.assert_array_equal(ours(**own), column(n) + 6)
        assert ours.eval_shape(**own).shape == ours.trace(**own).out_info.shape == (n,)


class Shaped:
    """An object with the attributes of an array, which it is not."""

    shape, dtype = (5,), np.dtype("float32")


@pytest.mark.parametrize(
    "wrong", [Shaped(), jax.ShapeDtypeStruct((5,), "float32"), object()]
)
def test_what_is_no_array_is_told_as_by_jax(wrong):
    ours, theirs = graphc.jit(lambda x: x * 2), jax.jit(lambda x: x * 2)
    for n in SIZES:
        ours(column(n))
        for function in (ours, theirs):
            with pytest.raises(TypeError, match="valid JAX type|as an abstract array"):
                function(wrong)


@jax.tree_util.register_pytree_node_class
class Strict:
    """A structure that accepts only arrays."""

    def __init__(self, array):
        if not hasattr(array, "shape"):
            raise ValueError("no array")
        self.array = array

    def tree_flatten(self):
        return (self.array,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def test_structures_may_look_at_what_they_hold():
    ours = graphc.jit(lambda strict: Strict(2 * strict.array))
    for n in SIZES:
        found = ours(Strict(column(n))).array
        np.testing.assert_array_equal(found, 2 * column(n))
    assert ours.stats().fallbacks == []


def test_a_gradient_may_be_of_such_a_structure():
    def cost(strict):
        return jnp.sum(strict.array**2)

    ours = graphc.jit(graphc.grad(cost))
    for n in SIZES:
        found = ours(Strict(column(n))).array
        np.testing.assert_allclose(found, 2 * column(n))


@jax.tree_util.register_pytree_node_class
class Mixed:
    """Holds arrays, and numbers that belong to the structure, as in Distrax."""

    def __init__(self, array, number):
        self.array, self.number = array, number

    def tree_flatten(self):
        held = {"array": self.array, "number": self.number}
        arrays = {k: x for k, x in held.items() if not isinstance(x, int)}
        others = {k: x for k, x in held.items() if isinstance(x, int)}
        return list(arrays.values()), (tuple(arrays), tuple(others.items()))

    @classmethod
    def tree_unflatten(cls, kept, children):
        names, others = kept
        return cls(**dict(zip(names, children, strict=True)), **dict(others))


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_structures_may_take_numbers_for_their_own(frontend):
    ours = graphc.jit(
        lambda m, x: Mixed(m.number * m.array + x, m.number), frontend=frontend
    )
    for n in SIZES:
        result = ours(Mixed(column(n), 2), np.ones(n))
        np.testing.assert_array_equal(result.array, 2 * column(n) + 1)
        assert result.number == 2
    assert len(ours.stats().compilations) == 2 and ours.stats().fallbacks == []


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_they_may_stand_beside_a_gradient(frontend):
    def cost(m):
        return (m.array**2).sum(), Mixed(m.array * 3, m.number)

    ours = graphc.jit(graphc.value_and_grad(cost, has_aux=True), frontend=frontend)
    for n in SIZES:
        (value, aside), slope = ours(Mixed(column(n), 2))
        assert (value, aside.number, slope.number) == (np.sum(column(n) ** 2), 2, 2)
        np.testing.assert_array_equal(aside.array, 3 * column(n))
        np.testing.assert_array_equal(slope.array, 2 * column(n))


APPLIED = {
    "several": lambda x: x.at[jnp.array([0, 1, 0])].apply(lambda v: 3 * v),
    "clipped": lambda x: x.at[jnp.arange(5)].apply(lambda v: v + 1, mode="clip"),
    "at both ends": lambda x: x.at[jnp.arange(6) - 3].apply(lambda v: v + 1),
    "broadcast": lambda x: x.at[jnp.broadcast_to(1, x.shape[:1])].apply(
        lambda v: 3 - v
    ),
    "wrapped around": lambda x: x.at[jnp.arange(len(x)) * 2**30].apply(jnp.sin),
    "data": lambda x: x.at[(x[:, 1] * 5 % 3).astype("int32") - 1].apply(jnp.cos),
    "a part of data": lambda x: x.at[(x[0] % 2).astype("int32"), 1:].apply(jnp.cos),
    "in a loop": lambda x: lax.scan(
        lambda c, r: (c.at[(r % 2).astype("int32")].apply(lambda v: v * v - 2), None),
        jnp.ones(3),
        x,
    )[0],
    "rows": lambda x: x.at[::2].apply(jnp.sin),
    "column": lambda x: x.at[:, 1].apply(lambda v: 2 * v + 1),
    "nothing": lambda x: x.at[0].apply(lambda v: v),
    "outside": lambda x: x.at[100].apply(jnp.sin),
    "windows": lambda x: jax.vmap(lambda r: r.at[1:].apply(jnp.cos))(x),
    "known": lambda x: x.at[x.shape[0] // 2, ::-1].apply(lambda v: v * v),
    "one of each row": lambda x: x.at[jnp.arange(len(x)), jnp.arange(len(x)) % 3].apply(
        jnp.exp
    ),
    "the least": lambda x: x.at[jnp.argsort(-x[:, 0])[:2]].apply(jnp.exp),
    "both ends": lambda x: x.at[jnp.array([0, -1])].apply(jnp.exp),
    "grid": lambda x: x.at[
        jnp.ix_(jnp.arange(x.shape[0] // 2) + 1, jnp.array([2, 0]))
    ].apply(jnp.exp),
    "clipped within": lambda x: x.at[:, jnp.array([2, 0])].apply(jnp.exp, mode="clip"),
    "rows of a part": lambda x: x.at[1::2, jnp.array([0, 2])].apply(jnp.exp),
    "parts of rows": lambda x: jnp.stack([x, x]).at[jnp.array([0, 1]), ..., :2].apply(
        jnp.exp
    ),
}


@pytest.mark.parametrize("name", APPLIED)
def test_a_function_is_applied_as_often_as_elements_are_named(name):
    ours = graphc.jit(APPLIED[name])
    calls = {n: (jnp.arange(3.0 * n).reshape(n, 3),) for n in SIZES}
    expected = outcomes_by_jax(APPLIED[name], calls)
    for n, args in calls.items():
        np.testing.assert_allclose(ours(*args), expected[n], rtol=1e-6)
    assert ours.stats().foreign == []
    assert len(ours.stats().compilations) == 2


def unsaid(x):
    if x.shape[0] not in {3: 1, 4: 1, 5: 1, 6: 1}:
        raise AssertionError  # like `assert`, which pytest rewrites
    return sum((x**k for k in range(x.shape[0])), x)


def test_an_error_without_words_is_told_by_its_line():
    ours = graphc.jit(unsaid)
    with pytest.warns(FallbackWarning, match=r"\(raise AssertionError"):
        for n in SIZES:
            ours(column(n))
    (why,) = ours.stats().fallbacks
    start = r"it cannot be traced at sizes n: AssertionError at test_like_jit.py:\d+ \("
    assert re.match(start, why)


def test_what_nobody_has_foreseen_is_told_and_left_to_jax(monkeypatch):
    def unforeseen(*_):
        raise LookupError("of ours")

    monkeypatch.setattr(Subject, "graph", unforeseen)
    ours = graphc.jit(lambda x: lax.scan(lambda c, r: (c + r, c), 0.0, x)[0])
    with pytest.warns(FallbackWarning, match="graphc cannot read it: LookupError: of"):
        for n in SIZES:
            assert ours(column(n)) == column(n).sum()


def test_where_transfers_are_disallowed_each_size_is_compiled():
    columns = [column(n) for n in SIZES]
    totals = [jnp.cumsum(x) for x in columns]
    ours = graphc.jit(jnp.cumsum, dims="pad")
    with jax.transfer_guard("disallow"):
        with pytest.warns(FallbackWarning, match="takes sizes from the host"):
            found = [ours(x) for x in columns]
        with pytest.raises(Exception, match="Disallowed host-to-device"):
            ours(np.ones(3, "float32"))
    for x, total in zip(found, totals, strict=True):
        np.testing.assert_array_equal(x, total)
    for n in (7, 8, 9):
        np.testing.assert_array_equal(ours(column(n)), jnp.cumsum(column(n)))
    programs = [c.program for c in ours.stats().compilations]
    assert "exactly x (9,)" not in programs
    with jax.transfer_guard("disallow"):
        np.testing.assert_array_equal(ours(columns[2]), totals[2])
