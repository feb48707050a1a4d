"""Python code that decides by sizes takes the right branch at every size."""

import copy
import dataclasses
import functools
import itertools
import json
import math
import operator
import os
import runpy
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from graphc.importers.jax.call import traced_family
from graphc.importers.jax.sizes.family import MOST_PROGRAMS
from graphc.importers.jax.trace.dimensions import DIMENSION, WATCHED
from tests.importers.jax.comparing import MANY_SIZES, agrees, same, vector

AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ


@functools.cache
def cached_weight(n):
    return 3.0 if n % 3 == 0 else 1.0


@dataclasses.dataclass(frozen=True)
class Window:
    length: int
    step: int = 2


def caught(n):
    try:
        return math.isqrt(n)
    except TypeError:
        return 1


def in_another_thread(n):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: n == 12).result()


def else_by_default(ask):
    """Answer with a default if the question does not understand the size."""

    def asked(n):
        try:
            return ask(n)
        except (TypeError, AttributeError):
            return 4

    return asked


def matched(shape):
    match shape:
        case (7,):
            return 2
        case (n,) if n > 16:
            return 3
        case _:
            return 1


CHANNELS = {
    "equal": lambda n: n == 17,
    "not equal": lambda n: n != 17,
    "not": lambda n: not n == 17,  # noqa: SIM201
    "multiple": lambda n: n % 4 == 0,
    "truth of a rest": lambda n: bool(n % 4),
    "negated rest": lambda n: 1 if not n % 3 else 2,
    "half": lambda n: n // 2 == 6,
    "at least": lambda n: n >= 8,
    "below": lambda n: n < 8,
    "at most, swapped": lambda n: 8 >= n,  # noqa: SIM300
    "chain": lambda n: 6 < n <= 12,
    "a float": lambda n: n > 8.5,
    "a float, equal": lambda n: n == 12.0,
    "infinity": lambda n: n < float("inf"),
    "an integer of NumPy": lambda n: np.int64(12) == n,
    "in a tuple": lambda n: n in (8, 16),
    "in a set": lambda n: n in {8, 16},
    "in a range": lambda n: n in range(6, 10),
    "a look-up": lambda n: {9: 3.0}.get(n, 1.0),
    "a common element": lambda n: len({n} & {20, 24}),
    "a text": lambda n: len(str(n)),
    "a format": lambda n: int(f"{n:03d}"[-2]),
    "a pair": lambda n: (n, 2) == (12, 2),
    "divmod": lambda n: divmod(n, 5)[1] == 2,
    "the larger": lambda n: max(n, 9),
    "the smaller": lambda n: sorted([n, 9])[0],
    "cached": cached_weight,
    "a data class": lambda n: Window(n) == Window(12),
    "a hash of one": lambda n: {Window(9): 2}.get(Window(n), 1),
    "a type and a limit": lambda n: isinstance(n, int) and n > 12,
    "a number": lambda n: math.sqrt(n),
    "an error that is caught": caught,
    "all equal": lambda n: len({n, 12}) == 1,
    "a copy": lambda n: copy.copy(n) == 12,
    "a deep copy": lambda n: copy.deepcopy([n])[0] == 12,
    "fields of a data class": lambda n: dataclasses.asdict(Window(n))["length"] == 12,
    "a complex number": lambda n: n == 12 + 0j,
    "a fraction": lambda n: n >= Fraction(25, 2),
    "another thread": in_another_thread,
    "a text that is refused": else_by_default(lambda n: len(json.dumps([n]))),
    "bits that are refused": else_by_default(lambda n: n & 4),
    "an attribute that is refused": else_by_default(lambda n: n.bit_length()),
    "an attribute that is not there": lambda n: getattr(n, "real", 6) % 6,
}


OF_NUMBERS = ("a number", "an error that is caught", "an attribute that is not there")


POLICIES = {"auto": {}, "pad": {"dims": "pad"}}
# Decisions don't depend on how sizes are stored, so the policies take turns.
IN_TURN = [*zip(CHANNELS, itertools.cycle(POLICIES), strict=False)]
IN_TURN = [*itertools.product(CHANNELS, POLICIES)] if AT_LENGTH else IN_TURN


# Sizes on both sides of each decision, which calls reach in either order.
ASKED = (5, 6, 9, 12, 7, 17, 8, 20, 0)


@pytest.mark.parametrize(("name", "policy"), IN_TURN)
def test_each_size_has_its_branch(name, policy):
    options = POLICIES[policy]
    decide, sizes = CHANNELS[name], MANY_SIZES if AT_LENGTH else ASKED
    ours = agrees(lambda x: jnp.cumsum(x) * float(decide(x.shape[0])), sizes, **options)
    if not ("refused" in name or name in OF_NUMBERS):
        assert ours.stats().fallbacks == []
        assert any("(n," in c.program for c in ours.stats().compilations)


SHAPES = {
    "shape": lambda x: x.sum() if x.shape == (12,) else x * 2,
    "size": lambda x: x[::2] if x.size == 20 else x,
    "match": lambda x: x * matched(x.shape),
    "array_equal": lambda x: x + np.array_equal(x.shape, (7,)),
    "dtype": lambda x: x.astype("int32") if x.shape[0] % 2 else x,
    "tree": lambda x: {"even": x} if x.shape[0] % 2 == 0 else (x, x.sum()),
    "small difference": lambda x: x.sum() * (1e-3 if x.shape[0] == 6 else 2e-3),
    "an array": lambda x: jnp.where(x.shape[0] == jnp.arange(3, 9), 1.0, x.sum()),
    "an array of NumPy": lambda x: x.sum() * (x.shape[0] == np.array([6, 7])),
}


def struct(n):
    return jax.ShapeDtypeStruct((n,), np.float32)


def is_of_twelve(x):
    expected = jax.core.ShapedArray((12,), x.dtype)
    return jax.core.ShapedArray(x.shape, x.dtype) is expected


HOLDERS = {
    "a type": is_of_twelve,
    "equal": lambda x: struct(x.shape[0]) == struct(12),
    "not equal": lambda x: jax.typeof(x) != jax.typeof(jnp.zeros(12)),
    "a key": lambda x: struct(x.shape[0]) in {struct(12): 1},
    "a result": lambda x: [jax.eval_shape(jnp.sin, x)].count(struct(12)),
    "a text": lambda x: str(jax.typeof(x)) == "float32[12]",
    "a text of another": lambda x: "12" in f"{struct(x.shape[0])}",
    "a tree": lambda x: jax.tree.all(jax.tree.map(operator.eq, x.shape, (12,))),
    "a tree of types": lambda x: jax.tree.map(struct, x.shape) == (struct(12),),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_holds_sizes_is_asked(name):
    ours = agrees(lambda x: x * (2 if HOLDERS[name](x) else 1), (5, 6, 7, 9, 12, 13))
    assert ours.stats().fallbacks == []


def test_elements_that_are_compared_ask_for_no_size():
    ours = agrees(lambda x: x * (x == x[::-1]) + (x != 0), (5, 6, 7, 9, 12))
    assert "asks for" not in ours.explain() and not ours.stats().decisions


@pytest.mark.parametrize("name", SHAPES)
def test_results_of_each_size_have_its_types(name):
    agrees(SHAPES[name])


def test_numbers_of_a_template_are_told_apart_to_the_bit():
    def function(x):
        sign = {12: -0.0}.get(x.shape[0], 0.0)
        return jnp.copysign(x, sign) + np.arange(x.shape[0])

    agrees(function, (5, 6, 7, 9, 12, 13))


def test_an_axis_is_fixed_only_where_no_other_size_is_taken():
    def function(x):
        return x[:, None] * len(x) if x.shape[0] % 3 == 0 else x + len(x)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        agrees(function, (6, 7, 9, 8, 12), shapes="n")
        ours, exact = graphc.jit(jnp.linalg.det, shapes="b n n"), jnp.linalg.det
        for b, n in ((2, 3), (4, 3), (3, 4), (2, 2), (3, 5)):
            x = np.broadcast_to(np.eye(n, dtype="float32") * 2, (b, n, n))
            same(ours(x), exact(x))
    assert not [w for w in told if "takes" in str(w.message)]


def test_jax_decides_too():
    ours, exact = graphc.jit(jnp.linalg.det), jax.jit(jnp.linalg.det)
    for n in (4, 5, 2, 3, 6, 3, 2, 1):
        matrix = np.eye(n, dtype="float32") * 2 + 0.25
        same(ours(matrix), exact(matrix))


def two_sizes(x, y):
    n, m = x.shape[0], y.shape[0]
    if n == m:
        return x @ y
    return x.sum() * y.sum() * (2 if n < m else 3 if n % m == 0 else 4)


def test_decisions_about_two_sizes():
    ours, exact = graphc.jit(two_sizes, dims="pad"), jax.jit(two_sizes)
    for n, m in [(3, 4), (5, 6), (7, 7), (9, 3), (8, 3), (4, 9), (6, 6), (9, 4)]:
        same(ours(vector(n), vector(m)), exact(vector(n), vector(m)))
    assert "x.shape[0] == y.shape[0] (test_decisions.py:" in ours.explain()


@pytest.mark.usefixtures("without_audit")
def test_a_program_for_each_answer_and_a_trace_for_each_program():
    traces = []

    def function(x):
        traces.append(x.shape)
        return x.sum() * (3 if x.shape[0] % 4 == 0 else 1)

    ours = agrees(function, (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20), dims="pad")
    stats = ours.stats()
    programs = {one.program for one in stats.compilations}
    assert programs == {"exactly x (5,)", "x (n,)"} and stats.fallbacks == []
    assert len(traces) <= 13 + 2 + 1 + 2 * 3  # jax.jit, programs, the first, checks


@pytest.mark.usefixtures("without_audit")
def test_traces_without_decisions():
    traces = []

    def function(x):
        traces.append(x.shape)
        return jnp.tanh(x).sum()

    ours = graphc.jit(function)
    for n in range(5, 40):
        ours(vector(n))
    assert len(traces) == 4  # the first size, all sizes, two comparisons


def test_decisions_are_told_with_their_lines_and_calls():
    def function(x):
        if x.shape[0] >= 8:
            return x * 2
        return x

    ours = agrees(function, (5, 6, 9, 7, 12, 13))
    place = f"test_decisions.py:{function.__code__.co_firstlineno + 1}"
    decisions = {
        f"x.shape[0] >= 8 ({place})": 3,
        f"x.shape[0] < 8 ({place})": 2,
    }
    assert ours.stats().decisions == decisions
    assert f"where x.shape[0] < 8 ({place}), in 2 calls:" in ours.explain()
    swapped = agrees(lambda x: x if 8 > x.shape[0] else 2 * x, (5, 6, 9))  # noqa: SIM300
    assert [told.split(" (")[0] for told in swapped.stats().decisions] == [
        "x.shape[0] < 8",
        "x.shape[0] >= 8",
    ]
    said = agrees(function, (5, 9), shapes="rows")
    assert f"rows >= 8 ({place})" in said.stats().decisions


def test_the_fact_that_leaves_one_size_is_told():
    def function(x):
        return x * (2 if x.shape[0] == 9 else 1) + (x.shape[0] - 12 == 0)

    ours = agrees(function, (5, 6, 9, 12, 7))
    place = f"test_decisions.py:{function.__code__.co_firstlineno + 1}"
    for n, fact in ((9, "x.shape[0] == 9"), (12, "x.shape[0] - 12 == 0")):
        told = f"for x ({n},): as JAX traces it\n  where {fact} ({place})\n"
        assert told in ours.explain()


def test_what_cannot_be_recorded_is_told():
    def function(x):
        return x * len(str(x.shape[0]))

    ours = agrees(function, (5, 6, 7))
    place = f"test_decisions.py:{function.__code__.co_firstlineno + 1}"
    assert f"since {place}\n" in ours.explain()
    asked = "the text, the hash, the number or the identity of a size"
    assert ours.stats().decisions == {f"{asked} ({place})": 2}


def test_too_many_programs_are_a_warning_once():
    def function(x):
        for k in range(20):
            if x.shape[0] % 20 == k:
                return x * k
        return x

    ours = graphc.jit(function)
    line = function.__code__.co_firstlineno + 2
    with pytest.warns(graphc.FallbackWarning) as told:
        for n in (*range(21, 60), 21, 22):
            same(ours(vector(n)), jnp.asarray(function(vector(n))))
    (text,) = {str(w.message) for w in told}
    assert f"has {MOST_PROGRAMS} programs" in text
    assert f"test_decisions.py:{line})" in text and "compute with the size" in text
    assert ours.explain().count("compiled exactly for") == 5
    assert "more, the last for x (59,): as JAX traces it" in ours.explain()


def test_too_many_programs_name_the_line_that_asks_for_more():
    def function(x):
        return x * float(str(x.shape[0]))

    ours = graphc.jit(function)
    line = function.__code__.co_firstlineno + 1
    with pytest.warns(graphc.FallbackWarning, match=rf"test_decisions\.py:{line} asks"):
        for n in range(5, 18):
            same(ours(vector(n)), jnp.asarray(function(vector(n))))


class Asking:
    def __call__(self, n):
        return type(n) in (int, np.int64) and n % 12 == 0


asking = Asking()
BY_IDENTITY = {  # as texts, since Python warns when it compiles these
    "a number": "n is 12",
    "a number, swapped": "12 is not n",
    "a type": "type(n) is int and n > 9",
    "a type, in an object": "asking(n)",
    "a type alone": "type(n) is int",
}


@pytest.mark.parametrize("name", BY_IDENTITY)
def test_sizes_that_are_told_by_what_they_are(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        decide = eval(f"lambda n: {BY_IDENTITY[name]}", globals())
    ours = agrees(lambda x: x * (2.0 if decide(x.shape[0]) else 1.0))
    assert "or the identity of a size" in ours.explain()
    assert ours.stats().fallbacks == []


def test_examples_of_ragged_calls_decide_for_themselves():
    def function(x):
        return x.sum() * (10 if x.shape[0] % 2 == 0 else 1)

    ours = graphc.ragged(function)
    for sizes in ((3, 4, 5), (6, 7, 8, 2), (4, 6)):
        for got, n in zip(ours([vector(n) for n in sizes]), sizes, strict=True):
            np.testing.assert_allclose(got, function(vector(n)))


def test_dimensions_of_others_are_as_jax_has_them():
    n, m = jax.export.symbolic_shape("n, m")
    assert WATCHED and n == n and n != m and n != 5 and bool(n - 5)
    assert not isinstance(n, int) and isinstance(n, DIMENSION)
    assert (str(n), repr(n), f"{n}") == ("n", "n", "n") and {n: 1}[n] == 1
    for ask in (int, float, range, math.sqrt, lambda size: size > 5):
        with pytest.raises((TypeError, ValueError, Exception), match=r"n|_DimExpr"):
            ask(n)


def test_recording_is_of_one_thread():
    seen = []

    def function(x):
        def outside():
            (n,) = jax.export.symbolic_shape("n")
            seen.append(n == 6)

        thread = threading.Thread(target=outside)
        thread.start()
        thread.join()
        return x * (2 if x.shape[0] == 6 else 1)

    agrees(function, (5, 6, 7))
    assert seen and not any(seen)


def test_equality_runs_nothing():
    endless = functools.partial(
        jax.lax.while_loop, lambda x: x[0, 2] <= 8, lambda x: x * x
    )
    ours = graphc.jit(endless)
    for n in (4, 3, 5, 6):
        x = np.full((n, n), 2.0, "float32")
        same(ours(x), jax.jit(endless)(x))


def test_an_audit_compares_each_size(monkeypatch, tmp_path):
    monkeypatch.setattr(traced_family, "AUDITS", True)
    file = tmp_path / "limit"  # its content is never recorded
    file.write_text("1")

    def function(x):
        return x * float(file.read_text())

    ours = graphc.jit(function)
    for n in range(5, 12):
        ours(vector(n))
    file.write_text("2")
    with pytest.warns(graphc.FallbackWarning, match="is traced differently for n = 20"):
        same(ours(vector(20)), jnp.asarray(vector(20) * 2))


def test_an_audit_is_asked_for_by_the_environment(monkeypatch):
    monkeypatch.setenv("GRAPHC_AUDIT", "1")
    assert runpy.run_path(traced_family.__file__)["AUDITS"] is True
    monkeypatch.delenv("GRAPHC_AUDIT")
    assert runpy.run_path(traced_family.__file__)["AUDITS"] is False


@pytest.mark.parametrize(
    "decide",
    [
        lambda n: n == 17,
        lambda n: n % 4 != 0,
        lambda n: n > 3,
        lambda n: not n - 2,
        lambda n: n in (8, 16),
    ],
)
def test_one_graph_for_all_sizes_decides_by_none(decide):
    def function(x):
        return x * 2 if decide(x.shape[0]) else x

    x = graphc.tensor.tensor("x", "float32", ("n",))
    with pytest.raises(graphc.GraphError, match="decides by a size") as error:
        graphc.from_jax(function, x)
    text = str(error.value)
    assert "n" in text and "graphc.jit" in text and "test_decisions.py" in text


def test_one_graph_for_all_sizes_knows_what_holds_for_all():
    def function(x):
        n = x.shape[0]
        assert n != 0 and n >= 1 and n != n + 1 and isinstance(n, int)
        return jnp.linalg.norm(x) + jnp.arange(3)[: x.shape[0] * 3].sum()

    x = graphc.tensor.tensor("x", "float32", ("n",))
    graph = graphc.from_jax(function, x)
    ours = graphc.function(graph.inputs, graph.outputs[0])
    np.testing.assert_allclose(ours(vector(4)), function(vector(4)), rtol=1e-6)


@pytest.mark.parametrize(
    "divide",
    [
        lambda n: 7 // (n - 5),
        lambda n: 7 % (n - 5),
        lambda n: divmod(n, n - 5),
        lambda n: n // (n - 5),
    ],
)
def test_a_division_by_zero_is_one_at_its_size_alone(divide):
    def function(x):
        try:
            divide(x.shape[0])
        except ZeroDivisionError:
            return x * 0
        return x + x.shape[0] // (x.shape[0] + 1)  # never by 0, so nothing is asked

    ours, theirs = graphc.jit(function), jax.jit(function)
    for n in (8, 7, 5, 3, 9, 5):
        same(ours(vector(n)), theirs(vector(n)))
    assert "x.shape[0] - 5 != 0" in ours.explain()
    assert "+ 1" not in ours.explain()


def whole_windows(x):
    n = x.shape[0] // 3
    return jnp.sum(jnp.reshape(x[: 3 * n], (n, 3)), axis=1)


def windows_by_length(x):
    x = x[: len(x) - len(x) % 3]
    return jnp.sum(jnp.reshape(x, (-1, 3)), axis=1)


@pytest.mark.parametrize("function", [whole_windows, windows_by_length])
def test_a_slice_that_may_be_whole_makes_no_second_program(function):
    """JAX asks whether it is whole, and then omits the slice: both give the same."""
    f = graphc.jit(function, dims="pad")
    for n in (7, 8, 10, 9, 12):
        same(f(vector(n)), function(vector(n)))
    assert [c.sizes for c in f.stats().compilations] == [
        {"x.shape[0]": 7},
        {"x.shape[0]": 16},
    ]


@pytest.mark.parametrize("function", [whole_windows, windows_by_length])
def test_a_program_with_a_slice_does_what_one_without_did_before(function):
    f = graphc.jit(function, dims="pad")
    for n in (7, 9, 12, 10, 18):
        same(f(vector(n)), function(vector(n)))
    known = len(f.stats().compilations)
    for n in (20, 24):
        same(f(vector(n)), function(vector(n)))
    assert len(f.stats().compilations) == known


def test_facts_that_make_no_difference_are_not_told():
    f = graphc.jit(whole_windows, dims="pad")
    for n in (7, 8, 10, 9, 12):
        f(vector(n))
    assert "!= 0" in f.explain()  # holds for all of them
    assert "x.shape[0] (" not in f.explain()


def rest_added(x):
    rest = x[x.shape[0] // 3 * 3 :]
    return jnp.sum(x) + (jnp.sum(rest) if rest.shape[0] else 1)


def test_a_question_of_the_user_keeps_its_two_programs():
    f = graphc.jit(rest_added)
    for n in (7, 8, 10, 9, 12, 6, 11):
        same(f(vector(n)), rest_added(vector(n)))
