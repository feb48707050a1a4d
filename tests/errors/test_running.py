"""Errors while a program runs: indices, effects of failed calls, tracebacks of JAX."""

import subprocess
import sys
import traceback

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors.messages import both, ones, refused

HERE = "test_running.py"
x = gt.tensor("x", "float32", ("n", 3))
y = gt.tensor("y", "float32", ("n",))
index = gt.tensor("index", "int64", ("m",))
wide = gt.tensor("wide", "float64", ("n",))
k = gt.iscalar("k")


# Indices that are data.


def raises_or_is(call, first, expected):
    """Require an error with `check`, and the expected result without."""
    checked, unchecked = call
    refused(checked, first, f"asked for by {HERE}:")
    np.testing.assert_array_equal(np.asarray(unchecked()), expected)


@both
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_indices_out_of_bounds(backend, dtype):
    """Reads give the nearest element, writes are dropped; `check=True` raises."""
    i = gt.tensor("i", dtype, ("m",))
    given = [0, 3, 4, 127] if dtype == "uint8" else [0, 3, 4, 127, -1, -4, -5, -128]
    nearest = [0, 3, 3, 3] if dtype == "uint8" else [0, 3, 3, 3, 3, 0, 0, 0]
    inside = [n for n in given if -4 <= n < 4]
    a = np.arange(4, dtype="float32")
    added = a.copy()
    np.add.at(added, inside, 1)
    for out, expected, at_good in (
        (y[i], nearest, a[inside]),
        (y.at[i].add(1), added, added),
    ):
        f = graphc.function([y, i], out, backend=backend)
        g = graphc.function([y, i], out, backend=backend, check=True)
        np.testing.assert_array_equal(g(a, np.array(inside, dtype)), at_good)
        raises_or_is(
            (
                lambda g=g: g(a, np.array(given, dtype)),
                lambda f=f: f(a, np.array(given, dtype)),
            ),
            "index: out of bounds for axis 0 of float32[n]: index 127, size 4",
            expected,
        )
        for n in set(given) - set(inside):  # each alone is found and reported
            with pytest.raises(graphc.CallError, match=rf": index {n}, size 4\n"):
                g(a, np.array([n], dtype))
        np.testing.assert_array_equal(g(a, np.array(inside, dtype)), at_good)
        assert g.stats().calls == 2


@both
@pytest.mark.parametrize("size", [300, "n"])
def test_indices_whose_dtype_cannot_hold_the_size_of_the_axis(backend, size):
    long = gt.tensor("long", "float32", (size,))
    for dtype, good, bad in [("uint8", 255, None), ("uint64", 299, 2**64 - 1)]:
        i = gt.tensor("i", dtype, ("m",))
        f = graphc.function([long, i], long[i], backend=backend, check=True)
        a = np.arange(300, dtype="float32")
        assert np.asarray(f(a, np.array([good], dtype))).tolist() == [good]
        if bad is not None:
            with pytest.raises(graphc.CallError, match=f": index {bad}, size 300\n"):
                f(a, np.array([bad], dtype))


@both
def test_indices_out_of_bounds_of_the_second_axis(backend):
    rows, columns = (gt.tensor(name, "int64", ("m",)) for name in ("rows", "columns"))
    a = np.arange(6, dtype="float32").reshape(2, 3)
    r, c = np.array([0, 1, 5]), np.array([-4, 7, 0])
    inputs = [x, rows, columns]
    f = graphc.function(inputs, x[rows, columns], backend=backend)
    assert f(a, r, c).tolist() == [0, 5, 3]
    f = graphc.function(inputs, x.at[rows, columns].set(9), backend=backend)
    assert np.asarray(f(a, r, c)).tolist() == a.tolist()  # each is outside in one axis
    for out in (x[rows, columns], x.at[rows, columns].set(9)):
        f = graphc.function(inputs, out, backend=backend, check=True)
        first = "index: out of bounds for axis {} of float32[n, 3]: index {}, size {}"
        good = np.array([0, 1, 1])
        refused(lambda f=f: f(a, r, good), first.format(0, 5, 2))
        refused(lambda f=f: f(a, good, c), first.format(1, 7, 3))
        f(a, good, good)


@both
@pytest.mark.parametrize("start", [4, 5, 100])
def test_slices_out_of_bounds(backend, start):
    """A slice of constant length is moved inside the axis; `check=True` raises."""
    first = gt.sum(index)
    for out, expected in (
        (y[first : first + 2], [3, 4]),
        (y.at[first : first + 2].set(9), [0, 1, 2, 9, 9]),
    ):
        f = graphc.function([y, index], out, backend=backend)
        g = graphc.function([y, index], out, backend=backend, check=True)
        a = np.arange(5, dtype="float32")
        assert f(a, np.array([start])).tolist() == expected
        for bad in (start, -1):
            told = rf"^index: a slice of 2 leaves axis 0 of .*: start {bad}, size 5\b"
            with pytest.raises(graphc.CallError, match=told):
                g(a, np.array([bad]))
        assert g(a, np.array([3])).tolist() == expected


@both
def test_slices_out_of_bounds_whose_start_is_an_argument(backend):
    f = graphc.function([y, k], y[k : k + 2], backend=backend)
    first = (
        "the slice of 2 elements from k leaves an axis of size n; "
        "its length is compiled as a constant, but x[start:][:2] has fewer at the end"
    )
    for start in (3, -1):
        shown = f"arguments: y: float32[4], k: {start}"
        refused(lambda start=start: f(ones(4), start), first, shown)
    assert f(ones(4), 2).shape == (2,)


@both
def test_reading_from_an_axis_without_elements(backend):
    f = graphc.function([y, index], y[index], backend=backend)
    with pytest.raises(graphc.CallError) as caught:
        f(ones(0), np.array([0]))
    text = str(caught.value)
    assert f"\n  asked for by {HERE}:" in text
    assert "\n  arguments: y: float32[0], index: int64[1]" in text
    assert caught.value.__cause__.__traceback__ is None  # no frames of libraries
    assert f(ones(0), np.zeros(0, "int64")).shape == (0,)
    assert f(ones(1), np.array([0])).tolist() == [1]


# The state after a failed call.


@both
def test_a_failed_call_changes_nothing(backend):
    f = graphc.function([x, k], x.reshape((k, -1)), backend=backend)
    bad = [(ones(4, 3), 5), (ones(4, 3), -1), (ones(4), 1), (None, 1), (ones(4, 3),)]
    for args in bad:
        with pytest.raises(graphc.CallError):
            f(*args)
        assert f.stats().calls == 0 and not f.stats().compilations
    assert f(ones(4, 3), 6).shape == (6, 2)
    compiled = len(f.stats().compilations)
    for args in bad:
        with pytest.raises(graphc.CallError):
            f(*args)
    assert f(ones(4, 3), 6).shape == (6, 2)
    assert f.stats().calls == 2 and len(f.stats().compilations) == compiled


def test_segments_that_were_compiled_before_a_call_failed_count():
    h = y
    for _ in range(30):
        h = gt.tanh(h) + 0.1 * h
    f = graphc.function([y, k], h[h > 0].reshape((k, -1)))
    first, second = f.plan.segments
    with pytest.raises(graphc.CallError, match="cannot reshape"):
        f(ones(6), 4)
    assert [c.segment for c in f.stats().compilations] == [0]
    f(ones(6), 3)
    assert [c.segment for c in f.stats().compilations] == [0, 1]
    assert f.stats().calls == 1


def test_a_segment_whose_result_failed_a_check_was_compiled():
    f = graphc.function([y, index], y[index], check=True)
    with pytest.raises(graphc.CallError, match="out of bounds"):
        f(ones(2), np.array([2]))
    assert len(f.stats().compilations) == 1 and f.stats().calls == 0
    f(ones(2), np.array([1]))
    assert len(f.stats().compilations) == 1 and f.stats().calls == 1


# Errors as they look when they have come through JAX.


def shown(call):
    """The traceback that Python prints for a call, and the message of the error."""
    with pytest.raises(graphc.CallError) as caught:
        call()
    return "".join(traceback.format_exception(caught.value)), str(caught.value)


@both
def test_tracebacks_are_short(backend):
    f = graphc.function([x, y], (x[:, 0] + y)[: x.shape[0] - 4], backend=backend)
    for call in (
        lambda: f(ones(5, 3), ones(4)),
        lambda: f(np.ones((5, 3)), ones(5)),
        lambda: f([1], ones(5)),
        lambda: f(ones(5, 3)),
    ):
        printed, message = shown(call)
        lines = printed.splitlines()
        assert len(lines) - len(message.splitlines()) <= 12, printed
        assert "site-packages" not in printed and "another exception" not in printed


def test_errors_in_a_users_trace_are_ours_and_name_the_users_line():
    f = graphc.function([x, y], x[:, 0] + y)
    first = "axis 0 of input y has 3 elements, not n = 2"
    refused(lambda: jax.jit(f)(ones(2, 3), ones(3)), first)
    refused(lambda: jax.vmap(f)(ones(4, 2, 3), ones(4, 3)), first)
    scalar = graphc.function([y], gt.sum(y[:-1] + y[1:3]))
    with pytest.raises(graphc.CallError, match="^add: shapes do not") as caught:
        jax.grad(scalar)(ones(5))
    assert f"\n  at {__file__}:" in str(caught.value)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap], ids=["jit", "vmap"])
def test_sizes_cannot_be_read_in_a_users_trace(transform):
    f = graphc.function([x], x[x[:, 0] > 0] + 1)
    with pytest.raises(graphc.CallError) as caught:
        transform(f)(ones(2, 3) if transform is jax.jit else ones(4, 2, 3))
    problem, hint = str(caught.value).splitlines()[:2]
    assert problem.startswith("the size ")
    assert problem.endswith(" must be known, and it is being traced")
    assert hint.startswith("  hint: call the function outside of jax.jit")


def test_static_arguments_cannot_be_traced():
    f = graphc.function([y, k], y[:k])
    first = "the size k must be known, and it is being traced"
    refused(lambda: jax.jit(f)(ones(3), 2), first)
    assert f(ones(3), 2).shape == (2,)


def test_checks_cannot_be_made_in_a_users_trace():
    small = gt.tensor("small", "int32", ("m",))
    f = graphc.function([y, small], y[small], check=True)
    first = "a number that the program must know is being traced"
    error = refused(
        lambda: jax.jit(f)(ones(2), np.array([0], "int32")),
        first,
        "hint: call the function outside of jax.jit",
    )
    assert error.__cause__ is None


def test_numpy_programs_cannot_be_traced():
    f = graphc.function([y], y * 2, backend="numpy")
    refused(
        lambda: jax.jit(f)(ones(2)),
        "input y is traced by jax.jit, jax.vmap or jax.grad: NumPy cannot take it",
        'hint: compile with backend="jax"',
    )


def test_the_plain_callable_raises_errors_of_ours_too():
    f = graphc.function([x, y], x[:, 0] + y)
    with pytest.raises(graphc.CallError, match="^axis 0 of input y has 3 elements"):
        f.jax_callable(ones(2, 3), ones(3))
    with pytest.raises(graphc.CallError, match="^input x is no array"):
        jax.jit(f.jax_callable)([1.0], ones(3))


def test_unjitted_programs_of_64_bits_insist_on_the_mode():
    f = graphc.function([wide], wide + 1, jit=False)
    first = "the program has 64-bit arrays: call it under jax.enable_x64(True)"
    refused(lambda: f(np.ones(2)), first)


def test_saved_programs_check_their_arguments_too(tmp_path):
    for backend in ("numpy", "jax"):
        f = graphc.function([x, k], x[:k], backend=backend)
        f.save(tmp_path / f"of_{backend}.py")
    script = (
        "import itertools, numpy as np, of_numpy, of_jax\n"
        "calls = [(np.ones((2, 3)), 1), (np.ones((2, 3), 'f4'), 2.0),\n"
        "         (np.ones((2, 4), 'f4'), 1), ([1.0], 1)]\n"
        "for saved, args in itertools.product([of_numpy, of_jax], calls):\n"
        "    try:\n"
        "        saved.program(*args)\n"
        "    except (saved.ProgramError, AttributeError) as error:\n"
        "        print(str(error).splitlines()[0])\n"
    )
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    for first_line in (0, 4):
        assert lines[first_line : first_line + 3] == [
            "input x has another dtype",
            "input k has another dtype",
            "input x has another size",
        ]
    assert len(lines) == 8
