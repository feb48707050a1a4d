"""The gradient of every sample, found in several ways, or refused with a reason."""

import importlib
import os
import pathlib
from dataclasses import replace
from functools import cache, partial

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.op import GRADIENTS, PRIMITIVES
from tests.ops.differentiating import (
    Program,
    Subject,
    agreement,
    by_differences,
    by_jax,
    by_name,
    checked,
    listed,
    subjects,
)
from tests.ops.exempting import Unlike, in_force, jax_is
from tests.ops.points import AWKWARD, Point, points
from tests.ops.test_samples import share
from tests.samples.spec import a, call, sample

AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ
FOLDER = pathlib.Path(__file__).parent.parent / "samples"
FAMILIES = {
    path.stem: importlib.import_module(f"tests.samples.{path.stem}").SAMPLES
    for path in sorted(FOLDER.glob("*.py"))
    if path.stem not in ("spec", "__init__")
}

# Public functions that have no gradient in some argument, and part of the message that
# says why. A function that is missing here must have one.
PARAMETER = "there is no formula for the derivative in a parameter"
ORDER = "there is no formula for the derivative in the order"
REJECTION = "gamma variates are drawn by rejection"
REFUSED = {
    "linalg.qr": "linalg.qr in mode",
    "linalg.svd": "linalg.svd of vectors beyond the singular values",
    "special.betainc": PARAMETER,
    "special.gammainc": PARAMETER,
    "special.gammaincc": PARAMETER,
    "special.betaincinv": PARAMETER,
    "special.gammaincinv": PARAMETER,
    "special.gammainccinv": PARAMETER,
    "special.hyp2f1": PARAMETER,
    "linalg.schur": "the factors are not unique",
    "special.zeta": "zeta",
    **{f"special.{name}": ORDER for name in ("jv", "yv", "iv", "ive", "kv", "kve")},
    **{
        f"random.{name}": REJECTION
        for name in ("gamma", "loggamma", "beta", "chisquare", "t", "f", "dirichlet")
    },
    "random.binomial": "draws are discrete",
}

# Functions whose gradient is not their derivative.
DECLARED = {"stop_gradient"}

# Functions whose gradients at special values differ from those of JAX's function, and
# why.
NAN = "NaN where the function is NaN"
UNLIKE_JAX = in_force({
    "acosh": Unlike(NAN, lambda x: x < 1, "<0.12"),
    "arccosh": Unlike(NAN, lambda x: x < 1, "<0.12"),
    "sinc": Unlike(NAN, np.isinf, ">=0.11"),
    "nn.log1mexp": Unlike(NAN, lambda x: x < 0),
    "ldexp": Unlike(
        "JAX forgets the power of two", lambda x: (x == 0) | np.isinf(x), "<0.12"
    ),
    "modf": Unlike("at infinity the fractional part is constant", np.isinf),
    "copysign": Unlike(
        "whether XLA sees the sign of -0.0 depends on its place in the array",
        lambda x, y: (minus_zero(x) | minus_zero(y), False),
    ),
    "hypot": Unlike(
        "0 at the origin, where JAX has 1/2", lambda x, y: origin(x, y), "<0.12"
    ),
    "logaddexp": Unlike("JAX takes infinity for 0", lambda x, y: beside_inf(x, y)),
    "logaddexp2": Unlike("JAX takes infinity for 0", lambda x, y: beside_inf(x, y)),
    **dict.fromkeys(
        ("remainder", "mod", "divmod"),
        Unlike("JAX truncates a rounded quotient", lambda x, y: (False, rounded(x, y))),
    ),
    "special.digamma": Unlike("NaN, where JAX has an infinity", np.isneginf),
    "special.i0": Unlike("0, where JAX has 1", lambda x: x == 0, "<0.12"),
    "special.ndtri": Unlike(
        "infinite, where JAX has 0", lambda x: (x == 0) | (x == 1), "<0.12"
    ),
    "special.spence": Unlike(
        "-1 at 1, infinite at 0 and NaN below, where JAX has 0",
        lambda x: (x <= 0) | (x == 1),
    ),
    "special.entr": Unlike("NaN at infinity", np.isposinf),
    **dict.fromkeys(
        ("special.gammainc", "special.gammaincc"),
        Unlike(NAN, lambda a, x: np.isneginf(a)),
    ),
    "special.rel_entr": Unlike(
        "NaN beside infinity or NaN", lambda p, q: beyond(p, q)
    ),
    "special.kl_div": Unlike(
        "as rel_entr; constant outside of the domain, and on its edge for newer JAX",
        lambda p, q: beyond(p, q) | ~in_domain(p, q) | (p == 0) & EDGE_IS_OUTSIDE,
    ),
    "nn.squareplus": Unlike(
        "where squares overflow JAX has 1/2 for the slopes 0 and 1",
        lambda x, *b: np.isfinite(x) & (np.abs(x) > 1e154),
    ),
})
EDGE_IS_OUTSIDE = jax_is(">=0.12")


def minus_zero(x):
    return (x == 0) & np.signbit(x)


def origin(x, y):
    return (x == 0) & (y == 0)


def beside_inf(x, y):
    return np.isposinf(y) & (x > -np.inf), np.isposinf(x) & (y > -np.inf)


def rounded(x, y):
    with np.errstate(all="ignore"):
        finite = np.isfinite(x) & np.isfinite(y) & (y != 0)
        return finite & (np.trunc(x / y) * y != x - np.fmod(x, y))


def in_domain(p, q):
    return (p > 0) & (q > 0) | (p == 0) & (q >= 0)


def beyond(p, q):
    inside = (p > 0) & (q > 0)
    return inside & (np.isinf(p) | np.isinf(q)) | np.isnan(p) | np.isnan(q)


# Functions whose gradients differ from those that JAX finds in the emitted program.
BRANCH = Unlike("JAX takes the other branch", lambda x: x.real < 0, "<0.12")
TRIANGLE = Unlike(
    "JAX takes the mean with the transpose, we and NumPy read one triangle",
    lambda x, *b: np.abs(x - x.conj().mT).max() > 0.1,
)
NO_JAX = {"linalg.eigh": TRIANGLE, "linalg.eigvalsh": TRIANGLE}
NO_JAX_OF_COMPLEX = NO_JAX | in_force({
    "sign": Unlike("JAX takes it for constant", lambda x: x == x, "<0.12"),
    "acosh": BRANCH,
    "arccosh": BRANCH,
})


@cache
def tried(family: str, dtype: str = "float64", like: str = "") -> list[Point]:
    """The calls of a family; cached, since asking NumPy about them takes long."""
    return points(FAMILIES[family], dtype, like)


def sharp(family: str, dtype: str = "float64", like: str = "") -> list[Point]:
    """The calls of a family without special values."""
    given = [p for p in tried(family, dtype, like) if p.sample.name not in DECLARED]
    return [p for p in given if not p.awkward]


def telling(given: list[Point], most: int) -> list[Point]:
    """The `most` largest calls of each sample."""

    def size(point: Point) -> int:
        return sum(x.size for x in point.arrays)

    grouped: dict[int, list[Point]] = {}
    for point in given:
        grouped.setdefault(id(point.sample), []).append(point)
    return [p for g in grouped.values() for p in sorted(g, key=size)[-most:]]


def shown(problems: list[str]) -> str:
    return "\n".join(problems)


def not_allowed(refused: list[tuple[str, str]]) -> list[str]:
    return [
        f"{name}: {message}"
        for name, message in refused
        if name not in REFUSED or REFUSED[name] not in message
    ]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_as_differences_say(family, dtype):
    like = "complex64" if dtype == "complex128" else ""
    given = sharp(family, dtype, like)
    given = given if AT_LENGTH else telling(given, most=1)
    made = subjects(share(given, turn=0) if like else given)
    twice = share(made.subjects, turn=0)
    once = [s for s in made.subjects if s not in twice]
    problems = made.problems + not_allowed(made.refused)
    problems += checked(twice, by_differences)
    problems += checked(once, partial(by_differences, second=False))
    assert not problems, shown(problems)


# JAX takes longest for these; `by_differences` and tests of their own cover them.
LARGE = ("linalg", "random", "special", "statistics")


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_jax_s_of_the_emitted_program(family):
    given = telling(sharp(family), most=5 if AT_LENGTH else 1)
    given = share(share(given, turn=0), turn=0)
    made = subjects(share(given, turn=0) if family in LARGE else given)
    problems = checked(made.subjects, partial(by_jax, exemptions=NO_JAX))
    assert not problems, shown(problems)


@pytest.mark.parametrize("family", FAMILIES)
def test_complex_gradients_are_jax_s_of_the_emitted_program(family):
    given = telling(sharp(family, "complex128", "complex64"), most=1)
    given = share(share(given, turn=1), turn=0)
    made = subjects(share(given, turn=0) if family in LARGE else given)
    problems = checked(made.subjects, partial(by_jax, exemptions=NO_JAX_OF_COMPLEX))
    assert not problems, shown(problems)


def awkward(given):
    return [p for p in given if p.awkward]


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_at_special_values_are_those_of_jax_numpy(family):
    given = awkward(tried(family))
    made = subjects(given if AT_LENGTH else telling(given, most=1))
    problems = made.problems + not_allowed(made.refused)
    problems += checked(made.subjects, partial(by_name, exemptions=UNLIKE_JAX))
    assert not problems, shown(problems)


# Exempted points must differ; a point that does not should be compared instead.


def named(name):
    return [s for samples in FAMILIES.values() for s in samples if s.name == name]


@pytest.mark.parametrize("name", UNLIKE_JAX)
def test_gradients_at_special_values_differ_where_they_are_exempted(name):
    made = subjects(awkward(points(named(name), "float64")))
    assert checked(made.subjects, by_name)


@pytest.mark.parametrize("name", NO_JAX_OF_COMPLEX)
def test_gradients_differ_where_they_are_exempted(name):
    dtypes = [("complex128", "complex64")] + [("float64", "")] * (name in NO_JAX)
    for dtype, like in dtypes:
        given = [p for p in points(named(name), dtype, like) if not p.awkward]
        assert checked(subjects(telling(given, most=1)).subjects, by_jax), dtype


@pytest.mark.parametrize("family", FAMILIES)
def test_symbolic_sizes_change_nothing(family):
    given = [p for p in sharp(family) if not p.sample.static]
    given = share(share(given, turn=1), turn=1)
    made = subjects(share(given, turn=0), symbolic=True)
    problems = made.problems + checked(made.subjects, as_static)
    assert not problems, shown(problems)


def as_static(made: list[Subject]) -> list[str]:
    """List the gradients that differ between symbolic and static sizes."""
    static = [Subject(s.point, s.key, only=s.only) for s in made]
    return unequal(Program(made, False, "numpy"), Program(static, False, "numpy"))


@pytest.fixture
def _compiled_quickly(family):
    """Turn off XLA's optimizations, which take longer than the programs' one run.

    They stay on for attention under a bias, which gives infinities without them.
    """
    jax.config.update("jax_disable_most_optimizations", family != "nn_layers")
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("_compiled_quickly")
@pytest.mark.parametrize("family", FAMILIES)
def test_jax_s_backend_runs_them(family):
    given = [p for p in sharp(family) if "jax" not in p.sample.refused]
    given = share(share(telling(given, most=1), turn=1), turn=0)
    made = subjects(share(given, turn=0) if family in LARGE else given)
    problems = made.problems + checked(made.subjects, on_both)
    assert not problems, shown(problems)


def on_both(made: list[Subject]) -> list[str]:
    """List the gradients that differ in a JAX program."""
    kept = [s for s in made if not s.point.sample.differs]  # by_jax compares the others
    return unequal(Program(kept, False, "jax"), Program(kept, False, "numpy"))


def unequal(one: Program, other: Program) -> list[str]:
    """List the gradients that differ between two programs of the same calls."""
    found, expected = one.at(), other.at()
    problems = []
    for s in one.subjects:
        key = f"{s.key} grad"
        text = agreement(listed(key, found), listed(key, expected), s.eps, 2.0**12)
        if text:
            problems.append(f"{s}: the gradient {text}")
    return problems


NARROW = ("float16", "float32", "complex64")


def in_turn(samples, dtype):
    """Yield each call with one narrow dtype by turns; at length, with every one."""
    for i, one in enumerate(samples):
        narrow = [d for d in NARROW if d in one.dtypes]
        for k, each in enumerate(one.calls):
            if AT_LENGTH or (narrow and narrow[(i + k) % len(narrow)] == dtype):
                yield replace(one, calls=(each,))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_have_the_type_of_what_they_are_in(family, dtype):
    given = points(in_turn(FAMILIES[family], dtype), dtype)
    made = subjects(given)
    problems = made.problems + [
        f"{s}: the gradient is {g.type}, not {v.type}"
        for s in made.subjects
        for g, v in zip(s.gradient, s.values, strict=True)
        if g.dtype != v.dtype or g.type.rank != v.type.rank
    ]
    assert not problems, shown(problems)


def test_every_refusal_that_is_allowed_is_met():
    given = [p for name in REFUSED for p in points(named(name), "float64")]
    met = {name for name, _ in subjects(given).refused}
    assert REFUSED.keys() <= met


# Tests that this machinery finds mistakes.


def wrong(monkeypatch, rule, check, *calls, primitive="sin"):
    monkeypatch.setitem(GRADIENTS.rules, PRIMITIVES[primitive], rule)
    given = [Point(sample("sin"), c, "float64") for c in calls or [call(a(2, 3))]]
    return shown(checked(subjects(given).subjects, check))


@pytest.mark.parametrize("check", [by_differences, by_jax])
def test_it_finds_wrong_gradients(monkeypatch, check):
    assert not wrong(monkeypatch, lambda g, x: (g * gt.cos(x),), check)
    assert "the gradient" in wrong(monkeypatch, lambda g, x: (g * gt.sin(x),), check)
    assert "the gradient" in wrong(monkeypatch, lambda g, x: (None,), check)


def test_it_finds_wrong_gradients_at_special_values(monkeypatch):
    special = call(a(14, values="special"))
    right = wrong(monkeypatch, lambda g, x: (g * gt.cos(x),), by_name, special)
    assert not right
    off = lambda g, x: (gt.where(x == 0, 0.0, g * gt.cos(x)),)
    assert "jax.numpy differs" in wrong(monkeypatch, off, by_name, special)


def test_it_finds_wrong_second_derivatives(monkeypatch):
    rule = lambda g, x: (g * gt.cos(graphc.stop_gradient(x)),)
    found = wrong(monkeypatch, rule, by_differences)
    assert "Hessian" in found and "the gradient" not in found


def test_it_names_the_call_that_fails(monkeypatch):
    def rule(g, x):
        if x.type.shape == (5,):
            raise KeyError("five")
        return (g * gt.cos(x),)

    calls = [call(a(n)) for n in range(2, 9)]
    made = subjects_with(monkeypatch, rule, calls)
    assert len(made.subjects) == 6
    assert made.problems == ["sin(mixed[5]) with float64: raises KeyError 'five'"]


def subjects_with(monkeypatch, rule, calls):
    monkeypatch.setitem(GRADIENTS.rules, PRIMITIVES["sin"], rule)
    return subjects(Point(sample("sin"), c, "float64") for c in calls)


def test_it_tells_refusals_from_errors(monkeypatch):
    monkeypatch.setattr(PRIMITIVES["arctan2"], "no_gradient_for", {"y": "no reason"})
    one = sample("arctan2", call(a(2), a(2)))
    made = subjects(points([one], "float64"))
    assert [str(s) for s in made.subjects] == [
        "arctan2(mixed[2], mixed[2]) with float64, input 0"
    ]
    assert len(made.refused) == 2 and not made.problems
    assert len(not_allowed(made.refused)) == 2


def test_points_are_where_functions_are_defined():
    for name in ("log", "arctanh", "arccosh", "sin"):
        (point,) = points([sample(name, call(a(4, 4)))], "float64")
        assert np.isfinite(point.reference(point.arrays)).all()
        assert len(np.unique(point.arrays[0])) == 16
    assert {"special", "ties"} <= AWKWARD


def test_all_arrays_of_a_call_are_different():
    (point,) = points([sample("add", call(a(3), a(3)))], "float64")
    first, second = point.arrays
    assert (first != second).all()
