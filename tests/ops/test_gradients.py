"""The gradient of every sample, found in several ways, or refused with a reason."""

import importlib
import pathlib

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.op import PRIMITIVES
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
from tests.ops.points import AWKWARD, Point, points
from tests.samples.spec import a, call, sample

FOLDER = pathlib.Path(__file__).parent.parent / "samples"
FAMILIES = {
    path.stem: importlib.import_module(f"tests.samples.{path.stem}").SAMPLES
    for path in sorted(FOLDER.glob("*.py"))
    if path.stem not in ("spec", "__init__")
}

# Public functions through which there is no gradient in some argument, and a part of
# the message that says why. A function that is not here must have one.
PARAMETER = "there is no formula for the derivative in a parameter"
ORDER = "there is no formula for the derivative in the order"
REJECTION = "gamma variates are drawn by rejection"
REFUSED = {
    "linalg.qr": "linalg.qr of the mode",
    "linalg.svd": "linalg.svd of vectors beyond the singular values",
    "special.betainc": PARAMETER,
    "special.gammainc": PARAMETER,
    "special.gammaincc": PARAMETER,
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

# Where our gradients at special values are not those of JAX's function, and why.
UNLIKE_JAX = {
    "acosh": "NaN where the function is NaN",
    "arccosh": "NaN where the function is NaN",
    "nn.log1mexp": "NaN where the function is NaN",
    "heaviside": "at NaN JAX gives the second argument, ours is NaN",
    "ldexp": "at 0 and infinity JAX forgets the power of two",
    "modf": "at infinity the fractional part is constant",
    "copysign": "at -0.0 JAX takes the slope that it has at 0.0",
    "special.digamma": "NaN at poles, where JAX has infinities",
    "special.i0": "0 at 0, where JAX has 1",
    "special.ndtri": "infinite at 0 and 1 and NaN outside, where JAX has 0",
    "special.spence": "infinite at 0 and NaN below, where JAX has 0",
    "special.entr": "0 below 0 and NaN at infinity",
    "special.rel_entr": "0 outside the domain and NaN at infinity",
    "special.kl_div": "0 outside the domain and NaN at infinity",
    "nn.squareplus": "where squares overflow JAX has 1/2 for the slopes 0 and 1",
}

# Where JAX's derivative of the emitted program is no judge; differences are.
SYMMETRIZED = "JAX takes the mean with the transpose, we and NumPy read one triangle"
NO_JAX = {
    "sign": "JAX takes the sign of complex numbers for constant",
    "acosh": "JAX takes the other branch for complex numbers",
    "arccosh": "JAX takes the other branch for complex numbers",
    "linalg.eigh": SYMMETRIZED,
    "linalg.eigvalsh": SYMMETRIZED,
}


def sharp(name: str, dtype: str = "float64", like: str = "") -> list[Point]:
    """The calls of a family with no special values."""
    given = [s for s in FAMILIES[name] if s.name not in DECLARED]
    return [p for p in points(given, dtype, like) if not p.awkward]


def telling(given: list[Point], most: int) -> list[Point]:
    """The largest calls of each sample."""

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
    made = subjects(sharp(family, dtype, like))
    problems = made.problems + not_allowed(made.refused)
    problems += checked(made.subjects, by_differences)
    assert not problems, shown(problems)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_jax_s_of_the_emitted_program(family):
    given = [p for p in sharp(family) if p.sample.name not in NO_JAX]
    given = [p for p in given if not p.sample.differs and "dtype" not in p.call.options]
    made = subjects(telling(given, most=2))
    problems = checked(made.subjects, by_jax)
    assert not problems, shown(problems)


@pytest.mark.parametrize("family", FAMILIES)
def test_complex_gradients_are_jax_s_of_the_emitted_program(family):
    given = sharp(family, "complex128", "complex64")
    given = [p for p in given if p.sample.name not in NO_JAX]
    made = subjects(telling(given, most=1))
    problems = checked(made.subjects, by_jax)
    assert not problems, shown(problems)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_at_special_values_are_those_of_jax_numpy(family):
    given = [p for p in points(FAMILIES[family], "float64") if p.awkward]
    made = subjects(p for p in given if p.sample.name not in UNLIKE_JAX)
    problems = made.problems + not_allowed(made.refused)
    problems += checked(made.subjects, by_name)
    assert not problems, shown(problems)


# Where formulas of sizes grow too long: the scan of a symbolic size has 32 levels.
STATIC_ONLY = {"associative_scan"}


@pytest.mark.parametrize("family", FAMILIES)
def test_symbolic_sizes_change_nothing(family):
    given = [p for p in sharp(family) if not p.sample.static]
    given = [p for p in given if p.sample.name not in STATIC_ONLY]
    made = subjects(given, symbolic=True)
    problems = made.problems + checked(made.subjects, as_static)
    assert not problems, shown(problems)


def as_static(made: list[Subject]) -> list[str]:
    """Where the gradient with symbolic sizes is another."""
    static = [Subject(s.point, s.key, only=s.only) for s in made]
    return unequal(Program(made, False, "numpy"), Program(static, False, "numpy"))


@pytest.fixture
def _compiled_quickly(family):
    """Programs are run only once: compiling them well takes longer than they do.

    Attention under a bias is another matter: XLA without optimizations gets infinities.
    """
    jax.config.update("jax_disable_most_optimizations", family != "nn_layers")
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("_compiled_quickly")
@pytest.mark.parametrize("family", FAMILIES)
def test_jax_s_backend_runs_them(family):
    given = [p for p in sharp(family) if "jax" not in p.sample.refused]
    made = subjects(telling(given, most=1))
    problems = made.problems + checked(made.subjects, on_both)
    assert not problems, shown(problems)


def on_both(made: list[Subject]) -> list[str]:
    """Where the gradient is another in a JAX program."""
    kept = [
        s
        for s in made
        if not s.point.sample.differs and "dtype" not in s.point.call.options
    ]
    return unequal(Program(kept, False, "jax"), Program(kept, False, "numpy"))


def unequal(one: Program, other: Program) -> list[str]:
    """Where two programs of the same calls give different gradients."""
    found, expected = one.at(), other.at()
    problems = []
    for s in one.subjects:
        key = f"{s.key} grad"
        # Some gradients are what little is left of terms that cancel.
        text = agreement(listed(key, found), listed(key, expected), ulps=2.0**24)
        if text:
            problems.append(f"{s}: the gradient {text}")
    return problems


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_have_the_type_of_what_they_are_in(family, dtype):
    like = "float16" if dtype == "bfloat16" else ""
    given = points(FAMILIES[family], "float32" if dtype == "bfloat16" else dtype, like)
    made = subjects(given)
    problems = made.problems + [
        f"{s}: the gradient is {g.type}, not {v.type}"
        for s in made.subjects
        for g, v in zip(s.gradient, s.values, strict=True)
        if g.dtype != v.dtype or g.type.rank != v.type.rank
    ]
    assert not problems, shown(problems)


def test_every_refusal_that_is_allowed_is_met():
    met = {
        name
        for family in FAMILIES
        for name, _ in subjects(points(FAMILIES[family], "float64")).refused
    }
    assert REFUSED.keys() <= met


# The machinery finds what is wrong.


def wrong(monkeypatch, rule, check, *calls, primitive="sin"):
    monkeypatch.setattr(PRIMITIVES[primitive], "vjp_rule", rule)
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
    monkeypatch.setattr(PRIMITIVES["sin"], "vjp_rule", rule)
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
