"""NumPy functions that need a size as a number give the right result at every size."""

import copy
import dataclasses
import functools
import json
import warnings

import numpy as np
import pytest

import graphc

SIZES = (5, 6, 12, 9, 12, 1, 0)


@dataclasses.dataclass(frozen=True)
class Window:
    length: int


@functools.cache
def cached(n):
    return 3.0 if n % 3 == 0 else 1.0


def caught(n):
    try:
        return len("x" * n)
    except (TypeError, ValueError):
        return 1


def caught_hash(n):
    try:
        return {12: 2.0}.get(n, 1.0)
    except (TypeError, ValueError):
        return 1.0


ASKED = {
    "a look-up": lambda n: {12: 3.0}.get(n, 1.0),
    "in a set": lambda n: n in {6, 12},
    "a common element": lambda n: len({n, 12}),
    "cached": cached,
    "a hash of one": lambda n: {Window(12): 2.0}.get(Window(n), 1.0),
    "a text": lambda n: len(str(n)),
    "a text in braces": lambda n: len(f"{n}"),
    "a text of a shape": lambda n: len(f"{(n, 1)}"),
    "a type and a limit": lambda n: isinstance(n, int) and n > 8,
    "a list": lambda n: len([0] * n),
    "a list, swapped": lambda n: len(n * (0, 1)),
    "a copy": lambda n: copy.deepcopy(n) == 12,
    "an error that is caught": caught,
    "another": caught_hash,
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("options", [{}, {"dims": "pad"}], ids=["auto", "pad"])
def test_each_size_has_its_number(name, options):
    def function(x):
        return np.cumsum(x) * ASKED[name](x.shape[0])

    ours = graphc.jit(function, frontend="numpy", backend="numpy", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        for n in SIZES:
            x = np.arange(n) / 8 + 0.5
            np.testing.assert_array_equal(ours(x), function(x), strict=True)


def unpacked(x):
    first, second, third = x[:3]
    return first - second * third


PARTS = {
    "in a loop": lambda x: np.array([v * 2 for v in x[:3]]),
    "numbered": lambda x: sum((i + 1) * v for i, v in enumerate(x[-3:])),
    "unpacked": unpacked,
    "by their number": lambda x: [x[i] * 2 for i in range(len(x[1:4]))],
    "of a shape": lambda x: [x * i for i in range(x[:3].shape[0])],
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("options", [{}, {"dims": "pad"}], ids=["auto", "pad"])
def test_a_part_has_so_many_items_where_the_array_has_enough(name, options):
    function = PARTS[name]
    ours = graphc.jit(function, frontend="numpy", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in (5, 6, 12, 9, 4):
            x = np.arange(n, dtype="float32") / 8 + 0.5
            np.testing.assert_allclose(ours(x), function(x), rtol=1e-6)
    assert len(ours.stats().compilations) == 2  # one of them exactly for the first size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        for n in (2, 1, 0, 3, 8):
            x = np.arange(n, dtype="float32") / 8 + 0.5
            try:
                expected = function(x)
            except ValueError as error:
                with pytest.raises(ValueError, match=str(error)[:20]):
                    ours(x)
                continue
            np.testing.assert_allclose(ours(x), expected, rtol=1e-6)


def test_the_fallback_names_what_is_asked_for():
    def function(x):
        steps = {x.shape[0]: range(x.shape[0])}[x.shape[0]]
        return sum(x[i] * 2 if i.bit_count() % 2 else x[i] + 1 for i in steps)

    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    with pytest.warns(graphc.FallbackWarning, match="has no number before"):
        for n in (4, 3):
            np.testing.assert_array_equal(ours(np.ones(n)), function(np.ones(n)))


def test_a_number_from_data_that_is_asked_for_and_caught_is_an_error():
    def function(x):
        try:
            return x * (2 if x.sum() > 3 else 1)
        except ValueError:
            return x

    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    with pytest.raises(graphc.GraphError, match=r"(?s)has no number.*test_asked\.py"):
        ours(np.ones(5))


def test_an_array_is_not_hashed():
    def function(x):
        return x * len({x})

    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    with pytest.raises(TypeError, match=r"unhashable type: 'numpy\.ndarray'"):
        ours(np.ones(3))


def test_a_text_of_json_needs_the_number():
    ours = graphc.jit(lambda x: x * len(json.dumps(str(x.shape[0]))), frontend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        for n in (8, 9, 10):
            np.testing.assert_allclose(
                ours(np.ones(n)), np.ones(n) * (4 if n > 9 else 3)
            )
