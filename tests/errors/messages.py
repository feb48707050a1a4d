"""What the tests of messages have in common."""

import inspect

import numpy as np
import pytest

import graphc

both = pytest.mark.parametrize("backend", ["jax", "numpy"])


def ones(*shape):
    return np.ones(shape, "float32")


def line_of(name, function):
    """The line in which a variable is assigned, in the file of `function`."""
    lines = inspect.getsource(inspect.getmodule(function)).splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.startswith(f"{name} = "))


def raised(build, first, *parts, kind=graphc.GraphError):
    """What `build` raises; its message starts so, and names the line of `build`."""
    with pytest.raises(kind) as caught:
        build()
    text = str(caught.value)
    assert text.splitlines()[0] == first, text
    place = f"at {inspect.getsourcefile(build)}:{inspect.getsourcelines(build)[1]}: "
    for part in (*parts, place):
        assert f"\n  {part}" in text, f"{part} is not in\n{text}"
    return caught.value


def whole(build, text, kind=graphc.GraphError):
    """What `build` raises has exactly this message, but for the line of `build`."""
    with pytest.raises(kind) as caught:
        build()
    *lines, last, pointer = str(caught.value).splitlines()
    assert "\n".join(lines) == text
    assert pointer == f"  help: graphc help {caught.value.entry}"
    place = f"  at {inspect.getsourcefile(build)}:{inspect.getsourcelines(build)[1]}: "
    assert last.startswith(place)


def refused(call, first, *parts):
    """As `raised`, of a call of a compiled function."""
    return raised(call, first, *parts, kind=graphc.CallError)


def rows(*given):
    """Rows of (what to do, the first line, how later lines begin)."""
    return pytest.mark.parametrize("row", given, ids=lambda row: row[1][:50])
