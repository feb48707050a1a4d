"""Errors of loops and branches, which say where the problem is and what to do."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

BACKENDS = ("numpy", "jax")
A = gt.tensor("a", "float64", ())
X = gt.tensor("x", "float64", ("n",))
N = gt.tensor("k", "int64", ())
FIVE = np.arange(1.0, 6)


def refusal(call):
    """The message without its last line, which must quote this file."""
    with pytest.raises(graphc.GraphError) as caught:
        call()
    lines = caught.value.args[0].splitlines()
    assert "test_loops_refused.py" in lines[-1]
    return "\n".join(lines[:-1])


def at_the_call(inputs, outputs, *arguments, backend):
    f = graphc.function(inputs, outputs, backend=backend)
    with pytest.raises(graphc.GraphError) as caught:
        f(*arguments)
    return str(caught.value)


def summed(c, v):
    return c + v, c


def test_a_step_that_changes_the_type():
    start = {"total": A, "parts": (A, X)}

    def step(c, v):
        first, rest = c["parts"]
        return {"total": c["total"] + v, "parts": (first > 0, rest)}, None

    assert refusal(lambda: gt.scan(step, start, X)) == (
        "scan: a step changes the type of the carry at ['parts'][0]\n"
        "  got: bool[] after it\n  expected: float64[], as before it\n"
        '  hint: convert it, y.astype("float64"), or start from '
        'gt.asarray(start, "bool")'
    )


def test_a_step_that_changes_the_shape():
    doubled = lambda c: gt.concatenate([c, c])
    text = refusal(lambda: gt.while_loop(lambda c: c[0] > 0, doubled, gt.zeros(3)))
    assert "got: float32[6] after it\n  expected: float32[3], as before it" in text
    stacked = lambda i, c: gt.stack([c, c])
    text = refusal(lambda: gt.fori_loop(0, 3, stacked, A))
    assert "got: float64[2] after it\n  expected: float64[], as before it" in text


@pytest.mark.parametrize(
    ("after", "got", "expected", "at"),
    [
        (lambda c: {"a": A}, "a dict of 'a'", "a dict of 'a', 'b'", ""),
        (lambda c: {"a": A, "c": (A, A)}, "'a', 'c'", "a dict of 'a', 'b'", ""),
        (lambda c: {"b": (A,), "a": A}, "a tuple of 1", "a tuple of 2", " at ['b']"),
        (lambda c: {"b": [A, A], "a": A}, "a list of 2", "a tuple of 2", " at ['b']"),
        (lambda c: {"b": (A, None), "a": A}, "None", "float64[]", " at ['b'][1]"),
        (lambda c: A, "float64[]", "a dict of 'a', 'b'", ""),
    ],
)
def test_a_step_that_changes_the_structure(after, got, expected, at):
    start = {"a": A, "b": (A, A)}
    text = refusal(lambda: gt.scan(lambda c, v: (after(c), None), start, X))
    assert text.startswith(f"scan: a step changes the structure of the carry{at}\n")
    assert got in text and f"expected: {expected}" in text


def test_dicts_are_matched_by_their_keys():
    step = lambda c, v: ({"b": c["b"] + 1, "a": c["a"] * v}, None)
    ends, _ = gt.scan(step, {"a": A, "b": A}, X)
    f = graphc.function([A, X], [ends["a"], ends["b"]], backend="numpy")
    assert f(1.0, FIVE) == [120.0, 6.0]
    y = gt.cond(A > 0, lambda: {"p": A, "q": 2 * A}, lambda: {"q": A, "p": -A})
    f = graphc.function([A], [y["p"], y["q"]], backend="numpy")
    assert f(3.0) == [3.0, 6.0] and f(-3.0) == [3.0, -3.0]


def test_branches_that_disagree():
    assert refusal(lambda: gt.cond(A > 0, lambda: X, lambda: A)) == (
        "cond: branches return different types in position 0\n"
        "  got: float64[n] from branch 1\n  expected: float64[]"
    )
    assert refusal(lambda: gt.switch(N, [lambda: A, lambda: (A, A)])) == (
        "switch: branches return different structures\n"
        "  got: a tuple of 2\n  expected: float64[]"
    )
    assert "at least one branch" in refusal(lambda: gt.switch(N, []))
    assert "use gt.where" in refusal(lambda: gt.cond(X > 0, lambda: A, lambda: A))
    assert "an integer scalar" in refusal(lambda: gt.switch(A, [lambda: A]))


def test_lengths():
    negative = lambda: gt.scan(summed, A, length=-1)
    assert "the length is negative\n  got: -1" in refusal(negative)
    assert "needs sequences, or a length" in refusal(lambda: gt.scan(summed, A))
    assert "a sequence needs an axis" in refusal(lambda: gt.scan(summed, A, A))
    for bad in (True, 1.5, A):
        call = lambda: gt.scan(summed, A, length=bad)
        assert "must be an integer scalar" in refusal(call)
    three, four = gt.tensor("p", "float64", (3,)), gt.tensor("q", "float64", (4,))
    assert refusal(lambda: gt.scan(summed, A, (three, four))) == (
        "scan: sequences have different lengths\n  got: float64[3], float64[4]"
    )
    text = refusal(lambda: gt.scan(summed, A, three, length=4))
    assert "sequences must have one length: 3 and 4 differ" in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_at_the_call(backend):
    y = gt.scan(lambda c, _: (c * 2, None), A, length=N)[0]
    text = at_the_call([A, N], y, 1.0, -1, backend=backend)
    assert "the length must not be negative" in text and "got -1" in text
    other = gt.tensor("y", "float64", ("m",))
    y = gt.scan(lambda c, v: (c + v[0], None), A, (X, other))[0]
    text = at_the_call([A, X, other], y, 1.0, FIVE, FIVE[:3], backend=backend)
    assert "sequences must have one length: needs m == n; got 3 and 5" in text


def test_what_a_body_must_return():
    text = refusal(lambda: gt.scan(lambda c, v: c, A, X))
    assert "must return a pair: the next carry, and an output\n  got: Value" in text
    vector = lambda: gt.while_loop(lambda c: c > 0, lambda c: c, X)
    assert "the condition must be a scalar" in refusal(vector)
    assert "the first argument must be a function" in refusal(lambda: gt.map(X, X))


def steps(most, use):
    end = gt.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * A), (0, A), max_steps=most
    )
    return use(end)


USES = {
    "the first": lambda end: end[0],
    "another": lambda end: end[1],
    "the gradient": lambda end: graphc.grad(end[1], A),
    "the second derivative": lambda end: graphc.hvp(end[1], A, gt.cos(A)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("use", USES)
def test_too_few_steps_are_never_silent(use, backend):
    with np.errstate(all="ignore"):
        f = graphc.function([A], [steps(3, USES[use]), A], backend=backend)
        f(1.5)
    outputs = [steps(2, USES[use]), A]
    text = at_the_call([A], outputs, 1.5, backend=backend)
    assert text.startswith("while_loop: more than max_steps=2 steps\n")
    assert "test_loops_refused.py" in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_checks_inside_of_bodies(backend):
    """They run also in nested loops and in branches inside loops."""

    def positive(c, v):
        return gt.assert_(v > 0, "not positive", c + v), None

    y = gt.scan(positive, A, X)[0]
    f = graphc.function([A, X], y, backend=backend)
    assert f(1.0, FIVE) == 16
    text = at_the_call([A, X], y, 1.0, -FIVE, backend=backend)
    assert text.startswith("not positive\n")

    def inside(c, v):
        either = lambda: gt.scan(positive, c, X * v)[0]
        return gt.cond(v < 3, either, lambda: c), None

    y = gt.scan(inside, A, X)[0]
    f = graphc.function([A, X], [y, graphc.grad(y, A)], backend=backend)
    assert f(1.0, FIVE) == [46.0, 1.0]
    assert f(1.0, np.array([4.0, -1.0, 5])[[0, 2]]) == [1.0, 1.0]
    text = at_the_call([A, X], y, 1.0, -FIVE[:0:-1] + 4.5, backend=backend)
    assert text.startswith("not positive\n")

    doubled = lambda c: gt.assert_(c < 40, "too large", 2 * c)
    y = gt.while_loop(lambda c: c < A, doubled, 1.0)
    assert graphc.function([A], y, backend=backend)(50.0) == 64
    text = at_the_call([A], y, 100.0, backend=backend)
    assert text.startswith("too large\n")


@pytest.mark.parametrize("backend", BACKENDS)
def test_checks_in_a_condition(backend):
    held = lambda c: gt.assert_(c < 40, "too large", c < A)
    y = gt.while_loop(held, lambda c: 2 * c, A / 8)
    assert graphc.function([A], y, backend=backend)(16.0) == 16
    for a in (400.0, 100.0):  # before the first step, and after the second
        text = at_the_call([A], y, a, backend=backend)
        assert text.startswith("too large\n")


def test_gradients_that_need_the_number_of_steps():
    one = lambda a: gt.while_loop(lambda c: c < 100, lambda c: c * c * a, a)
    slope = graphc.grad(one(A), A)
    text = refusal(lambda: graphc.function([A], slope, jit=True))
    assert "jit=True is impossible: while_loop needs the size steps" in text
    assert "give a bound of its steps: max_steps= of gt.while_loop" in text
    f = graphc.function([A], slope)
    with pytest.raises(graphc.CallError, match="the size steps must be known") as e:
        jax.jit(f)(2.0)
    assert "or give a bound of its steps: max_steps= of gt.while_loop" in str(e.value)
    step = lambda c, v: (c + graphc.grad(one(v), v), None)
    y = gt.scan(step, A, X)[0]
    text = refusal(lambda: graphc.function([A, X], y, jit=True))
    assert "needs the size steps, which differs from step to step" in text
    assert "give a bound of its steps: max_steps= of gt.while_loop" in text


def test_sizes_that_depend_on_the_step():
    """Nothing bounds the number of elements; a slice of `X` is bounded by `X`."""
    y = gt.scan(lambda i, v: (i + gt.sum(gt.arange(i)), None), N, X)[0]
    text = refusal(lambda: graphc.function([N, X], y, jit=True))
    assert "needs the size k, which differs from step to step: the steps are" in text
    assert "gt.where" in text.split("hint: ")[1]
    for part in (lambda i, v: X[:i], lambda i, v: X[v < X]):
        step = lambda i, v, part=part: (i + gt.argmax(gt.sort(part(i, v))), None)
        assert graphc.function([N, X], gt.scan(step, N, X)[0], jit=True).plan.segments


def line_of(text):
    """The first line of this file that contains a text."""
    with open(__file__, encoding="utf-8") as file:
        found = [i for i, line in enumerate(file, 1) if text in line]
    return f"test_loops_refused.py:{found[0]}"


def test_variables_of_a_body_are_its_own():
    """The message names the loop that they belong to and the loop that uses them."""
    kept = []

    def step(c, v):
        kept.extend([v, c * v])
        return c + v, c

    y = gt.scan(step, A, X)[0]  # of which it is
    for leaked in kept:
        z = gt.scan(lambda c, v: (c + leaked, c), y, X)[0]  # that takes it
        text = refusal(lambda: graphc.function([A, X], z))
        assert "of the body of a loop or branch is used outside of it" in text
        assert f"of the body at {line_of('# of which it is')}" in text
        assert f"is needed by scan at {line_of('# that takes it')}" in text
        text = refusal(lambda: graphc.function([A, X], leaked + 1))
        assert "let the body return it" in text
    gt.cond(A > 0, lambda v: kept.append(v) or v, lambda v: v, A)
    text = refusal(lambda: graphc.function([A], kept[-1]))
    assert "of the body of a loop or branch is used outside of it" in text


@pytest.mark.parametrize("jit", ["auto", False])
def test_an_op_that_a_backend_has_not(jit):
    """Nor can it run next to the loop, since it is part of each step."""
    bessel = lambda v: gt.special.kv(0.5, v)
    inner = lambda c, v: (gt.scan(lambda d, w: (bessel(d), None), c, X)[0], None)
    for y in (gt.map(bessel, X), gt.scan(inner, A, X)[0]):
        with pytest.raises(graphc.GraphError, match="jax cannot run it") as e:
            graphc.function([A, X], [y, A], jit=jit)
        assert "kv: jax cannot run it: JAX has no Bessel functions" in str(e.value)
        assert "test_loops_refused.py" in str(e.value)
        found, _ = graphc.function([A, X], [y, A], backend="numpy")(1.0, FIVE)
        assert np.isfinite(found).all()


def test_options_of_loops():
    less = lambda c: c < 3
    more = lambda c: c + 1
    loop = lambda **options: refusal(lambda: gt.while_loop(less, more, A, **options))
    text = loop(max_steps=3, on_exceeded="ignore")
    assert "got: on_exceeded='ignore'\n  expected: 'raise' or 'flag'" in text
    text = loop(on_exceeded="flag")
    assert "never too many steps\n  hint: give max_steps=" in text
    assert "number of steps is negative\n  got: max_steps=-1" in loop(max_steps=-1)
    text = loop(collect=True)
    assert "must return a pair: the next carry, and an output\n  got: Value" in text
    for unroll in (0, -1, 1.5, "all"):
        text = refusal(lambda: gt.scan(summed, A, X, unroll=unroll))
        assert "unroll must be a positive number of steps, or True" in text
    text = refusal(lambda: gt.scan(summed, A, X, until=lambda c, y: c < X))
    assert "scan: the condition must be a scalar" in text
    for size in (0, -2):
        text = refusal(lambda: gt.map(lambda v: v, X, batch_size=size))
        assert "a batch must have at least one element" in text
    for size in (1.5, True, N):
        text = refusal(lambda: gt.map(lambda v: v, X, batch_size=size))
        assert "the size of a batch must be an integer" in text
    for options in ({}, {"batch_size": 2}):
        text = refusal(lambda: gt.map(lambda v: v, A, **options))
        assert "map: a sequence needs an axis" in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_negative_number_of_steps_at_the_call(backend):
    y = gt.while_loop(lambda c: c < 3, lambda c: c + 1, A, max_steps=N)
    text = at_the_call([A, N], y, 1.0, -1, backend=backend)
    assert "the length must not be negative" in text and "got -1" in text
