"""Functions of many kinds, and records for which nothing was compiled."""

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.show.records import (
    LineRecord,
    NodeRecord,
    PictureRecord,
    ProgramRecord,
    StepRecord,
    TypeRecord,
    ValueRecord,
)


def masked(**how):
    """Three segments with an integer read between them, and a static argument."""
    x = gt.tensor("x", "float32", ("n", 3))
    k = gt.iscalar("k")
    score = gt.log(1 + gt.sum(x.T.T * x, axis=1))
    kept = score[score > 1]
    best = gt.sort(kept, descending=True)[:k]
    return graphc.function([x, k], best, **how)


def padded():
    x = gt.tensor("x", "float32", ("n", 3))
    y = gt.tensor("y", "float32", ("m", 3))
    rows = gt.concatenate([x, y])
    policies = {"n": graphc.Pad(growth=1.5), "m": graphc.Pad(buckets=[4, 32])}
    return graphc.function([x, y], gt.mean(rows, axis=0), dims=policies)


def counted():
    """A function with a padded axis, and with counts and an argument not padded."""
    x = gt.tensor("x", "float32", ("n", 3))
    y = gt.tensor("y", "float32", ("m", 3))
    k = gt.iscalar("k")
    near = gt.min(gt.sum((x[:, None] - y[None]) ** 2, axis=2), axis=1)
    results = [gt.unique(gt.floor(near)), gt.sort(near[near > 1])[:k]]
    policies = {"n": "specialize", "m": graphc.Pad(buckets=[4, 16])}
    return graphc.function([x, y, k], results, dims=policies)


def shared():
    """Blocks that are calls of one function, which has axes of its own."""
    x = gt.tensor("x", "float32", ("n", 8))
    ws = [gt.tensor(f"w{i}", "float32", (8, 8)) for i in range(12)]
    h = x
    for w in ws:
        h = h + gt.tanh(h @ w)
    return graphc.function([x, *ws], graphc.grad(gt.sum(h**2), ws), dims="pad")


def looped():
    """A scan, whose body has nodes, and its gradient."""
    xs = gt.tensor("xs", "float32", ("t", 4))
    w = gt.tensor("w", "float32", (4, 4))

    def body(carry, row):
        state = gt.tanh(carry @ w + row)
        return state, state * 2

    _, states = gt.scan(body, gt.zeros((4,), "float32"), xs)
    return graphc.function([xs, w], graphc.grad(gt.sum(states), w))


def driven():
    """A loop that Python runs, as sizes in its body differ from step to step."""
    x = gt.tensor("x", "float32", ("n",))

    def step(total, v):
        few = gt.sort(x)[gt.arange(gt.sum(v >= x))]
        return total + gt.sum(few), None

    total, _ = gt.scan(step, gt.constant(0, "float32"), x)
    return graphc.function([x], total)


def un_jitted():
    x = gt.tensor("x", "float32", ("n", 3))
    return graphc.function([x], gt.sum(x * 2, axis=0), jit=False)


def checked():
    x = gt.tensor("x", "float32", ("n",))
    y = gt.tensor("y", "float32", ("m",))
    total = gt.assert_(gt.all(x > 0), "x is not positive", x + y)
    return graphc.function([x, y], total)


def of_jax():
    """A JAX function that branches on a size, called with sizes on both sides."""
    import jax.numpy as jnp

    @graphc.jit
    def spread(x):
        y = jnp.sqrt(jnp.mean((x - jnp.mean(x)) ** 2))
        return y * 2 if x.shape[0] > 10 else y

    for n in (3, 4, 5, 12, 14, 40):
        spread(np.arange(n, dtype="float32"))
    return spread


def of_numpy():
    @graphc.jit(frontend="numpy")
    def best(x, k):
        score = np.tanh(x.sum(axis=1))
        return np.sort(score[score > 0])[-k:]

    for n in (3, 4, 5):
        best(np.ones((n, 2)), 1)
    return best


KINDS = {
    "masked": masked,
    "numpy": lambda: masked(backend="numpy"),
    "un-jitted": un_jitted,
    "padded": padded,
    "counted": counted,
    "shared": shared,
    "looped": looped,
    "driven": driven,
    "checked": checked,
    "of_jax": of_jax,
    "of_numpy": of_numpy,
}


def chain(count, lines, name="f.py", alike=False):
    """The picture of a chain of nodes on `lines` lines; `alike`, or all different."""
    ops = ("tanh", "sin", "cos", "add", "exp", "sqrt", "abs")
    values = [ValueRecord("x", 0)]
    nodes = []
    for i in range(count):
        op = ops[i % lines % 7] if alike else ops[(i * i + i // 7) % 7]
        inputs = (i,) if alike or op != "add" else (i, i * 7919 % (i + 1))
        nodes.append(NodeRecord(op, i % lines, inputs, (i + 1,)))
        values.append(ValueRecord(f"{op}_{i}", 0, i))
    places = tuple(range(count))
    code = [f"h{i} = gt.{ops[i % 7]}(h{i} + {i})" for i in range(lines)]
    step = StepRecord("segment", "why", 0, places, (0,), (count,), 0)
    emitted = [f"    # {name}:{n.line}\n    {v.name} = jnp.{n.op}(h)  # float32[n, 8]"
               for n, v in zip(nodes, values[1:], strict=True)]
    program = ProgramRecord(
        name="program",
        backend="jax",
        compiled=True,
        serves="",
        calls=0,
        inputs=(0,),
        outputs=(count,),
        static_inputs=(),
        symbols=(),
        sizes={},
        lines=tuple(LineRecord(name, i, text) for i, text in enumerate(code)),
        types=(TypeRecord("float32", (3,), "float32[3]"),),
        values=tuple(values),
        nodes=tuple(nodes),
        steps=(step,),
        size_checks=(),
        compilations=(),
        rewrites=(),
        predicates=(),
        notes=(),
        source="def segment_0(x):\n" + "\n".join(emitted),
    )
    return PictureRecord("chain", "0", 0, (program,))
