from types import CodeType

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.runtime.driver.loading import code_objects


def codes(code):
    """Yield a code object and all code objects inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes(inner)


def shown(code):
    """The function, file and lines that a traceback shows."""
    lines = {line for *_, line in code.co_lines()}
    return code.co_qualname, code.co_filename, lines


@pytest.mark.parametrize("dims", ["specialize", "pad"])
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_parts_have_the_lines_of_the_whole(backend, dims):
    x = gt.matrix("x")
    text = graphc.function([x], gt.linalg.det(x), backend=backend, dims=dims).source
    parts = code_objects(text, "program.py")
    assert len(parts) == 2
    whole = compile(text, "program.py", "exec")
    found = [c for part in parts for c in list(codes(part))[1:]]
    assert list(map(shown, found)) == list(map(shown, list(codes(whole))[1:]))


def test_a_text_of_another_ending_is_compiled_as_it_is():
    (code,) = code_objects("x = 1\n", "other.py")
    found = {}
    exec(code, found)
    assert found["x"] == 1 and code.co_filename == "other.py"


def test_programs_share_no_functions():
    x = gt.vector("x")
    one, other = graphc.function([x], x + 1), graphc.function([x], x * 2)
    ones = np.ones(3, "float32")
    np.testing.assert_array_equal(one(ones), ones + 1)
    np.testing.assert_array_equal(other(ones), ones * 2)
