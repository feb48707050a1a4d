"""Sizes: normal form, proofs, text. Proofs are tested against plain integers."""

import gc
import itertools
import operator
import sys
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from graphc.errors import GraphError
from graphc.ir.sizes import dims, proofs
from graphc.ir.sizes.dims import (
    Dim,
    Size,
    Symbol,
    axis,
    bounds,
    ceil_div,
    clip,
    equal,
    evaluate,
    fresh_axis,
    less_equal,
    maximum,
    minimum,
    substitute,
    symbol_dim,
)
from graphc.ir.sizes.polynomials import Atom, Poly
from graphc.ir.sizes.reader import parse
from graphc.ir.sizes.text import expression

n, m, k = axis("n"), axis("m"), axis("k")
count = symbol_dim(Symbol("count", origin="nonzero", lower=0, upper=n))
index = symbol_dim(Symbol("i", origin="argument"))
SYMBOLS = [d.symbols[0] for d in (n, m, k, count, index)]


def assignments() -> list[dict[Symbol, int]]:
    """All values of the five symbols in a small box that respect their bounds."""
    box = itertools.product(range(4), range(3), range(3), range(4), range(-3, 4))
    return [dict(zip(SYMBOLS, v, strict=True)) for v in box if v[3] <= v[0]]


ASSIGNMENTS = assignments()

# Examples


def test_constants_are_plain_ints() -> None:
    for size in (n - n, n * 0, (n + 3) - n, n // n, n % n, minimum(2, 3), clip(-1, 4)):
        assert type(size) is int
    assert (n + 3) - n == 3
    assert ceil_div(7, 2) == 4


def test_equal_sizes_are_one_object() -> None:
    assert axis("n") + 1 is axis("n") + 1
    assert (n + 1) * (n - 1) is n * n - 1
    assert n + 0 is n
    assert n * m is m * n
    assert minimum(n, m) is minimum(m, n)
    assert 2 * (n // 2) + n % 2 is n
    assert m * (n // m) + n % m is n
    assert hash(n + 1) == hash(1 + n)


def test_symbols_are_who_they_are() -> None:
    assert fresh_axis("n") is not n
    assert equal(fresh_axis("n"), n) is None
    assert symbol_dim(n.symbols[0]) is n
    assert [s.name for s in (m * n + minimum(k, n // 2)).symbols] == ["k", "m", "n"]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((2 * n) // 2, n),
        ((n * m) // m, n),
        ((4 * n + 2) // 2, 2 * n + 1),
        ((2 * n + 1) // 2, n),
        ((2 * n + 1) // 4, n // 2),
        ((n * m + m) // m, n + 1),
        ((n * n - 1) // (n - 1), n + 1),
        ((n * n * n - n * n + n - 1) // (n - 1), n * n + 1),
        ((3 * n * m) // (2 * m), 3 * n // 2),
        ((n // 2) // 3, n // 6),
        ((n // 2 + 5) // 3, (n + 10) // 6),
        ((n + 5) // 2, (n + 1) // 2 + 2),
        (n // -2, -((n + 1) // 2)),
        (ceil_div(n, 2), (n + 1) // 2),
        ((2 * n) % 2, 0),
        ((n + 5) % 2, (n + 1) % 2),
        (maximum(0, n), n),
        (minimum(n, n + 1), n),
        (minimum(n, minimum(m, 3), n + m), minimum(m, 3, n)),
        (maximum(n, minimum(n, m)), n),
        (minimum(count, n), count),
        (clip(m, n), minimum(m, n)),
        (clip(-1, n), maximum(n - 1, 0)),
        (clip(-n, n), 0),
        (clip(n + m, n), n),
        (clip(index, 0), 0),
        (clip(-2, 5), 3),
    ],
)
def test_normal_form(size: Size, expected: Size) -> None:
    assert size is expected or size == expected == int(size)  # type: ignore[arg-type]


PROVED = [
    ((n + 1) * (n - 1), n * n - 1),
    (maximum(n, m) + minimum(n, m), n + m),
    (ceil_div(n, 2) + n // 2, n),
    (minimum(n + 1, m + 1), minimum(n, m) + 1),
    (maximum(n, m) - n, maximum(0, m - n)),
    (3 * n // 2, n + n // 2),
]


@pytest.mark.parametrize(("a", "b"), PROVED)
def test_proved_equal(a: Size, b: Size) -> None:
    assert equal(a, b) is True
    assert a == b


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (0, n - n // 2),
        (0, 2 * (n // 2)),
        (n // 2, n),
        (minimum(n, k), n),
        (n, maximum(n, k)),
        (minimum(n, k) // 2, n),
        (count, n),
        (count * m, n * m),
        (n % m, m - 1),
        (m * (n // m), n),
        (n // m, n),
        (clip(index, n), n),
        (maximum(clip(index, n) - clip(-3, n), 0), n),
        (n * minimum(m, k), n * k),
        (ceil_div(n, 8) * 8, n + 7),
    ],
)
def test_proved_less_equal(small: Size, large: Size) -> None:
    assert less_equal(small, large) is True
    assert less_equal(large + 1, small) is False
    assert equal(small, large + 1) is False


@pytest.mark.parametrize(
    ("a", "b"), [(n, n + 1), (2 * n, 2 * m + 1), (count, n + 1), (n % 3, 3), (n, -1)]
)
def test_proved_different(a: Size, b: Size) -> None:
    assert equal(a, b) is False
    assert a != b


@pytest.mark.parametrize(("a", "b"), [(n, m), (n, 2 * n), (n, 0), (n * n, n)])
def test_not_provable_is_an_error_and_never_false(a: Dim, b: Size) -> None:
    assert equal(a, b) is None
    with pytest.raises(GraphError, match=r"not provable: use dims\.equal"):
        assert a == b
    with pytest.raises(GraphError, match=r"not provable"):
        assert a != b


def test_truth_is_being_different_from_zero() -> None:
    assert n + 1
    with pytest.raises(GraphError, match="n == 0 is not provable"):
        assert n


def test_other_operands_are_left_to_their_class() -> None:
    assert n != "n"
    assert n is not None
    for other in ("n", 1.5, None):
        with pytest.raises(TypeError):
            n + other  # type: ignore[operator]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1 + n * 2, "2*n + 1"),
        (n // 2, "n//2"),
        (minimum(n, k), "min(k, n)"),
        (n % 3, "n % 3"),
        (1 - n, "1 - n"),
        (-n, "-n"),
        (-(n // 2), "-(n//2)"),
        (n - n // 2, "n - n//2"),
        (m - 2 * (n % 3), "m - 2*(n % 3)"),
        ((2 * n) // 3, "(2*n)//3"),
        ((n // m) // k, "(n//m)//k"),
        (n // (m * k), "n//(k*m)"),
        (n * n * m - m, "m*n*n - m"),
        (clip(index, n), "clip(i, n)"),
        (maximum(n - 2, 0), "max(0, n - 2)"),
    ],
)
def test_text(size: Dim, text: str) -> None:
    assert str(size) == text
    assert repr(size) == f"Dim({text})"


def test_text_does_not_depend_on_age() -> None:
    young, old = fresh_axis("b"), fresh_axis("a")
    assert str(young + old) == "a + b"
    assert str(minimum(young, old)) == "min(a, b)"


def test_long_sums_and_products_need_no_deep_stack() -> None:
    total: Size = 0
    for i in range(1100):
        total = total + fresh_axis(f"s{i}")
    assert isinstance(total, Dim)
    assert evaluate(total, dict.fromkeys(total.symbols, 2)) == 2200
    assert less_equal(0, total) in (True, None)
    assert len(expression(total, lambda symbol: symbol.name)) > 1100


def test_expression_names_variables() -> None:
    text = expression(clip(index, n) + n // 2, lambda s: f"{s.name}_size")
    assert text == "slice(i_size).indices(n_size)[1] + n_size//2"
    assert expression(3, lambda s: s.name) == "3"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("n", n),
        (" 2*n + 1", 2 * n + 1),
        ("n//2", n // 2),
        ("min(n, m)", minimum(n, m)),
        ("max(n - 3, 0) % m", maximum(n - 3, 0) % m),
        ("-3", -3),
    ],
)
def test_parse(text: str, size: Size) -> None:
    assert parse(text) is size or parse(text) == size


@pytest.mark.parametrize(
    "text",
    [
        *("", "n +", "n / 2", "n.real", "f(n)", "n[0]", "1.5", "True", "'n'", "min()"),
        *("n//0", "3 % 0", "clip(n)", "min(n, key=m)", "__import__('os')", "n if m"),
        *("min(*n)", "lambda: n", "(n := 3)", "-" * 5000 + "n", "n\0"),
        "-" * 50_000 + "n",
    ],
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(GraphError) as error:
        parse(text)
    assert repr(text)[:90] in str(error.value)  # long texts are cut


def test_evaluate_names_what_is_missing() -> None:
    with pytest.raises(GraphError, match=r"n\*m|m\*n.* has no value: m is not known"):
        evaluate(n * m, {n.symbols[0]: 2})


def test_parse_refuses_deep_texts_under_any_limit() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        with pytest.raises(GraphError, match="is nested more than 500 levels deep"):
            parse("-" * 600 + "n")
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("divide", [operator.floordiv, operator.mod, ceil_div])
def test_division_by_zero(divide: Callable[[Size, Size], Size]) -> None:
    with pytest.raises(GraphError, match="divided by zero"):
        divide(n, 0)
    with pytest.raises(GraphError, match="7 is divided by zero"):
        evaluate(divide(n, m), {n.symbols[0]: 7, m.symbols[0]: 0})


def test_clip_needs_an_axis() -> None:
    with pytest.raises(GraphError, match="an axis cannot have -1 elements"):
        clip(0, -1)


def test_minimum_needs_a_size() -> None:
    with pytest.raises(GraphError, match="the minimum of no sizes"):
        minimum()


def test_substitute_keeps_the_others() -> None:
    sizes = {n.symbols[0]: 2 * k, m.symbols[0]: 4}
    assert substitute(n // 2 + minimum(m, n) * index, sizes) is k + index * minimum(
        4, 2 * k
    )
    assert substitute(5, sizes) == 5


# Interned sizes must not outlive their users.


def interned() -> set[int]:
    """The hashes of interned keys; those left by other tests may go at any time."""
    gc.collect()
    return {hash(k) for table in (dims._dims, dims._calls, dims._axes) for k in table}


def test_nothing_is_kept_alive() -> None:
    before = interned()
    size = minimum(axis("weak") // 2, fresh_axis("weak") * n) + axis("weak2") % 3
    made = interned() - before
    assert len(made) > 5
    del size
    assert not made & interned()


def test_a_symbol_may_lead_back_to_its_own_dim() -> None:
    class Origin:
        size: Size = 0

    before, origin = interned(), Origin()
    origin.size = symbol_dim(Symbol("count", origin, lower=0))
    made = interned() - before
    assert made
    del origin
    assert not made & interned()


# Random expressions, built from dims and, by the same recipe, from plain integers.

Recipe = Callable[[Sequence[Size]], Size]
Operation = Callable[[Size, Size], Size]


def python_on_ints(symbolic: Operation, python: Callable[[int, int], int]) -> Operation:
    """Use Python for integers, so that expected values do not rely on dims."""

    def operation(a: Size, b: Size) -> Size:
        plain = isinstance(a, int) and isinstance(b, int)
        return python(a, b) if plain else symbolic(a, b)  # type: ignore[arg-type]

    return operation


OPERATIONS: list[Operation] = [
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod),
    *(python_on_ints(minimum, min), python_on_ints(maximum, max)),
    python_on_ints(ceil_div, lambda a, b: -(-a // b)),
]


def leaf(number: int) -> Recipe:
    return lambda values: values[number]


def constant(value: int) -> Recipe:
    return lambda values: value


def apply(f: Operation, a: Recipe, b: Recipe) -> Recipe:
    return lambda values: f(a(values), b(values))


def recipes(symbols: int) -> st.SearchStrategy[Recipe]:
    leaves = st.integers(0, symbols - 1).map(leaf) | st.integers(-3, 5).map(constant)
    operation = st.sampled_from(OPERATIONS)
    return st.recursive(
        leaves, lambda parts: st.builds(apply, operation, parts, parts), max_leaves=7
    )


DIMS = [n, m, k, count, index]


def built(recipe: Recipe, values: Sequence[Size] = DIMS) -> Size:
    """Apply a recipe to dims; discard the example if it divides by zero."""
    try:
        return recipe(values)
    except (ZeroDivisionError, GraphError):
        assume(False)
        raise


def python_value(recipe: Recipe, sizes: dict[Symbol, int]) -> int | None:
    """Apply a recipe to plain integers; None if it divides by zero."""
    try:
        return int(recipe(list(sizes.values())))  # type: ignore[arg-type]
    except (ZeroDivisionError, GraphError):
        return None


def values_of(recipe: Recipe) -> list[tuple[dict[Symbol, int], int]]:
    found = [(sizes, python_value(recipe, sizes)) for sizes in ASSIGNMENTS[::3]]
    return [(sizes, value) for sizes, value in found if value is not None]


@given(recipes(5))
@settings(deadline=None)
def test_evaluate_agrees_with_python(recipe: Recipe) -> None:
    size = built(recipe)
    for sizes, value in values_of(recipe):
        assert evaluate(size, sizes) == value


@given(recipes(5))
@settings(deadline=None)
def test_bounds_contain_every_value(recipe: Recipe) -> None:
    low, high = bounds(built(recipe))
    for _, value in values_of(recipe):
        assert (low is None or low <= value) and (high is None or value <= high)


@given(recipes(5), recipes(5))
@settings(deadline=None)
def test_proofs_are_never_wrong(a: Recipe, b: Recipe) -> None:
    same, ordered = equal(built(a), built(b)), less_equal(built(a), built(b))
    for sizes, value in values_of(a):
        other = python_value(b, sizes)
        if other is not None:
            assert same in (None, value == other)
            assert ordered in (None, value <= other)


def of_ages(order: Sequence[int]) -> list[Size]:
    """Symbols like those of DIMS, created in another order."""
    made: dict[int, Size] = {}
    for i in (0, *order) if order.index(0) > order.index(3) else order:
        symbol = SYMBOLS[i]
        upper = None if symbol.upper is None else made[0]
        bounded = Symbol(symbol.name, symbol.origin, symbol.lower, upper)
        made.setdefault(i, symbol_dim(bounded))
    return [made[i] for i in range(len(SYMBOLS))]


def found_of(recipe: Recipe, other: Recipe, dims: Sequence[Size]) -> object:
    """All that can be asked about two sizes."""
    a, b = built(recipe, dims), built(other, dims)
    clipped = clip(a, dims[0])
    texts = [str(x) for x in (a, clipped, maximum(a, b, 0), minimum(b, a))]
    return texts, bounds(a), bounds(a - b), equal(a, b), less_equal(a, b)


C2M = apply(operator.mul, apply(operator.mul, leaf(3), leaf(3)), leaf(1))
EVEN = apply(operator.mul, apply(operator.floordiv, leaf(1), constant(2)), constant(2))
CC = apply(operator.mul, leaf(3), leaf(3))
ONCE_OF_AGE = apply(operator.sub, C2M, apply(operator.mul, EVEN, CC))


@given(recipes(5), recipes(5), st.permutations(range(5)))
@example(ONCE_OF_AGE, constant(0), [3, 1, 0, 2, 4])
@example(ONCE_OF_AGE, constant(0), [4, 2, 1, 0, 3])
@settings(deadline=None)
def test_answers_do_not_depend_on_which_symbol_is_older(
    recipe: Recipe, other: Recipe, order: list[int]
) -> None:
    first = found_of(recipe, other, of_ages([0, 1, 2, 3, 4]))
    assert found_of(recipe, other, of_ages(order)) == first


def bounds_at_ages(order: str) -> tuple[int | None, int | None]:
    """The bounds of a size that only some orders of replacing its atoms can find."""
    made = {name: fresh_axis(name) for name in order}
    a, b, c, d = (made[name] for name in "abcd")
    larger = maximum(c, d - c)
    return bounds(larger * maximum(a // maximum(1, c) * d, minimum(d - 2, b)))


def test_a_prover_that_looks_at_ages_would_be_noticed(monkeypatch) -> None:
    orders = ["abcd", "dcba", "bdac"]
    assert len({bounds_at_ages(order) for order in orders}) == 1

    def oldest(p: Poly) -> Atom:
        return min(p.atoms(), key=lambda atom: atom.serial)

    monkeypatch.setattr(proofs, "_atom_to_replace", oldest)
    assert len({bounds_at_ages(order) for order in orders}) == 2


@given(recipes(5), st.integers(0, 4))
@settings(deadline=None)
def test_clip_is_what_slices_do(recipe: Recipe, which: int) -> None:
    size = [n, m, k, count, n + m][which]
    clipped = clip(built(recipe), size)
    # The search for proofs is bounded: deep formulas may stay unknown, never wrong.
    assert less_equal(0, clipped) is not False
    assert less_equal(clipped, size) is not False
    for sizes, value in values_of(recipe):
        length = evaluate(size, sizes)
        assert evaluate(clipped, sizes) == slice(value).indices(length)[1]


DEEP = apply(operator.mod, leaf(0), apply(operator.mod, leaf(0), leaf(1)))
LONG = apply(operator.mod, apply(operator.add, leaf(0), leaf(0)), DEEP)


@given(recipes(2), st.integers(0, 4))
@example(LONG, 1)
@settings(deadline=None)
def test_clip_is_proved_to_lie_within(recipe: Recipe, which: int) -> None:
    size = [n, m, k, count, n + m][which]
    clipped = clip(built(recipe), size)
    low, _ = bounds(clipped)
    assert low is not None and low >= 0 and less_equal(clipped, size) is True


@given(recipes(5))
@settings(deadline=None)
def test_expression_is_python(recipe: Recipe) -> None:
    size = clip(built(recipe), n) + built(recipe)
    code = compile(expression(size, lambda s: s.name), "<size>", "eval")
    for sizes, _ in values_of(recipe):
        variables = {s.name: value for s, value in sizes.items()}
        assert eval(code, variables) == evaluate(size, sizes)


@given(recipes(3))
@settings(deadline=None)
@example(apply(operator.floordiv, constant(1), leaf(0)))
def test_parse_reads_what_str_prints(recipe: Recipe) -> None:
    size = built(recipe, DIMS[:3])
    assert parse(str(size)) is size or size == int(str(size))


@given(recipes(5), recipes(5))
@settings(deadline=None)
def test_substitute_is_composition(recipe: Recipe, inner: Recipe) -> None:
    built(recipe, [n, built(inner), *DIMS[2:]])  # discards division by zero
    size = substitute(built(recipe), {SYMBOLS[1]: built(inner)})
    for sizes, value in values_of(inner):
        if value < 0:  # the replaced symbol is an axis, never negative
            continue
        expected = python_value(recipe, sizes | {SYMBOLS[1]: value})
        if expected is not None:
            assert evaluate(size, sizes) == expected


def test_formulas_of_shared_parts_cost_what_they_are_made_of() -> None:
    size: Size = n
    for _ in range(40):  # 2**40 terms if written out
        size = minimum(size, m) * maximum(size // 2, k)
    assert str(size) == "<over 1000000 terms>"
