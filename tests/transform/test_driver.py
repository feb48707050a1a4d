"""The driver is one list of steps, and both of its back ends know every step."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

import graphc
import graphc.tensor as gt
from graphc.backends import jax as _jax  # noqa: F401 - registers what it prints
from graphc.backends.program import print_step
from graphc.runtime.save.file_steps import StepWriter
from graphc.transform.planning.driver import (
    ChooseCapacities,
    DriverStep,
    RequireSizes,
    RunOnCapacities,
    driver_of,
)
from graphc.transform.planning.plan import Read, Segment

X, Y = gt.vector("x", shape=("n",)), gt.vector("y", shape=("m",))
K = gt.iscalar("k")
KINDS = [
    kind for base in get_args(DriverStep) for kind in (base, *base.__subclasses__())
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_both_back_ends_know_each_kind_of_step(kind):
    assert kind in print_step.registry
    assert kind in StepWriter.__dict__["step"].dispatcher.registry


def test_a_step_that_a_back_end_does_not_know_is_refused():
    with pytest.raises(TypeError, match="no text is known for a str"):
        print_step("a step", None)


def test_between_capacities_and_true_sizes_there_are_steps_too():
    f = graphc.function([X, Y], [X + 1, gt.sum(Y[Y > 0])], dims="pad")
    driver = driver_of(f.plan)
    assert [type(s) for s in driver.steps] == [ChooseCapacities, RunOnCapacities]
    choice, run = driver.steps
    assert list(map(str, choice.sizes)) == ["n", "m"]
    assert run.driver is driver.inner and run.arguments == (X, Y)
    assert [sorted(r.cut) for r in driver.results] == [[0], []]
    with pytest.raises(FrozenInstanceError):
        choice.sizes = ()


def required(result):
    """The relations that a padded function's driver requires, each with its decider."""
    f = graphc.function([X, Y, K], [result, gt.sum(Y) * K], dims="pad")
    steps = driver_of(f.plan).steps
    return [(str(s.guard), s.decided_by) for s in steps if type(s) is RequireSizes]


def test_relations_of_true_sizes_say_what_decides_them():
    assert required(X + Y) == [("n == m", "shapes")]
    pairs = [("0 <= k", "integers"), ("2*k == n", "integers")]
    assert required(gt.reshape(X, (K, 2))) == pairs
    branches = lambda: gt.sum(X * Y), lambda: gt.sum(X) + gt.sum(Y)
    assert required(gt.cond(gt.sum(X) > 0, *branches)) == [("n == m", "branch")]


def test_without_policies_the_steps_are_those_of_the_plan():
    f = graphc.function([X], gt.sort(X[X > 0]), dims="specialize")
    driver = driver_of(f.plan)
    assert [type(s) for s in driver.steps] == [Segment, Read, Segment]
    assert driver.inner is driver and not driver.direct
