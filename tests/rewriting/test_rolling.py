"""Repeated blocks become scans with the same values and gradients."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.walk import ancestors
from graphc.rewrites import Rules, rewritten, rolling
from graphc.rewriting.loops.roll import chains as rolling_chains

EXAMPLES = int(os.environ.get("GRAPHC_EXAMPLES", "25"))
ALWAYS = Rules((rolling(least_saved=0, least_work=0),))


def rolled(inputs, outputs):
    """The outputs after the rule, and the number of times it applied."""
    names = tuple(v.name for v in inputs), ("",) * len(outputs)
    found = rewritten(Graph(tuple(inputs), tuple(outputs), *names), ALWAYS)
    return list(found.graph.outputs), len(found.log)


def scans(outputs):
    """The lengths of the scans in a graph, in ascending order."""
    nodes = [n for n in ancestors(outputs) if n.primitive.name == "scan"]
    return sorted(n.params["length"] for n in nodes)


def agree(inputs, outputs, arrays):
    """Compare a graph before and after the rule, on NumPy."""
    new, _ = rolled(inputs, outputs)
    kwargs = {"backend": "numpy", "unused": "ignore"}
    expected = graphc.function(inputs, outputs, rewrites=Rules(), **kwargs)(*arrays)
    found = graphc.function(inputs, new, rewrites=Rules(), **kwargs)(*arrays)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    return new


def parameters(count, shape, name="w"):
    return [gt.tensor(f"{name}{i}", "float64", shape) for i in range(count)]


def arrays_of(values, n=3):
    rng = np.random.default_rng(0)
    shapes = [v.type.shape for v in values]
    sizes = [[m if isinstance(m, int) else n for m in shape] for shape in shapes]
    return [rng.normal(size=s) for s in sizes]


def test_layers_and_their_gradients_are_two_scans():
    x, ws = gt.tensor("x", "float64", ("n", 64)), parameters(6, (64, 64))
    y = x
    for w in ws:
        y = y + gt.tanh(y @ w)
    loss = gt.sum(y * y)
    outputs = [loss, *graphc.grad(loss, [x, *ws])]
    new = agree([x, *ws], outputs, arrays_of([x, *ws]))
    assert scans(new) == [6, 6]
    stacks = [n for n in ancestors(new) if n.primitive.name == "stack"]
    assert sum(ws[3] in set(n.inputs) for n in stacks) == 1


@pytest.mark.parametrize("longer", [0, 1])
def test_of_two_chains_each_may_be_the_longer(longer):
    """The longer chain becomes a scan first, also if it reads the other's result."""
    x, ws = gt.tensor("x", "float64", ("n", 4)), parameters(12, (4, 4))
    steps = [lambda y, w: gt.tanh(y @ w), lambda y, w: y + gt.sin(gt.cos(y @ w)) * 2]
    y = x
    for w in ws[:6]:
        y = steps[longer](y, w)
    y = gt.flip(y, 1)
    for w in ws[6:]:
        y = steps[1 - longer](y, w)
    new = agree([x, *ws], [y], arrays_of([x, *ws]))
    assert len(scans(new)) == 2


def test_gradients_of_many_parameters_are_slices_of_one_array():
    """No loop carries them one by one, whatever else the loop reduces."""
    x, ws = gt.tensor("x", "float32", (64, 64)), parameters(6, (64, 64))
    y = x
    for w in ws:
        y = gt.tanh(y @ gt.astype(w, "float32"))
    loss = gt.sum(y * y)
    outputs, count = rolled([x, *ws], [loss, *graphc.grad(loss, ws)])
    assert count == 2
    again = graphc.function([x, *ws], outputs, backend="numpy")
    assert "scan_in_chunks" not in [entry.rule.name for entry in again.rewrites]


def stepped(p, g, state):
    """A parameter after a step with momentum, or without it if there is no state."""
    if state is None:
        return [p - 0.01 * g]
    m = 0.9 * state + 0.1 * g
    return [p - 0.01 * m / (gt.sqrt(g * 0.5 * g) + 1), m]


def test_gradients_of_scales_are_summed_in_the_loop():
    """Their products read what the first loop stacks; nothing is stacked for them."""
    x, ws = gt.tensor("x", "float64", ("n", 8)), parameters(6, (8, 8))
    scales, y = parameters(6, (8,), "g"), x
    for w, g in zip(ws, scales, strict=True):
        y = y + gt.tanh(y * g @ w)
    loss = gt.sum(y * y)
    inputs = [x, *ws, *scales]
    outputs = [loss, *graphc.grad(loss, [*ws, *scales])]
    new = agree(inputs, outputs, arrays_of(inputs))
    products = [n for n in ancestors(new) if n.primitive.name == "multiply"]
    assert len(products) < len(scales)


def test_late_work_makes_no_chain_longer():
    """Slopes are for the second chain alone; both chains begin with the first block."""
    x, ws = gt.tensor("x", "float64", ("n", 8)), parameters(16, (8, 8))
    y, slopes = x, []
    for w in ws:
        t = gt.tanh(y @ w)
        slopes.append(1 - t)
        y = y + t
    z = y
    for w, slope in zip(reversed(ws), reversed(slopes), strict=True):
        z = (z * slope) @ w
    new = agree([x, *ws], [z], arrays_of([x, *ws]))
    assert scans(new) == [16, 16]


def test_of_equal_chains_the_one_that_copies_least_is_taken():
    x, ws = gt.tensor("x", "float64", ("n", 8)), parameters(6, (8, 8))
    masks, y = parameters(6, (8,), "m"), x
    for w, m in zip(ws, masks, strict=True):
        y = y + gt.where(m > 0, gt.tanh(y @ w), 0)
    loss = gt.sum(y * y)
    inputs = [x, *ws, *masks]
    new = agree(inputs, [loss, *graphc.grad(loss, ws)], arrays_of(inputs))
    stacks = [n for n in ancestors(new) if n.primitive.name == "stack"]
    assert len(stacks) == 2  # of the parameters, and of the masks


def test_updates_of_what_the_first_loop_is_given_are_done_in_the_second():
    """Biases are updated there too, although the gradients do not read them."""
    x, ws = gt.tensor("x", "float64", ("n", 8)), parameters(6, (8, 8))
    biases, y = parameters(6, (8,), "b"), x
    for w, b in zip(ws, biases, strict=True):
        y = y + gt.tanh(y @ w + b)
    params = [*ws, *biases]
    slopes = graphc.grad(gt.sum(y * y), params)
    updated = [p - 0.1 * slope for p, slope in zip(params, slopes, strict=True)]
    new = agree([x, *params], updated, arrays_of([x, *params]))
    products = [n for n in ancestors(new) if n.primitive.name == "multiply"]
    assert len(products) < len(biases)


@pytest.mark.parametrize("state", [False, True])
def test_state_of_an_optimizer_is_not_stacked(state):
    """Stateless updates are made in the loop, others after it from its gradients."""
    x, ws = gt.tensor("x", "float64", ("n", 4)), parameters(6, (4, 4))
    ms = parameters(6, (4, 4), "m") if state else [None] * 6
    y = x
    for w in ws:
        y = y + gt.tanh(y @ w)
    loss = gt.sum(y * y)
    steps = zip(ws, graphc.grad(loss, ws), ms, strict=True)
    outputs = [loss, *(v for w, g, m in steps for v in stepped(w, g, m))]
    inputs = [x, *ws, *ms] if state else [x, *ws]
    new = agree(inputs, outputs, arrays_of(inputs))
    assert scans(new) == [5, 6]  # the first block lacks the gradient of x
    nodes = ancestors(new)
    stacked = {v for n in nodes if n.primitive.name == "stack" for v in n.inputs}
    assert stacked == set(ws)
    updates = [n for n in nodes if n.primitive.name == "subtract"]
    assert sum(n.inputs[0] in set(ws) for n in updates) == (6 if state else 1)
    back = [n for n in nodes if n.primitive.name == "scan"][-1]
    assert len(back.outputs) == 2  # the carry, and the gradients or results


def test_elementwise_work_that_makes_results_smaller_stays_in_the_loop():
    x, ws = gt.tensor("x", "float64", ("n", 4)), parameters(6, (4, 4))
    y, found = x, []
    for w in ws:
        y = y + gt.tanh(y @ w)
        found.append(gt.astype(gt.exp(y), "float16"))
    outputs = [y, *(2 * gt.cos(z) for z in found[:-1]), found[-1]]
    new = agree([x, *ws], outputs, arrays_of([x, *ws]))
    assert scans(new) == [5]
    taken = [n for n in ancestors(new) if n.primitive.name == "basic_index"]
    assert {n.outputs[0].dtype.name for n in taken} == {"float16"}


def test_a_carry_that_is_not_the_last_node_of_a_block():
    """As in an LSTM, two values are carried and only one is an output."""
    x, ws = gt.tensor("x", "float64", ("n", 4)), parameters(7, (4, 4))
    h, c = gt.zeros_like(x), gt.zeros_like(x)
    for w in ws:
        gate = gt.special.expit(h @ w + x)
        c = gate * c + (1 - gate) * gt.tanh(h - x)
        h = gate * gt.tanh(c)
    new = agree([x, *ws], [h], arrays_of([x, *ws]))
    assert len(scans(new)) == 1
    loss = gt.sum(h**2)
    agree([x, *ws], [loss, *graphc.grad(loss, [x, *ws])], arrays_of([x, *ws]))


def test_all_results_of_all_blocks_stay_available():
    x, ws = gt.tensor("x", "float64", ("n", 3)), parameters(5, (3, 3))
    kept, y = [], x
    for w in ws:
        z = gt.exp(-y @ w)
        y = gt.sin(z) + w[0]
        kept += [y, z]
    new = agree([x, *ws], [*kept, kept[4] + kept[-1]], arrays_of([x, *ws]))
    assert scans(new) == [5]


def test_what_is_given_as_slices_is_not_stacked_again():
    x, w = gt.tensor("x", "float64", ("n", 3)), gt.tensor("w", "float64", (5, 3, 3))
    y = x
    for i in range(5):
        y = gt.sin(y) @ w[i]
    new = agree([x, w], [y], arrays_of([x, w]))
    assert scans(new) == [5]
    backwards = x
    for i in reversed(range(5)):
        backwards = gt.sin(backwards) @ w[i]
    (out,) = agree([x, w], [backwards], arrays_of([x, w]))
    assert scans([out]) == [5]
    f = graphc.function([x, w], out, rewrites=Rules(), backend="numpy")
    assert "stack" not in f.source.split("def scan")[0]


def test_each_run_of_values_is_put_together_once(monkeypatch):
    """Copying the values for each one that follows would take quadratic time."""
    copied, part = [0], rolling_chains._Run

    def counted(values, places=()):
        copied[0] += len(values)
        return part(values, places)

    monkeypatch.setattr(rolling_chains, "_Run", counted)
    x, y = gt.matrix("x", "float64"), gt.matrix("y", "float64")
    several = [gt.scalar(f"w{i}", "float64") for i in range(50)]
    row = [*(x[i] for i in range(50)), *several, *(y[i] for i in (3, 2, 1, 0, 1, 7))]
    parts = rolling_chains._runs_of(tuple(row))
    assert [v for p in parts for v in p.values] == row
    turned = (3, 2, 1, 0), (1,), (7,)
    assert [p.places for p in parts] == [tuple(range(50)), (), *turned]
    assert copied[0] == len(row)


def test_constants_that_differ_are_one_array():
    x = gt.tensor("x", "float64", ("n", 2))
    y = x
    for i in range(6):
        y = gt.cos(y @ np.full((2, 2), 0.1 * i)) * np.float64(i)
    new = agree([x], [y], arrays_of([x]))
    assert scans(new) == [6]


def test_python_numbers_that_differ():
    x, w = gt.tensor("x", "float32", ("n", 3)), np.ones((3, 3), "float32")
    y = x
    for i in range(6):
        y = gt.cos(y @ w * (0.1 * i)) + i
    (new,) = agree([x], [y], [np.linspace(0, 1, 6, dtype="float32").reshape(2, 3)])
    assert new.dtype == "float32"
    assert scans([new]) == [6]


@pytest.mark.parametrize("odd", [0, 3, 6])
def test_a_block_that_differs_stays_outside(odd):
    x, ws = gt.tensor("x", "float64", ("n", 4)), parameters(13, (4, 4))
    y = x
    for i, w in enumerate(ws):
        y = gt.tanh(y @ w)
        y = gt.exp(-y) if i == odd else y + gt.sin(y)
    new = agree([x, *ws], [y], arrays_of([x, *ws]))
    assert sum(scans(new)) >= 6


def test_other_widths_stay_outside():
    x = gt.tensor("x", "float64", ("n", 4))
    between = parameters(1, (4, 7), "between")
    ws = [*parameters(5, (4, 4)), *between, *parameters(5, (7, 7), "v")]
    y = x
    for w in ws:
        y = gt.tanh(y @ w) * 2
    new = agree([x, *ws], [y], arrays_of([x, *ws]))
    assert scans(new) == [5, 5]


@pytest.mark.parametrize("last", [0.5, 0.25])
def test_loops_within_blocks_are_compared_by_their_bodies(last):
    x, ws = gt.tensor("x", "float64", (70, 4)), parameters(6, (4, 4))
    y = x
    for i, w in enumerate(ws):
        y = gt.tanh(y @ w)
        kept = last if i == 5 else 0.5

        def step(carry, row, kept=kept):
            return gt.sin(carry * kept + row), carry * 2

        end, rows = gt.scan(step, gt.zeros((4,), "float64"), y)
        y = rows + end
    arrays = arrays_of([x, *ws])
    (new,) = agree([x, *ws], [y], arrays)
    assert scans([new]) == ([6] if last == 0.5 else [5, 70])
    loss = gt.sum(y * y)
    agree([x, *ws], [loss, *graphc.grad(loss, ws)], arrays)


def test_parallel_parts_are_no_chain():
    x, ws = gt.tensor("x", "float64", ("n", 4)), parameters(8, (4, 4))
    heads = [gt.tanh(x @ w) for w in ws]
    new = agree([x, *ws], [sum(heads[1:], heads[0]), *heads], arrays_of([x, *ws]))
    assert all(n <= 8 for n in scans(new))


def test_sizes_that_depend_on_data_within_a_block_stay_outside():
    x = gt.tensor("x", "float64", ("n",))
    y = x
    for _ in range(6):
        y = y[y > 0.1] * 0.5 + gt.sum(y)
    new = agree([x], [y], [np.linspace(0, 1, 7)])
    assert scans(new) == []


def test_a_size_that_depends_on_data_and_is_one_for_all_blocks():
    x, w = gt.tensor("x", "float64", ("n", 3)), np.ones((3, 3))
    y = x[x[:, 0] > 0.1]
    for _ in range(6):
        y = gt.sin(y @ w) + gt.sum(y)
    new = agree([x], [y], [np.linspace(0, 1, 9).reshape(3, 3)])
    assert scans(new) == [6]


def test_checks_stay_outside():
    x, w = gt.tensor("x", "float64", (7,)), np.ones((7, 7))
    y = x
    for _ in range(6):
        y = gt.sin(gt.assert_(gt.all(y @ w > -99), "small", y))
    new = agree([x], [y], [np.linspace(0, 1, 7)])
    assert scans(new) == []


UNARY = (gt.sin, gt.tanh, lambda v: v * 0.5, lambda v: -v, lambda v: gt.flip(v, 0))
BINARY = (gt.add, gt.multiply, gt.subtract, gt.maximum)


@st.composite
def chains(draw):
    """Draw inputs and outputs of a chain of blocks; one may differ a little."""
    count = draw(st.integers(4, 9))
    carries = draw(st.integers(1, 3))
    steps = draw(st.lists(st.tuples(*[st.integers(0, 20)] * 4), min_size=1, max_size=6))
    odd = draw(st.sampled_from([None, 0, count // 2, count - 1]))
    x = [gt.tensor(f"x{i}", "float64", ("n", 2)) for i in range(carries)]
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    ws = parameters(count, ())
    values, shown = list(x), []
    for i, w in enumerate(ws):
        pool = [*values, w, x[0]]
        for a, b, one, two in steps:
            left = UNARY[one % len(UNARY)](pool[a % len(pool)] + gt.zeros_like(x[0]))
            left = left @ turn
            pool.append(BINARY[two % len(BINARY)](left, pool[b % len(pool)]))
        if i == odd:
            pool.append(gt.cos(pool[-1]))
        values = (pool[-carries:] if len(pool) - 2 >= carries else pool)[:carries]
        values = [v + gt.zeros_like(x[0]) for v in values]
        if draw(st.booleans()):
            shown.append(pool[-1])
    outputs = [*values, *shown]
    if draw(st.booleans()):
        loss = sum(gt.sum(gt.sin(v)) for v in outputs)
        outputs += [loss, *graphc.grad(loss, [*x, *ws], disconnected="zero")]
    return [*x, *ws], outputs


@settings(deadline=None, max_examples=EXAMPLES)
@given(chains(), st.integers(0, 3))
def test_chains_of_blocks_agree(program, n):
    inputs, outputs = program
    agree(inputs, outputs, arrays_of(inputs, n))


def test_compiled_with_the_default_rules():
    """The chain is deep enough for the default: 40 blocks print no longer than 30."""

    def made(count):
        x, ws = gt.tensor("x", "float32", (64, 32)), []
        y = x
        for i in range(count):
            w = gt.tensor(f"w{i}", "float32", (32, 32))
            ws.append(w)
            for k in range(10):
                y = gt.tanh(y @ w) + 0.1 * gt.sin(y) + k
        return [x, *ws], gt.sum(y**2)

    lengths = {}
    for count in (30, 40):
        inputs, loss = made(count)
        f = graphc.function(inputs, loss)
        assert "repeated_blocks" in [a.rule.name for a in f.rewrites]
        lengths[count] = sum("tanh" in line for line in f.source.splitlines())
    assert lengths[30] == lengths[40] <= 12
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=v.type.shape).astype("float32") for v in inputs]
    plain = graphc.function(inputs, loss, backend="numpy")  # 40 blocks one by one
    np.testing.assert_allclose(f(*arrays), plain(*arrays), rtol=1e-3)


def test_numpy_programs_keep_their_blocks():
    x = gt.tensor("x", "float32", (3,))
    y = x
    for _ in range(12):
        y = y + 2 * y[np.array([1, 2, 0])]
    assert "scan" not in graphc.function([x], y, backend="numpy").source
    assert "scan" in graphc.function([x], y).source
