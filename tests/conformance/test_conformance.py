"""The catalogue of everyday programs: results on both backends, and compilations."""

from collections import defaultdict

import numpy as np
import pytest

from graphc.transform.planning.plan import Read

from .cases import CASES
from .later import LATER
from .programs import PROGRAMS
from .runs import Call, Run, run

BACKENDS = ("jax", "numpy")
VALUES = [id for id in PROGRAMS if CASES[id].check == "value"]
SHAPES = [id for id in PROGRAMS if CASES[id].check == "shape"]
RAISING = [id for id in PROGRAMS if CASES[id].check == "raises"]


def test_every_case_is_written_or_left_to_a_later_part():
    assert len(CASES) == 98
    assert not PROGRAMS.keys() & LATER.keys()
    assert PROGRAMS.keys() | LATER.keys() == CASES.keys()


def check_results(run: Run, call: Call) -> None:
    assert call.error is None, call.error
    for got, expected in zip(call.results, call.expected, strict=True):
        got, expected = np.asarray(got), np.asarray(expected)
        assert got.shape == expected.shape
        assert got.dtype.kind == expected.dtype.kind
        rtol, atol = run.case.rtol, run.case.atol
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("id", VALUES)
def test_one_function_gives_the_results_of_numpy(id, backend):
    made = run(id, backend)
    assert len({(c.shapes, c.contents()) for c in made.calls}) >= 2
    for call in made.calls:
        check_results(made, call)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("id", SHAPES)
def test_random_numbers_have_the_shape_and_come_again(id, backend):
    drawn = {}
    for call in run(id, backend).calls:
        assert call.error is None, call.error
        result = np.asarray(call.results[0])
        assert result.shape == call.expected[0].shape
        assert result.dtype.kind == "f" and np.isfinite(result).all()
        assert drawn.setdefault(call.contents(), result).tolist() == result.tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("id", RAISING)
def test_only_the_bad_call_raises(id, backend):
    made = run(id, backend)
    assert any(call.raises for call in made.calls)
    for call in made.calls:
        if call.raises:
            assert call.error is not None
            assert "programs.py:" in str(call.error)
        else:
            assert call.error is None, call.error


def compilations(run: Run) -> list:
    return [c for call in run.calls for c in call.compiled]


@pytest.mark.parametrize("id", [id for id in PROGRAMS if CASES[id].kind in "SB"])
def test_one_compilation_per_input_shape(id):
    made = run(id, "jax")
    shapes = {call.shapes for call in made.calls}
    assert 1 <= len(compilations(made)) <= len(shapes)


@pytest.mark.parametrize("id", PROGRAMS)
def test_the_first_call_compiles_every_segment_once(id):
    made = run(id, "jax")
    found = [c.segment for c in made.calls[0].compiled]
    assert sorted(found) == [s.index for s in made.function.plan.segments]


@pytest.mark.parametrize("id", PROGRAMS)
def test_the_log_says_how_often_xla_ran(id):
    calls = run(id, "jax").calls
    assert calls[0].built > 0
    assert [len(call.compiled) for call in calls] == [call.built for call in calls]


@pytest.mark.parametrize("id", PROGRAMS)
def test_a_repeated_call_compiles_nothing(id):
    seen = set()
    for call in run(id, "jax").calls:
        if (call.shapes, call.contents()) in seen:
            assert call.built == 0
        seen.add((call.shapes, call.contents()))


def counts_of(run: Run) -> set:
    """The symbols of the sizes that are read from the device."""
    return {s.value.symbol for s in run.function.plan.glue if isinstance(s, Read)}


@pytest.mark.parametrize("id", PROGRAMS)
def test_segments_recompile_only_for_what_they_depend_on(id):
    """Once per input shape, and per value of each integer argument that is a key."""
    made = run(id, "jax")
    function = made.function
    known = defaultdict(set)
    for call in made.calls:
        integers = call.contents(function.plan.static_inputs)
        for compilation in call.compiled:
            keys = set(function.plan.segments[compilation.segment].keys)
            if not keys & counts_of(made):
                values = any(symbol.origin is not None for symbol in keys)
                asked = (call.shapes, integers if values else ())
                assert asked not in known[compilation.segment]
                known[compilation.segment].add(asked)


@pytest.mark.parametrize("id", [id for id in PROGRAMS if CASES[id].kind in "MD"])
def test_other_counts_recompile_only_what_is_keyed_by_a_count(id):
    made = run(id, "jax")
    function, counts = made.function, counts_of(made)
    seen = set()
    for call in made.calls:
        sizes = (call.shapes, call.contents(function.plan.static_inputs))
        if sizes in seen:
            for compilation in call.compiled:
                assert counts & set(function.plan.segments[compilation.segment].keys)
        seen.add(sizes)


def test_a_static_part_is_not_recompiled_for_another_size():
    made = run("mlp_slice_mlp", "jax")
    first, second = made.function.plan.segments
    assert not any(s.origin is not None for s in first.keys)
    assert len(first.nodes) > 10 and len(second.nodes) > 10
    crossed = made.calls[-1]
    assert [c.segment for c in crossed.compiled] == [second.index]


def test_a_count_recompiles_the_second_network_only():
    made = run("mlp_mask_mlp", "jax")
    first, second = made.function.plan.segments
    fresh = [c.compiled for c in made.calls[4:] if c.compiled]
    assert fresh
    assert {c.segment for compiled in fresh for c in compiled} == {second.index}
