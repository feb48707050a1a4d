"""Every form of index that Hypothesis can generate, read and written as in NumPy."""

import os
import warnings

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt

AT_LENGTH = int(os.environ.get("GRAPHC_EXAMPLES", "0"))
ON_NUMPY = settings(max_examples=AT_LENGTH or 150, deadline=None)
ON_JAX = settings(max_examples=AT_LENGTH or 25, deadline=None)


@st.composite
def indexed(draw):
    """Draw an array and an index that NumPy accepts for it."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=4))
    kinds = ["basic", "arrays", "mixed", "mask", "sprinkled"]
    kind = draw(st.sampled_from(kinds if shape else ["basic", "sprinkled"]))
    if kind == "basic":
        index = draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=6))
    elif kind == "mask":
        rank = draw(st.integers(1, len(shape)))
        index = draw(hnp.arrays(bool, shape[:rank]))
    elif kind == "sprinkled":
        index = draw(sprinkled_index(shape))
    else:
        index = draw(mixed_index(shape, only_arrays=kind == "arrays"))
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    return array, index


@st.composite
def mixed_index(draw, shape, only_arrays):
    """Draw an integer array, an integer or a slice for each axis."""
    points = draw(hnp.array_shapes(max_dims=2, max_side=3))
    items = []
    for n in shape:
        forms = ["array"] if only_arrays else ["array", "int", "slice"]
        form = draw(st.sampled_from(forms))
        if form == "array":
            within = st.integers(-n, n - 1)
            items.append(draw(hnp.arrays("int64", points, elements=within)))
        elif form == "int":
            items.append(draw(st.integers(-n, n - 1)))
        else:
            items.append(draw(st.slices(n)))
    return tuple(items)


@st.composite
def sprinkled_index(draw, shape):
    """Draw an index with new axes and masks of rank 0 at any place in it."""
    items = list(draw(mixed_index(shape, only_arrays=False)))
    items = items[: draw(st.integers(0, len(items)))]
    for item in draw(st.lists(st.sampled_from([None, True, False]), max_size=3)):
        items.insert(draw(st.integers(0, len(items))), item)
    try:
        np.empty(shape)[tuple(items)]
    except IndexError:  # an empty axis beside longer index arrays
        reject()
    return tuple(items)


def variable(array, symbolic):
    shape = tuple(f"n{i}" if symbolic else n for i, n in enumerate(array.shape))
    return gt.tensor("x", array.dtype, shape)


def as_symbolic(index, inputs, arguments):
    """Return the index, each of its arrays replaced by a new input of the function."""
    items = index if isinstance(index, tuple) else (index,)
    made = []
    for item in items:
        if isinstance(item, np.ndarray):
            value = gt.tensor(f"i{len(inputs)}", item.dtype, item.shape)
            inputs.append(value)
            arguments.append(item)
            item = value
        made.append(item)
    return tuple(made)


def check_read(backend, array, index, symbolic):
    x = variable(array, symbolic)
    inputs, arguments = [x], [array]
    selected = x[as_symbolic(index, inputs, arguments)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.UnusedInputWarning)
        f = graphc.function(inputs, selected, backend=backend)
    got = np.asarray(f(*arguments))
    wanted = array[index]
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


def check_write(backend, array, index):
    x = variable(array, False)
    inputs, arguments = [x], [array]
    symbolic = as_symbolic(index, inputs, arguments)
    value = np.float32(7)
    outputs = [x.at[symbolic].set(value), x.at[symbolic].add(value)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.UnusedInputWarning)
        f = graphc.function(inputs, outputs, backend=backend)
    written, added = array.copy(), array.copy()
    written[index] = value
    np.add.at(added, index, value)
    for got, wanted in zip(f(*arguments), (written, added), strict=True):
        np.testing.assert_array_equal(np.asarray(got), wanted)


@ON_NUMPY
@given(indexed(), st.booleans())
def test_reading_on_numpy(case, symbolic):
    check_read("numpy", *case, symbolic)


@ON_JAX
@given(indexed(), st.booleans())
def test_reading_on_jax(case, symbolic):
    check_read("jax", *case, symbolic)


@ON_NUMPY
@given(indexed())
def test_writing_on_numpy(case):
    check_write("numpy", *case)


@ON_JAX
@given(indexed())
def test_writing_on_jax(case):
    check_write("jax", *case)


def test_masks_that_are_known_keep_known_positions():
    mask = np.array([True, False, True, True])
    x, y = gt.tensor("x", "float32", ("n",)), gt.tensor("y", "float32", (4, 2))
    kept = y[mask]
    assert kept.type.shape == (3, 2)
    f = graphc.function([y], [kept, y.at[mask].set(0.0)])
    a = np.arange(8, dtype="float32").reshape(4, 2)
    read, written = f(a)
    np.testing.assert_array_equal(read, a[mask])
    np.testing.assert_array_equal(written, np.where(mask[:, None], 0.0, a))
    assert "nonzero" not in f.source
    g = graphc.function([x], x[mask])  # the call checks the axis's size
    np.testing.assert_array_equal(g(a[:, 0]), a[mask, 0])
    with pytest.raises(graphc.CallError):
        g(a[:3, 0])
