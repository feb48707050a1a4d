"""Relations of sizes that a branch needs: only calls that take it raise errors."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.runtime.driver.failure import Program

X, Z = gt.vector("x"), gt.vector("z")
K, J = gt.scalar("k"), gt.iscalar("j")
MASKED = X[X > 1]

LEAVES = (
    lambda: X[3],
    lambda: (X + Z).sum(),
    lambda: gt.dot(X, Z) * K,
    lambda: gt.concatenate([X, Z])[4],
    lambda: X.reshape((J, -1)).sum(),
    lambda: X.sum(),
    lambda: MASKED[2],
)


def generated(rng, depth=2):
    """A function of nested branches, whose needs may or may not hold."""
    if not depth:
        return LEAVES[rng.integers(len(LEAVES))]
    branches = [generated(rng, depth - 1) for _ in range(rng.integers(2, 4))]
    n, kind = int(rng.integers(4)), rng.integers(4)

    def choice():
        if kind == 0:
            return gt.switch(gt.astype(K, "int32"), branches)
        test = (X.shape[0] > n, n < K, X.shape[0] == Z.shape[0])[kind - 1]
        return gt.cond(test, *branches[:2])

    return choice


def arguments(rng):
    n = int(rng.integers(7))
    m = n if rng.integers(2) else int(rng.integers(7))
    x, z = np.arange(n, dtype="float32"), np.ones(m, "float32")
    return x, z, np.float32(rng.integers(4)), np.int32(rng.integers(4))


def told(f, given):
    """The results, or the start of the message if the call is refused."""
    try:
        return [np.asarray(v) for v in f(*given)]
    except graphc.CallError as error:
        return str(error).partition(":")[0]


def compiled(outputs, **how):
    return graphc.function([X, Z, K, J], outputs, unused="ignore", **how)


@pytest.mark.parametrize("seed", (0, 1, 3))
@pytest.mark.parametrize("dims", ["specialize", graphc.Pad()])
def test_generated_branches_as_on_numpy(seed, dims):
    rng = np.random.default_rng(seed)
    y = generated(rng)()
    outputs = [y, graphc.grad(y, X, disconnected="zero")]
    expected = compiled(outputs, backend="numpy", dims="specialize")
    others = [compiled(outputs, backend=b, dims=dims) for b in ("numpy", "jax")]
    for given in [arguments(rng) for _ in range(3)] * 2:
        wanted = told(expected, given)
        for found in (told(f, given) for f in others):
            assert isinstance(found, str) == isinstance(wanted, str), (wanted, found)
            if isinstance(wanted, list):
                for a, b in zip(found, wanted, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-5)


def cases():
    return gt.cond(K > 1, lambda: X[4], lambda: (X + Z).sum())


@pytest.mark.parametrize("dims", ["specialize", graphc.Pad()])
def test_the_line_and_the_sizes_of_the_branch_that_is_taken(dims):
    f = graphc.function([X, Z, K], cases(), dims=dims)
    three, two = np.ones(3, "float32"), np.ones(2, "float32")
    for _ in range(2):
        assert f(three, three, 0.0) == 6
        with pytest.raises(graphc.CallError, match=r"needs 5 <= x_0; got 3\n.*test_br"):
            f(three, three, 2.0)
        with pytest.raises(graphc.CallError, match="needs x_0 == z_0; got 3 and 2"):
            f(three, two, 0.0)


def test_a_program_built_twice_is_the_same():
    """Nodes of the first one are alive, yet the second one's branches are as lazy."""
    first, second = (graphc.function([X, Z, K], y) for y in [cases(), cases()])
    assert first.source == second.source
    assert second(np.ones(3, "float32"), np.ones(3, "float32"), 0.0) == 6


def test_what_is_needed_outside_too_is_always_checked():
    y = gt.cond(K > 1, lambda: X[4] * 2, lambda: X.sum()) + X[4]
    f = graphc.function([X, K], y, dims="specialize")
    with pytest.raises(graphc.CallError, match="needs 5 <= x_0; got 3"):
        f(np.ones(3, "float32"), 0.0)


def test_sizes_that_fit_cost_nothing():
    """No flag leaves the program, and a call after a failure compiles nothing."""
    f = graphc.function([X, Z, K], cases(), dims="specialize")
    five = np.ones(5, "float32")
    assert f(five, five, 2.0) == 1
    assert not f.plan.glue and f.plan.reads == 0
    module = Program(f.source, "text", {}).load()
    assert type(module.segment_0(five, five, 2.0)) is not dict
    assert type(module.segment_0(five, five[1:], 2.0)) is dict
    f(five, five, 0.0)
    assert len(f.stats().compilations) == 1


@pytest.mark.parametrize("dims", ["specialize", graphc.Pad()])
def test_saved_programs(dims, tmp_path):
    path, saved = tmp_path / "saved.py", {}
    graphc.function([X, Z, K], cases(), dims=dims).save(path)
    exec(path.read_text(), saved)
    three = np.ones(3, "float32")
    assert saved["program"](three, three, 0.0) == 6
    with pytest.raises(saved["ProgramError"], match="needs 5 <= x_0; got 3"):
        saved["program"](three, three, 2.0)


def test_exports_of_sizes_that_fit_all_branches(tmp_path):
    f = graphc.function([X, Z, K], cases(), dims="specialize")
    f.export(tmp_path / "fits.zip", {"x_0": [5], "z_0": [5]})
    with pytest.raises(graphc.GraphError, match="does not fit the sizes that are exp"):
        f.export(tmp_path / "misfits.zip", {"x_0": [3], "z_0": [3]})


def test_programs_of_the_caller():
    """Without jit, the branch is known; if the caller traces it, all must fit."""
    f = graphc.function([X, Z, K], cases(), jit=False)
    three = np.ones(3, "float32")
    assert f(three, three, np.float32(0)) == 6
    with pytest.raises(graphc.CallError, match="needs 5 <= x_0"):
        f.jax.jit(f.jax_callable)(three, three, np.float32(0))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_choice_that_is_made_in_an_earlier_segment(backend):
    """The branches wait for a size that is read after the choice."""

    def some():
        _, sums = gt.scan(lambda c, v: (c + v, c), 0.0, X, until=lambda c, y: c > 2)
        return gt.cumsum(sums)[-1] + X[-1]

    y = gt.cond(K > 0, some, lambda: Z.sum())
    f = compiled([y], backend=backend, dims=graphc.Pad())
    none, ones = np.ones(0, "float32"), np.ones(4, "float32")
    assert [told(f, (ones, ones, k, 0)) for k in (0, 1)] == [[4], [4]]
    assert [told(f, (none, ones, k, 0)) for k in (0, 1)] == [[4], "index"]


def test_a_count_of_data_is_checked_in_a_padded_branch():
    y = gt.cond(K > 1, lambda: X[X > 0][4], lambda: X.sum())
    f = graphc.function([X, K], y, dims=graphc.Pad())
    x = np.array([1, 0, 1, 0, 0, 0], "float32")
    assert f(x, 0.0) == 2
    with pytest.raises(graphc.CallError, match="needs 5 <= count"):
        f(x, 2.0)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_sizes_of_0_divide_nothing_where_no_branch_is_taken(dims, backend):
    """They raise only in a branch that is taken: as numbers, as sizes, and in loops."""
    n, m = X.shape[0], Z.shape[0]

    def step(carry, v):
        return carry + gt.cond(v > 2, lambda: v * (n // m), lambda: v), None

    branches = [
        lambda: X.sum() * (n // m),
        lambda: X[: n // m].sum() + gt.sum(gt.arange(n % m, dtype="float32")),
        lambda: gt.fori_loop(0, n // m, lambda i, c: c + i, X[0]),
        lambda: gt.scan(step, 0.0, X)[0],
        lambda: X.sum(),
    ]
    y = gt.switch(J, branches)
    rows = gt.cond(J > 3, lambda: X, lambda: X[: n // m])
    f = graphc.function([X, Z, J], [y, rows], dims=dims, backend=backend)
    x, none, two = np.ones(5, "float32"), np.ones(0, "float32"), np.ones(2, "float32")
    assert [int(f(x, two, np.int32(i))[0]) for i in range(5)] == [10, 2, 2, 5, 5]
    assert [f(x, z, np.int32(4))[0] for z in (none, two)] == [5, 5]
    for i in range(4):
        with pytest.raises(graphc.CallError, match="is divided by zero"):
            f(x, none, np.int32(i))
    f = graphc.function([X, Z], branches[3](), dims=dims, backend=backend)
    assert f(x, none) == 5
    with pytest.raises(graphc.CallError, match="is divided by zero"):
        f(3 * x, none)


def test_a_check_of_sizes_belongs_to_its_branch():
    y = gt.cond(J > 0, lambda: gt.assert_(X.shape[0] > 2, "short", 1.0), lambda: 2.0)
    f = graphc.function([X, J], y)
    assert f(np.ones(2, "float32"), np.int32(0)) == 2
    with pytest.raises(graphc.CallError, match="short"):
        f(np.ones(2, "float32"), np.int32(1))
