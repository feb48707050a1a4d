"""Generated programs that write in place give NumPy's results, or name the line."""

import linecache
import os

import numpy as np
import pytest

import graphc
from tests.importers.numpy.programs import text_of

SIZES = 4, 6, 5
COUNT = 40 * int(os.environ.get("GRAPHC_EXAMPLES", "1"))


def program_of(seed):
    text, name = text_of(seed), f"<program {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    space = {"np": np, "__name__": "programs"}
    exec(compile(text, name, "exec"), space)
    return space["program"], name


def given(size):
    return np.linspace(-1, 2, size)


def by_numpy(program, size):
    """The results by NumPy; None if it raises or writes to the argument."""
    x = given(size)
    try:
        with np.errstate(all="ignore"):
            results = program(x)
    except Exception:  # of any class
        return None
    return results if np.array_equal(x, given(size)) else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, COUNT, 10))
def test_programs_that_write_are_those_of_numpy(first):
    for seed in range(first, first + 10):
        program, name = program_of(seed)
        ours = graphc.jit(program, frontend="numpy", backend="numpy")
        for size in SIZES:
            expected = by_numpy(program, size)
            try:
                results = ours(given(size))
            except graphc.GraphError as error:
                assert name in str(error), f"{error}\n{text_of(seed)}"
                break
            except Exception:  # NumPy has to raise as well
                assert expected is None, text_of(seed)
                break
            assert expected is not None, text_of(seed)
            for a, b in zip(results, expected, strict=True):
                np.testing.assert_allclose(a, b, err_msg=text_of(seed))
                assert np.asarray(a).dtype == np.asarray(b).dtype


TABLE = np.arange(5.0)


def refused(program, match):
    with pytest.raises(graphc.GraphError, match=match):
        graphc.jit(program, frontend="numpy")(given(5))


def test_arrays_from_outside_are_not_written():
    def by_a_view(x):
        np.reshape(TABLE, (5, 1))[0] = 3
        return x

    def by_an_update(x):
        np.add.at(TABLE, [0], x[0])
        return x

    def by_a_function(x):
        np.copyto(TABLE, x)
        return x

    refused(by_a_view, "from outside of the function would be written")
    refused(by_an_update, "into an array from outside")
    refused(by_a_function, "into an array from outside")
    np.testing.assert_array_equal(TABLE, np.arange(5.0))


def test_memory_that_no_array_has_here_is_refused():
    def bytes_of(x):
        return x.copy().view("int64")

    def iterated(x):
        for element in np.nditer(x):
            element[...] = 1
        return x

    def left_out(x):
        return np.add(x, 1, where=x > 0)

    refused(bytes_of, "bytes of a traced array")
    refused(iterated, "numpy.nditer: reads and writes memory")
    refused(left_out, "`where` leaves out")
