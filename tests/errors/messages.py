"""Helpers for tests of error messages."""

import inspect

import numpy as np
import pytest

import graphc

both = pytest.mark.parametrize("backend", ["jax", "numpy"])


def ones(*shape):
    return np.ones(shape, "float32")


def line_of(name, function):
    """The number of the line that assigns a variable, in the file of `function`."""
    lines = inspect.getsource(inspect.getmodule(function)).splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.startswith(f"{name} = "))


def raised(build, first, *parts, kind=graphc.GraphError):
    """Return the error of `build`, whose message starts so and names its line."""
    with pytest.raises(kind) as caught:
        build()
    text = str(caught.value)
    assert text.splitlines()[0] == first, text
    place = f"at {inspect.getsourcefile(build)}:{inspect.getsourcelines(build)[1]}: "
    for part in (*parts, place):
        assert f"\n  {part}" in text, f"{part} is not in\n{text}"
    return caught.value


def whole(build, text, kind=graphc.GraphError):
    """Require that `build` raises exactly this message, apart from its line."""
    with pytest.raises(kind) as caught:
        build()
    *lines, last, pointer = str(caught.value).splitlines()
    assert "\n".join(lines) == text
    assert pointer == f"  help: graphc help {caught.value.entry}"
    place = f"  at {inspect.getsourcefile(build)}:{inspect.getsourcelines(build)[1]}: "
    assert last.startswith(place)


def refused(call, first, *parts):
    """Like `raised`, for a call of a compiled function."""
    return raised(call, first, *parts, kind=graphc.CallError)


def rows(*given):
    """Parametrize a test by rows: what to call, the first line, further lines."""
    return pytest.mark.parametrize("row", given, ids=lambda row: row[1][:50])
