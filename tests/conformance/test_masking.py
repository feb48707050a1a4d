"""Programs of kind M read no size: none of their results depends on one."""

import pytest

from graphc.transform.planning.plan import Check, Read

from .cases import CASES
from .programs import PROGRAMS
from .runs import compiled

MASKED = [id for id, case in CASES.items() if case.kind == "M"]
# NumPy raises for the maximum of no elements, and so does the program: it tests one
# bool after everything is computed, and compiles nothing for it.
TESTED = {"mask_pos_max": "max: axis 0 has no element to reduce: none is selected"}

# Here an argument bounds a slice. With a mask, each call would compute all elements, so
# a mask is used only under a policy for sizes that vary.
BOUNDED = ["slice_to_n_sum", "slice_to_n_grad"]


def test_every_one_is_written():
    assert len(MASKED) == 16
    assert all(id in PROGRAMS for id in MASKED)


@pytest.mark.parametrize("id", MASKED)
def test_one_segment_and_no_read(id):
    plan = compiled(id, "jax", "pad" if id in BOUNDED else "specialize").plan
    assert len(plan.segments) == 1
    assert plan.static_inputs == () and not plan.segments[0].statics
    assert not any(isinstance(step, Read) for step in plan.glue)
    messages = [step.message for step in plan.glue if isinstance(step, Check)]
    assert len(messages) == len(plan.glue)
    assert messages == ([TESTED[id]] if id in TESTED else [])


@pytest.mark.parametrize("id", BOUNDED)
def test_one_segment_for_the_part_that_is_asked_for(id):
    plan = compiled(id, "jax").plan
    assert len(plan.segments) == 1 and not plan.glue
    assert len(plan.static_inputs) == 1
