"""Shardings chosen by hand: one device's results, and what cannot be."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.on_devices import on_devices
from tests.transform.sharding.test_sharding import refusal

W = np.arange(6, dtype="float32").reshape(3, 2)


def chosen(axes, shape=(3, 2)):
    w = gt.tensor("w", "float32", shape)
    return [w], gt.with_sharding(w, axes) * 2


def compiled(axes, shape=(3, 2), **options):
    options = {"mesh": graphc.mesh(data=1, model=1)} | options
    return graphc.function(*chosen(axes, shape), **options)


def test_the_text_says_it_in_jax():
    f = compiled((None, "model"))
    line = "with_sharding = jax.lax.with_sharding_constraint(w, on_mesh(None, 'model'))"
    assert line in f.source
    assert "    in_shardings=(on_mesh(None, 'model'),)," in f.source.splitlines()
    np.testing.assert_array_equal(f(W), W * 2)


def test_explain_tells_what_is_laid_by_hand():
    lines = compiled((None, "model")).explain().splitlines()
    assert lines[2:6] == [
        "    takes over model: w",
        "    gives as JAX decides: multiply",
        "    holds on each device: 48 bytes",
        "    lays over model by hand: float32[3, 2] at test_by_hand.py:17",
    ]
    assert "lays whole on each device by hand" in compiled((None, None)).explain()


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_without_a_mesh_it_is_nothing_and_said(backend):
    f = compiled((None, "model"), backend=backend, mesh=None)
    np.testing.assert_array_equal(f(W), W * 2)
    told = "with_sharding at test_by_hand.py:17 does nothing: there is no mesh"
    assert told in f.explain() and told in f.explain(full=True)
    if backend == "jax":
        np.testing.assert_array_equal(f.jax_callable(W), W * 2)


def test_the_plain_program_has_no_mesh():
    f = compiled((None, "model"))
    np.testing.assert_array_equal(jax.jit(f.jax_callable)(W), W * 2)


def test_a_mesh_axis_that_is_not_there():
    lines = refusal(lambda: compiled((None, "mode")).source)
    assert lines == [
        "with_sharding: the mesh has no axis 'mode'; did you mean 'model'?",
        "  got: float32[3, 2], along 'mode'",
        "  expected: one of 'data', 'model'",
    ]


def test_the_line_of_the_user_is_told():
    with pytest.raises(graphc.GraphError, match=r"gt\.with_sharding\(w, axes\) \* 2"):
        compiled((None, "mode")).source  # noqa: B018


def test_one_mesh_axis_twice():
    assert refusal(lambda: chosen(("model", "model")))[0] == (
        "with_sharding: two axes of an array cannot both lie along 'model'"
    )


def test_another_number_of_axes():
    lines = refusal(lambda: chosen(("model",)))
    assert lines[0] == "with_sharding: 1 axes are named for an array that has 2"
    assert lines[-1] == (
        "  hint: give an axis of the mesh, or None, for each axis of the array"
    )


@pytest.mark.parametrize("axes", ["data", 3, None, ("data", 3), ("",), ("?",)])
def test_something_that_names_no_axes(axes):
    assert refusal(lambda: chosen(axes))[0] == (
        "with_sharding: needs the name of an axis of the mesh, or None, for each axis "
        "of the array"
    )


@pytest.mark.parametrize(
    ("option", "got"),
    [({"backend": "numpy"}, "backend='numpy'"), ({"jit": False}, "jit=False")],
)
def test_options_that_leave_nothing_to_a_mesh(option, got):
    assert refusal(lambda: compiled(("data", None), **option)) == [
        "function: sizes are sharded by compiled programs of JAX, over all of a mesh",
        f"  got: {got}, with gt.with_sharding and a mesh",
        f"  hint: leave {got.partition('=')[0]} out, or the mesh",
    ]


UNEVEN = """
import graphc
from tests.transform.sharding.test_by_hand import compiled, refusal

mesh = graphc.mesh(data=2, model=2)
assert refusal(lambda: compiled(("model", None), mesh=mesh).source) == [
    "with_sharding: 2 devices cannot share 3 elements evenly",
    "  got: float32[3, 2], along 'model'",
    "  hint: pad that axis to a multiple with gt.pad, or lay another axis there",
]
shape = "n", 2
assert refusal(lambda: compiled(("data", None), shape, mesh=mesh).source) == [
    "with_sharding: 2 devices are not known to share n elements evenly",
    "  got: float32[n, 2], along 'data'",
    "  hint: dims={...: graphc.Shard('data')} stores that size at multiples",
]
dims = {"n": graphc.Shard("data")}
for axes in (("data", None), ("model", None)):
    assert compiled(axes, shape, mesh=mesh, dims=dims).source
"""
RESULTS = """
import runpy
runpy.run_module("tests.transform.sharding.laid_by_hand", run_name="__main__")
"""


def test_results_are_those_of_one_device_and_uneven_sizes_are_refused():
    on_devices(8, "-c", RESULTS + UNEVEN)
