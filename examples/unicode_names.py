"""How are letters called? A recurrent net learns the names that Unicode gives them.

"GREEK SMALL LETTER ALPHA WITH PSILI AND VARIA" has 45 characters, "THAI DIGIT ONE" 14.
The model is a gated recurrent unit (Cho et al., 2014), written for one name: a scan
stacks the log probability of each next character. If a program reads them all, for
example to see what surprises the net, they are stacked. If it needs only their sum, as
in training, graphc moves the sum into the loop, forward and backward, and never makes
the stack. Both come from the same lines. `graphc.ragged` turns the cost of one name
into the cost of a batch, compiled per capacity and not per length.

Cost and gradient are compared with those of `jax.lax.scan` in plain JAX. The learning
curve is drawn into unicode_names.png. Run it: python examples/unicode_names.py
"""

import sys
import unicodedata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import graphc
import graphc.tensor as gt

LETTERS = " -ABCDEFGHIJKLMNOPQRSTUVWXYZ"
START = END = KINDS = len(LETTERS)  # the first and last "character" of a name
BLOCKS = [(0x370, 0x530), (0x5D0, 0x5EB), (0xE01, 0xE5C), (0x10A0, 0x1100)]
WIDTH, BATCH, EPOCHS = 48, 32, 6
SHAPES = {
    "embedding": (KINDS + 1, 3 * WIDTH),
    "mix": (3, WIDTH, WIDTH),
    "out": (WIDTH, KINDS + 1),
    "offset": (KINDS + 1,),
}
Parameters = dict[str, Any]


def names() -> list[np.ndarray]:
    """Return the names as numbers of characters and an end, in a random order."""
    points = [chr(i) for block in BLOCKS for i in range(*block)]
    found = {unicodedata.name(c, "") for c in points} - {""}
    spelled = sorted(n for n in found if set(n) <= set(LETTERS))
    order = np.random.default_rng(0).permutation(len(spelled))
    return [
        np.array([*map(LETTERS.index, spelled[i]), END], "int32") for i in order
    ]


def step(xp: Any, p: Parameters, h: Any, before: Any, after: Any) -> tuple[Any, Any]:
    """Return the next state, and the log probability of the character `after`."""
    x = p["embedding"][before]
    keep = 1 / (1 + xp.exp(-(x[:WIDTH] + h @ p["mix"][0])))
    reset = 1 / (1 + xp.exp(-(x[WIDTH : 2 * WIDTH] + h @ p["mix"][1])))
    h = keep * h + (1 - keep) * xp.tanh(x[2 * WIDTH :] + (reset * h) @ p["mix"][2])
    scores = h @ p["out"] + p["offset"]
    most = xp.max(scores)
    total = most + xp.log(xp.sum(xp.exp(scores - most)))
    return h, scores[after] - total


def spelled(p: Parameters, codes: Any) -> Any:
    """Return the log probability of each character of a name, stacked."""
    start = gt.full(1, START, dtype="int32")
    before = gt.concatenate([start, codes])[:-1]

    def body(h: Any, pair: tuple[Any, Any]) -> tuple[Any, Any]:
        return step(gt, p, h, *pair)

    return gt.scan(body, gt.zeros(WIDTH), (before, codes))[1]


def programs() -> tuple[Any, Any]:
    """Compile the cost and gradient of a batch of names, and the bits of one name."""
    p = {name: gt.tensor(name, "float32", shape) for name, shape in SHAPES.items()}
    codes = gt.tensor("codes", "int32", ("n",))
    found = spelled(p, codes)
    cost = -gt.sum(found)
    train = graphc.ragged(
        [*p.values(), codes],
        graphc.value_and_grad(cost, p),
        shared=list(p.values()),
        total=True,
        group=True,
        batch=BATCH,
    )
    return train, graphc.function([*p.values(), codes], -found / float(np.log(2)))


def in_jax(p: Parameters, codes: np.ndarray) -> Any:
    """Compute the cost and gradient of one name, written by hand."""

    def cost(p: Parameters) -> Any:
        before = jnp.concatenate([jnp.full(1, START), codes])[:-1]
        body = lambda h, pair: step(jnp, p, h, *pair)  # noqa: E731
        return -jnp.sum(jax.lax.scan(body, jnp.zeros(WIDTH), (before, codes))[1])

    return jax.jit(jax.value_and_grad(cost))(p)


def fitted(train: Any, text: list[np.ndarray], epochs: int) -> tuple[Any, list[float]]:
    """Return the parameters after epochs of Adam, and bits per character on the way."""
    rng = np.random.default_rng(1)
    p = {name: rng.normal(0, 0.05, n).astype("float32") for name, n in SHAPES.items()}
    mean, square = ({name: np.zeros_like(a) for name, a in p.items()} for _ in "ms")
    ordered = sorted(text, key=len)
    batches = [ordered[i : i + BATCH] for i in range(0, len(ordered), BATCH)]
    bits = []
    for i in [i for _ in range(epochs) for i in rng.permutation(len(batches))]:
        value, gradient = train(*p.values(), batches[i])
        count = sum(map(len, batches[i]))
        bits.append(float(value) / count / np.log(2))
        for name, slope in gradient.items():
            mean[name] += 0.1 * (slope / count - mean[name])
            square[name] += 0.01 * ((slope / count) ** 2 - square[name])
            size = np.sqrt(square[name] / (1 - 0.99 ** len(bits))) + 1e-8
            p[name] = p[name] - 0.02 * mean[name] / (1 - 0.9 ** len(bits)) / size
    return p, bits


def draw(bits: list[float], path: Path) -> None:
    """Draw the learning curve."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(bits)
    axes.set(xlabel="batches", ylabel="bits per character", ylim=(0, None))
    axes.set_title("Learning how letters are called")
    figure.savefig(path, dpi=120)


def main(epochs: int = EPOCHS) -> int:
    """Learn, read and compare; return 0 if everything agrees."""
    text, new = names()[64:], names()[:64]
    train, read = programs()
    p, bits = fitted(train, text, epochs)
    stats = train.function.stats()
    lengths = len({len(name) for name in text})
    print(f"{len(text)} names of {lengths} lengths, {stats.calls} batches:", end=" ")
    print(len(stats.compilations), "compilations")
    draw(bits, Path("unicode_names.png"))

    surprises = [read(*p.values(), name) for name in new]
    share = sum(map(np.sum, surprises)) / sum(map(len, new))
    print(f"bits per character: {bits[0]:.2f} at first, {share:.2f} for new names")
    value, slopes = train(*p.values(), new[:1])
    wanted, exact = in_jax(p, new[0])
    told = np.sum(surprises[0]) * np.log(2)
    agree = np.allclose([value, told], wanted, rtol=1e-4)
    for name, slope in slopes.items():
        agree &= np.allclose(slope, exact[name], rtol=1e-3, atol=1e-4)
    print("everything agrees" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
