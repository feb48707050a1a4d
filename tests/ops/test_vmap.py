"""`vmap` of every sample, or the reason why it cannot be mapped."""

import pytest

import graphc.tensor as gt
from graphc.ir.graph.op import BATCHING, PRIMITIVES
from tests.ops.mapping import apart, mapped, on_jax
from tests.ops.points import Point, points
from tests.ops.test_gradients import (
    AT_LENGTH,
    FAMILIES,
    LARGE,
    shown,
    telling,
    tried,
)
from tests.ops.test_samples import share
from tests.samples.spec import a, call, sample

# Public functions that cannot be mapped, or not over all arguments, and part of the
# message that says why. A function that is missing here can be mapped over anything.
COUNTED = "the size count_nonzero would differ between examples"
REFUSED = {
    **dict.fromkeys(("nonzero", "flatnonzero", "argwhere", "where"), COUNTED),
    **dict.fromkeys(("updates_of", "delete", "compress", "extract"), COUNTED),
    **dict.fromkeys(("unique", "unique_all", "unique_counts"), COUNTED),
    **dict.fromkeys(("unique_inverse", "unique_values"), COUNTED),
    **dict.fromkeys(("union1d", "intersect1d", "setdiff1d", "setxor1d"), COUNTED),
    "bincount": "the size max_from would differ between examples",
    "linalg.lstsq": "the size where would differ between examples",
    "getitem": "would differ between examples",
}


def calls(family: str) -> list[Point]:
    """All calls with float64; functions that take no floats are called with int64."""
    found = tried(family)
    floating = {id(p.sample) for p in found}
    rest = tried(family, "int64")
    return found + [p for p in rest if id(p.sample) not in floating]


def not_allowed(refused: list[tuple[str, str]]) -> list[str]:
    return [
        f"{name}: {message}"
        for name, message in refused
        if name not in REFUSED or REFUSED[name] not in message
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_all_arrays(family):
    made = mapped(calls(family), 3)
    problems = made.problems + not_allowed(made.refused) + apart(made.mapped)
    assert not problems, shown(problems)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_array_of_several(family):
    made = mapped(telling(calls(family), 3), 3, alone=True)
    problems = made.problems + not_allowed(made.refused) + apart(made.mapped)
    assert not problems, shown(problems)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_few_examples(family, n):
    made = mapped(share(telling(calls(family), 1), turn=n), n)
    problems = made.problems + not_allowed(made.refused) + apart(made.mapped)
    assert not problems, shown(problems)


@pytest.mark.parametrize("family", FAMILIES)
def test_symbolic_numbers_of_examples(family):
    made = mapped(share(telling(calls(family), 1), turn=0), 3, size="batch")
    problems = made.problems + not_allowed(made.refused) + apart(made.mapped)
    assert not problems, shown(problems)


@pytest.mark.parametrize("family", FAMILIES)
def test_complex_numbers(family):
    made = mapped(telling(tried(family, "complex128", "complex64"), 1), 3)
    problems = made.problems + not_allowed(made.refused) + apart(made.mapped)
    assert not problems, shown(problems)


# Special functions are elementwise, so mapping leaves their programs the same.
@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "special" or AT_LENGTH])
def test_on_jax(family):
    def runs(point: Point) -> bool:
        return (
            not {"jax", "numpy"} & (point.sample.differs | point.sample.refused).keys()
        )

    given = [p for p in telling(calls(family), 1) if runs(p)]
    given = share(share(given, turn=0), turn=0)
    made = mapped(share(given, turn=0) if family in LARGE else given, 3)
    problems = made.problems + on_jax(made.mapped)
    assert not problems, shown(problems)


def allowed(family: str) -> list[Point]:
    """The calls of functions that may refuse to be mapped."""
    return [p for p in calls(family) if p.sample.name in REFUSED]


def test_every_refusal_that_is_allowed_is_met():
    refused = [
        name
        for family in FAMILIES
        for alone in (False, True)
        for name, _ in mapped(allowed(family), 3, alone).refused
    ]
    assert REFUSED.keys() <= set(refused)


# Tests that this machinery finds mistakes.


def sine() -> list[Point]:
    return points([sample("sin", call(a(2, 3)))], "float64")


def test_it_finds_wrong_rules(monkeypatch):
    right = mapped(sine(), 3).mapped
    assert apart(right) == on_jax(right) == []
    monkeypatch.setitem(BATCHING.rules, PRIMITIVES["sin"], lambda n, b, x: gt.cos(x))
    (text,) = apart(mapped(sine(), 3).mapped)
    assert text.startswith("sin(mixed[2, 3]) with float64, vmap over 3, numpy: [")


def test_it_finds_results_of_wrong_types(monkeypatch):
    rule = lambda n, b, x: gt.reshape(gt.sin(x), (n, 3, 2))
    monkeypatch.setitem(BATCHING.rules, PRIMITIVES["sin"], rule)
    (text,) = mapped(sine(), 3).problems
    assert "raises AssertionError sin: " in text


def test_it_tells_refusals_from_errors(monkeypatch):
    monkeypatch.setattr(PRIMITIVES["sin"], "elementwise", False)
    monkeypatch.setitem(BATCHING.reasons, PRIMITIVES["sin"], "a test forbids it")
    made = mapped(sine(), 3)
    assert not made.mapped and not made.problems
    ((name, message),) = made.refused
    assert name == "sin" and "sin cannot be batched: a test forbids it" in message
    assert len(not_allowed(made.refused)) == 1


def test_each_array_in_turn():
    made = mapped(points([sample("add", call(a(3), a(3)))], "float64"), 3, alone=True)
    assert [m.mapped for m in made.mapped] == [[True, False], [False, True]]
    assert [v.type.rank for v in made.mapped[0].variables] == [2, 1]
    assert not mapped(points([sample("sin", call(a(3)))], "float64"), 3, True).mapped
