"""Results belong to the caller: writing to them or to arguments affects no other."""

import builtins
import importlib.util
import warnings

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.aliasing import copied_outputs
from graphc.backends.source import PrintedBody
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.op import PRIMITIVES, nothing
from graphc.ir.graph.walk import ancestors
from tests.ops.sampling import Batch, Trial, flat, trial
from tests.ops.test_samples import FAMILIES, telling

F32 = np.float32
X = gt.tensor("x", "float32", ("n",))
M = gt.tensor("m", "float32", (3, "k"))
S = gt.tensor("s", "float32", ())
Z = gt.tensor("z", "complex64", ("n",))
ONE = {"x": np.arange(1, 6, dtype="float32"), "s": np.float32(2)}
ARRAYS = ONE | {
    "m": np.arange(6, dtype="float32").reshape(3, 2),
    "z": np.arange(5, dtype="complex64") + 1j,
}
C = np.arange(5, dtype="float32")
LONG = np.arange(24, dtype="float32").reshape(4, 6)  # long enough to print as bytes


def either(outputs):
    """Return the first or the second output, by a branch on `s`."""
    return gt.cond(S > 0, lambda: outputs[0], lambda: outputs[1])


CASES = {
    "constant": lambda: [gt.stack([C, C]), gt.asarray(C), gt.asarray(LONG)],
    "constant_reversed": lambda: gt.asarray(C)[::-1],
    "constant_reshaped": lambda: gt.reshape(C, (5, 1)),
    "constant_times_one": lambda: gt.asarray(LONG) * 1,
    "constant_transposed": lambda: gt.transpose(gt.asarray(LONG)),
    "constant_broadcast": lambda: gt.broadcast_to(C, (3, 5)),
    "argument": lambda: X,
    "argument_sliced": lambda: [X[1:], X[::-1], X[::2], X[None]],
    "argument_flipped": lambda: gt.flip(X),
    "argument_clipped": lambda: [gt.clip(X, None, None), gt.where(True, X, 0)],
    "argument_row": lambda: [M[1], M[:, 0], M[gt.argmin(X)], gt.diagonal(M)],
    "argument_split": lambda: gt.split(M, 3),
    "argument_einsum": lambda: [gt.einsum("ij->ji", M), gt.einsum("ij->i", M)],
    "argument_parts": lambda: [gt.real(Z), gt.imag(Z), gt.conj(Z)],
    "argument_broadcast": lambda: [gt.broadcast_to(X, (2, X.shape[0]))],
    "argument_passed": lambda: [gt.stop_gradient(X), gt.assert_(S > 0, "negative", X)],
    "argument_guarded": lambda: gt._at_most(1, X.shape[0], "is empty", X, "first"),
    "scalar_broadcast": lambda: [gt.broadcast_to(S, (4,)), gt.reshape(S, (1,)), S],
    "one_twice": lambda: [X + 1, X + 1],
    "views_of_one": lambda: [(X + 1)[1:], (X + 1)[::-1], X + 1],
    "stretched": lambda: gt.broadcast_arrays(X + 1, gt.expand_dims(X, 1) + 1),
    "dict": lambda: {"a": X, "b": {"c": (X, [X + 1, X + 1]), "d": ()}},
    "branch_input": lambda: either([X, X + 1]),
    "branch_constant": lambda: [either([gt.asarray(C), X]), either([X, X])],
    "branch_twice": lambda: gt.cond(
        S > 0, lambda: (X * 2, (X * 2)[::-1]), lambda: (X, X)
    ),
    "loop_no_step": lambda: gt.fori_loop(0, 0 * X.shape[0], lambda i, v: v + 1, X),
    "loop_captures": lambda: gt.fori_loop(0, 2, lambda i, v: X, X + 1),
    "loop_swaps": lambda: gt.fori_loop(0, 3, lambda i, v: (v[1], v[0]), (X, X + 1)),
    "loop_row": lambda: gt.scan(lambda c, row: (row, c), M[0], M),
    "loop_constant": lambda: gt.scan(lambda c, a: (gt.asarray(C), c), gt.asarray(C), X),
    "loop_stops": lambda: gt.while_loop(
        lambda v: v[0] < 0, lambda v: (v[0] + 1, v[1][::-1]), (S, X)
    ),
    "bessel": lambda: [gt.special.jv(X, X), gt.special.jv(X, X)[1:]],
}


def inputs_of(outputs):
    """Return the variables that the outputs need, and arrays for them."""
    needed = {v.name for v in needed_by(outputs)}
    variables = [v for v in (X, S, M, Z) if v.name in needed]
    return variables, [ARRAYS[v.name] for v in variables]


def needed_by(outputs):
    nodes = ancestors([gt.asarray(v) for v in flat(outputs)])
    return [v for n in nodes for v in n.outputs if n.primitive.name == "input"]


def aligned(array):
    """Copy the array to an address that XLA can use without a copy of its own."""
    room = np.zeros(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    own = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    own[...] = array
    return own


def unsound(result, others):
    """Say why an array is not the caller's own to write to; "" if it is."""
    if not result.flags.writeable:
        return "is read-only"
    written = np.resize([1, 0], result.shape).astype(result.dtype)
    result[...] = written
    if not np.array_equal(result, written):
        return "has one element in many places"
    shared = any(np.shares_memory(result, other) for other in others)
    return "shares memory" if shared else ""


def disturbed(call, arguments):
    """List what a caller finds wrong after writing to all arguments and results."""
    given = [aligned(np.asarray(a)) for a in arguments]
    first = flat(call(*given))
    for argument in given:  # at once, when XLA may not even have begun
        argument[...] = 77
    before = [np.array(r) for r in first]
    own = [r for r in first if isinstance(r, np.ndarray)]
    found = [unsound(r, [*own[:i], *given]) for i, r in enumerate(own)]
    problems = [f"result {i} {text}" for i, text in enumerate(found) if text]
    again = flat(call(*[aligned(np.asarray(a)) for a in arguments]))
    for i, (old, new) in enumerate(zip(before, again, strict=True)):
        if not np.array_equal(old, np.asarray(new), equal_nan=old.dtype.kind in "fc"):
            problems.append(f"result {i} is {new}, not {old} as before")
    return problems


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dims", [None, "pad"], ids=["exact", "padded"])
def test_writing_changes_nothing_else_on_numpy(case, dims):
    outputs = CASES[case]()
    variables, arrays = inputs_of(outputs)
    f = graphc.function(variables, outputs, backend="numpy", dims=dims)
    assert disturbed(f, arrays) == []


def test_writing_changes_nothing_else_in_saved_programs(tmp_path):
    for case, build in CASES.items():
        variables, arrays = inputs_of(build())
        f = graphc.function(variables, build(), backend="numpy")
        f.save(tmp_path / f"{case}.py")
        program = loaded(tmp_path / f"{case}.py").program
        assert disturbed(program, arrays) == [], case


def loaded(path):
    """Import a saved program and return its module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_jax(more=()):
    """The cases in which JAX might return an argument itself, with inputs."""
    cases = ["argument", "argument_flipped", "branch_input", "loop_row", "dict"]
    outputs = [*more, *(CASES[case]() for case in cases)]
    return outputs, *inputs_of(outputs)


@pytest.mark.parametrize("more", [(), (gt.flatnonzero(X > 1),)], ids=["one", "driver"])
@pytest.mark.parametrize(
    "dims", [None, {"n": "pad", "k": "pad"}], ids=["exact", "padded"]
)
def test_writing_to_arguments_changes_nothing_on_jax(more, dims):
    outputs, variables, arrays = on_jax(more)
    f = graphc.function(variables, outputs, dims=dims)
    assert len(f.plan.segments) == 1 + len(more)
    assert disturbed(f, arrays) == []


def test_writing_to_arguments_changes_nothing_without_jit():
    outputs, variables, arrays = on_jax()
    f = graphc.function(variables, outputs, jit=False)
    assert disturbed(f, arrays) == []
    assert disturbed(f.jax_callable, arrays) == []


def test_saved_programs_of_jax_give_no_argument_away(tmp_path):
    outputs, variables, arrays = on_jax([gt.flatnonzero(X > 1)])
    graphc.function(variables, outputs).save(tmp_path / "saved.py")
    assert disturbed(loaded(tmp_path / "saved.py").program, arrays) == []


def test_arguments_may_be_written_to_while_jax_computes():
    x = gt.tensor("x", "float32", ("n", "n"))
    f = graphc.function([x], x @ x @ x @ x)
    for _ in range(5):
        given = np.full((300, 300), 1 / 300, "float32")
        result = f(given)
        given[...] = 0
        assert np.allclose(result, 1 / 300)


def test_results_that_numpy_computed_are_arrays_of_jax():
    f = graphc.function([X], CASES["bessel"]())
    assert all(isinstance(r, jax.Array) for r in f(ONE["x"]))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_writing_to_a_default_changes_no_call(backend):
    default = ONE["x"].copy()
    f = graphc.function([graphc.Input(X, default=default)], X * 1, backend=backend)
    default[...] = 0
    first = f()
    if backend == "numpy":
        first[...] = 0
    assert np.array_equal(f(), ONE["x"])


def test_writing_changes_nothing_else_in_tiers():
    outputs = [X, CASES["constant_reversed"](), X + 1, X + 1, gt.flip(X + 1)]
    f = graphc.function([X], outputs, tier="auto")
    for _ in range(3):
        assert disturbed(f, [ONE["x"]]) == []


def test_writing_changes_nothing_else_in_ragged_batches():
    outputs = [X, S * X, gt.asarray(C), S, X + 1, X + 1]
    f = graphc.ragged([X, S], outputs, shared=[S], backend="numpy")
    given = [ONE["x"].copy(), ONE["x"][:2].copy()]
    first = [np.array(r) for r in flat(f(given, F32(2)))]
    for array in [*given, *flat(f(given, F32(2)))]:
        if isinstance(array, np.ndarray):  # others are scalars
            array[...] = 0
    given = [ONE["x"], ONE["x"][:2]]
    for old, new in zip(first, flat(f(given, F32(2))), strict=True):
        assert np.array_equal(old, new)


OWN = {
    "arithmetic": lambda: [X + 1, X * X],
    "update": lambda: X.at[0].set(1),
    "parts": lambda: [gt.sum(X), X[0], gt.concatenate([X, X])],
    "gather": lambda: [X[gt.asarray([0, 1])], M[:, gt.asarray([0, 1])]],
    "intermediate": lambda: gt.reshape(X + 1, (1, -1)),
    "loop": lambda: gt.scan(lambda c, a: (c + a, c), gt.zeros(5, "float32"), C),
    "branch": lambda: either([X + 1, X * 2]),
    "product": lambda: gt.einsum("ij,kj->ik", M, M),
}


@pytest.mark.parametrize("case", OWN)
def test_what_nobody_else_has_is_not_copied(case):
    variables, _ = inputs_of(OWN[case]())
    source = graphc.function(variables, OWN[case](), backend="numpy").source
    returned = source[: source.index("def check_inputs")].splitlines()
    (line,) = [text for text in returned if text.startswith("    return ")]
    assert "np.asarray(" in line
    assert "np.array(" not in line


def test_a_whole_array_is_handed_out_sooner_than_its_part():
    y = X + 1
    outputs = y[1:], y, y, X, y[::-1], X * 2
    graph = Graph((X,), outputs, ("x",), ("",) * len(outputs))
    assert copied_outputs(graph) == {0, 2, 3, 4}


def test_many_views_of_one_array_take_no_long_time():
    views = [X + 1]
    while len(views) < 5000:
        views.append(views[-1][::-1])
    graph = Graph((X,), tuple(views), ("x",), ("",) * len(views))
    assert copied_outputs(graph) == set(range(1, 5000))


def test_nothing_is_copied_inside_of_jitted_programs():
    source = graphc.function([X], [X, X + 1]).source
    assert "np.array(" not in source
    assert "to_jax" not in source


class Watched:
    """Makes NumPy programs check each node's outputs for undeclared views."""

    def __init__(self, monkeypatch):
        self.seen, self.views, self.problems = [], set(), []
        monkeypatch.setattr(builtins, "WATCHED", self.look, raising=False)
        plain = PrintedBody.node

        def node(body, given):
            plain(body, given)
            if not given.primitive.inline and body.backend == "numpy":
                values = given.outputs, given.inputs
                names = [", ".join(map(body.value, some)) for some in values]
                body.line(f"WATCHED({len(self.seen)}, [{names[0]}], [{names[1]}])")
                self.seen.append(given)

        monkeypatch.setattr(PrintedBody, "node", node)

    def look(self, number, outputs, inputs):
        node = self.seen[number]
        allowed = set(node.primitive.views(node))
        for output, value in zip(node.outputs, outputs, strict=True):
            for input, array in zip(node.inputs, inputs, strict=True):
                arrays = isinstance(value, np.ndarray) and isinstance(array, np.ndarray)
                if arrays and np.may_share_memory(value, array):
                    self.views.add(node.primitive.name)
                    if (output, input) not in allowed:
                        self.problems.append(f"{node.primitive.name} gives a view")


def batches():
    """Yield the most telling call of each sample, in two dtypes, some symbolic."""
    for family, samples in FAMILIES.items():
        for dtype in ("float32", "complex64"):
            yield batch_of(samples, dtype, lambda *given: Trial(*given, [], None))
        if family in ("index", "linalg", "shapes"):
            yield batch_of(samples, "float32", trial, symbolic=True)


def batch_of(samples, dtype, tried, symbolic=False):
    """Put samples into one batch, which is compiled as one function."""
    batch = Batch(dtype, symbolic)
    for sample in samples:
        if dtype in sample.dtypes and not (symbolic and sample.static):
            batch.add(tried(sample, telling(sample).calls[0], dtype))
    return batch


UNSEEN = {
    "barrier": "it stands in gradients",
    "pinned": "it stands in gradients",
    "fitted": "it stands in branches",
    "steps": "it is a scalar, as a loop has counted it",
    "rows": "it takes a list of pieces",
    "scan": "its values are in bodies",
    "growing": "its values are in bodies",
    "switch": "its values are in bodies",
    "blocks": "its values are in bodies",
    "call": "its values are in bodies",
}


def test_samples_give_what_is_the_callers_own(monkeypatch):
    """Each op must also declare the views it gives, and no views that it doesn't."""
    watched = Watched(monkeypatch)
    problems = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in batches():
            f = graphc.function(batch.inputs, batch.outputs, backend="numpy")
            problems += disturbed(f, batch.arrays)
    for case in ("argument_row", "argument_guarded"):
        variables, arrays = inputs_of(CASES[case]())
        f = graphc.function(variables, CASES[case](), backend="numpy")
        problems += disturbed(f, arrays)
    assert problems == []
    assert watched.problems == []
    declared = {p.name for p in PRIMITIVES.values() if p.views is not nothing}
    assert declared - watched.views == UNSEEN.keys()


@pytest.mark.parametrize("offset", [0, 4, 16])
def test_small_arguments_may_be_overwritten_at_once(offset):
    """JAX may read aligned arguments after the call returns, unless copied."""
    x = gt.vector("x")
    f = graphc.function([x], gt.sum(gt.sin(x) * 0 + x), dims="specialize")
    room = np.empty(4 * 3900 + 128, "uint8")
    start = -room.__array_interface__["data"][0] % 64 + offset
    array = np.ndarray((3900,), "float32", room, start)
    for _ in range(50):
        array[...] = 1
        total = f(array)
        array[...] = 2
        assert float(total) == 3900
