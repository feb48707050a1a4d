"""Programs of the examples on meshes, compared with one device: run on eight devices.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m THIS MESH [NAME ...]

MESH is the number of one, or "all".

The sizes of their data are sharded: birds, letters of a line, recordings, nodes and
edges. The other examples have no size that varies, or are PyMC models.
"""

import runpy
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import jax
import numpy as np

import graphc
from graphc.ir.sizes.dims import Dim

FOLDER = Path(__file__).parents[3] / "examples"
MESHES = ({"data": 2}, {"data": 4}, {"data": 2, "model": 2}, {"data": 8})
ROWS = graphc.Shard("data", graphc.Pad(minimum=16))


def growing_gp(example, shard):
    x, y = example.load()
    predict, evidence = example.programs(shard or graphc.Pad(minimum=16))
    theta = np.array([0.3, 0.1, -0.5, -1.0])
    sizes = 0, 1, 13, 40
    seen = [predict(theta, x[:n], y[:n], x[n]) for n in sizes]
    return [predict, evidence], [*seen, *(evidence(theta, x[:n], y[:n]) for n in sizes)]


def penguins(example, shard):
    birds = example.load()
    x = np.stack([birds[name] for name in example.MEASURED], axis=1)
    group = np.unique(birds["species"], return_inverse=True)[1]
    f = graphc.function(*example.model())
    args = [x, birds["body_mass_g"], group, birds["island"] == "Dream"]
    return [f], [[*f(*(a[:n] for a in args), 3).values()] for n in (200, 333, 344)]


def penguins_rule(example, shard):
    birds = example.load()
    args = (
        birds["body_mass_g"],
        birds["flipper_length_mm"],
        birds["species"] == "Gentoo",
    )
    rules = (
        graphc.rewrites.default,
        graphc.rewrites.default + example.median_of_selected,
    )
    programs = [graphc.function(*example.model(), rewrites=r) for r in rules]
    return programs, [f(*(a[-n:] for a in args)) for f in programs for n in (201, 333)]


def penguins_sex(example, shard):
    f = example.compiled("jax")
    theta = np.random.default_rng(0).normal(size=example.SIZE) / 4
    return [f], [f(theta, *(a[:n] for a in example.load())) for n in (99, 344)]


def lines_of_text(example, shard):
    batch, one = example.compiled()
    rng = np.random.default_rng(0)
    shapes = example.SHAPES.values()
    p = [rng.normal(0, 0.3, shape).astype("float32") for shape in shapes]
    lines = example.lines()[:9]
    value, slopes = batch(*p, lines)
    costs = [one(*p, line) for line in lines[:4]]
    return [batch.function, one], [value, *slopes.values(), *costs]


def series_likelihood(example, shard):
    f = example.compiled()
    return [f.function], [f(example.START, example.recordings(n)) for n in (5, 9)]


def unicode_names(example, shard):
    train, read = example.programs()
    rng = np.random.default_rng(0)
    shapes = example.SHAPES.values()
    p = [rng.normal(0, 0.3, shape).astype("float32") for shape in shapes]
    names = example.names()[:9]
    value, slopes = train(*p, names)
    surprises = [read(*p, name) for name in names[:3]]
    return [train.function, read], [value, *slopes.values(), *surprises]


def words_apart(example, shard):
    sentences, seen = example.texts()
    data = [example.encoded(words, seen) for words in sentences[:3]]
    learn, answer = example.compiled("jax")
    weights = np.array([0.5, -3.0, -1.0, 0.1])
    results = [learn(weights, *one) for one in data]
    return [learn, answer], results + [answer(weights, one[0]) for one in data]


def penguins_of_groups(example, shard):
    shapes = {"offset": "", "slopes": "3"}, "n 4"
    f = graphc.jit(example.fit, shapes=shapes) if shard else jax.jit(example.fit)
    start = {"slopes": np.zeros(3, "float32"), "offset": np.float32(0)}
    some = list(example.groups().values())[:3]
    return [f], [jax.tree.leaves(f(start, birds)) for birds in some]


def recurrent_lines(example, shard):
    model = example.Reader(jax.random.key(0))
    state = example.OPTIMISER.init(example.eqx.filter(model, example.eqx.is_array))
    leaves = [np.shape(leaf) for leaf in jax.tree.leaves((model, state))]
    shapes = ", ".join([*(" ".join(map(str, shape)) for shape in leaves), "n"])
    f = graphc.jit(example.step, shapes=shapes) if shard else jax.jit(example.step)
    some = example.lines()[:3]
    return [f], [jax.tree.leaves(f(model, state, line)) for line in some]


def source_graphs(example, shard):
    p = example.start()
    shapes = {n: " ".join(map(str, a.shape)) for n, a in p.items()}
    shapes = shapes, type(example.samples()[0])("nodes", "edges", "edges", "")
    f = graphc.jit(example.step, shapes=shapes) if shard else jax.jit(example.step)
    return [f], [jax.tree.leaves(f(p, graph)) for graph in example.samples()[:3]]


EXAMPLES: dict[Callable[..., object], tuple[str, ...]] = {
    **dict.fromkeys([growing_gp, penguins_rule, penguins_sex, lines_of_text], ("n",)),
    **dict.fromkeys([series_likelihood, unicode_names, recurrent_lines], ("n",)),
    **dict.fromkeys([penguins_of_groups, penguins], ("n",)),
    words_apart: ("letters", "words"),
    source_graphs: ("nodes", "edges"),
}
REFUSED = {penguins: "sum: the size n cannot be padded here: "}


def along(dims, inputs):
    """The policies for those sizes that occur in the inputs of a graph."""
    sizes = [n for v in inputs for n in v.type.shape if isinstance(n, Dim)]
    present = {s.name for n in sizes for s in n.symbols}
    return {name: policy for name, policy in dims.items() if name in present}


def sharded(run, axes):
    """A context in which the sizes of an example are sharded over such a mesh."""
    names = EXAMPLES[run]
    over = [*axes, "data"][: len(names)]
    dims = {n: graphc.Shard(axis) for n, axis in zip(names, over, strict=True)}
    function, jit, ragged = graphc.function, graphc.jit, graphc.ragged

    def on_mesh(inputs, outputs, **options):
        options = {"dims": along(dims, inputs)} | options
        return function(inputs, outputs, **options)

    stack = ExitStack()
    stack.enter_context(jax.set_mesh(graphc.mesh(**axes)))
    for name, patched in (
        *(("function", on_mesh), ("jit", partial(jit, dims=dims))),
        ("ragged", partial(ragged, shard=graphc.Shard("data"))),
    ):
        stack.enter_context(mock.patch.object(graphc, name, patched))
    return stack


def compared(run, axes):
    """The sharded programs of an example, after comparing results with one device."""
    example = SimpleNamespace(**runpy.run_path(str(FOLDER / f"{run.__name__}.py")))
    try:
        with sharded(run, axes):
            programs, results = run(example, ROWS)
    except graphc.GraphError as error:
        assert run in REFUSED and str(error).startswith(REFUSED[run]), str(error)
        return []
    _, expected = run(example, None)
    leaves = zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True)
    for ours, theirs in leaves:
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    return programs


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    number, *names = sys.argv[1:]
    meshes = MESHES if number == "all" else [MESHES[int(number)]]
    for run in EXAMPLES:
        if run.__name__ in names or not names:
            for axes in meshes:
                compared(run, axes)
