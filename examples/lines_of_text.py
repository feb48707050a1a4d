"""What is the next character? Attention over lines of text, each as long as it is.

The model is written for one line of n characters: embeddings, those of the two places
before, causal attention over all places before, and a probability for each possible
next character. `graphc.ragged` turns it into the cost of a batch of lines and its
gradient, compiled per capacity. Then, lines that were not used to learn are read one by
one, by a function with the default `dims="auto"`: it is compiled for two lengths, takes
the third length for a sign of more to come, and pads from there on.

The text is a page of the documentation. The two ways are compared with each other, and
the cost and gradient of a line with those of the same model in unpadded JAX. Run it:
python examples/lines_of_text.py
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt

TEXT = Path(__file__).parents[1] / "docs" / "jax_in.md"
KINDS, START = 96, 96  # printable ASCII and one kind for the rest; the line's start
LONGEST, WIDTH, HIDDEN, BATCH, EPOCHS = 96, 24, 48, 24, 6
SHAPES = {
    "embedding": (KINDS + 1, WIDTH),
    "near": (3 * WIDTH, HIDDEN),
    "attention": (3, HIDDEN, HIDDEN),
    "out": (HIDDEN, KINDS),
    "offset": (KINDS,),
}


def lines() -> list[np.ndarray]:
    """Return each line as the numbers of its characters, in a random order."""
    rows = [line for line in TEXT.read_text(encoding="utf-8").splitlines() if line]
    order = np.random.default_rng(0).permutation(len(rows))
    codes = [np.array([ord(c) - 32 for c in rows[i][:LONGEST]]) for i in order]
    return [np.where((c < 0) | (c > 94), 95, c).astype("int32") for c in codes]


def cost(xp: Any, nn: Any, p: dict[str, Any], codes: Any) -> Any:
    """Return minus the log probability of a line; `xp` and `nn` are graphc or JAX."""
    start = xp.full(1, START, dtype="int32")
    x = p["embedding"][xp.concatenate([start, codes])[:-1]]
    before = xp.concatenate([xp.zeros((2, WIDTH), dtype="float32"), x])
    near = xp.concatenate([x, before[1:-1], before[:-2]], axis=1)
    h = xp.tanh(near @ p["near"])
    query, key, value = ((h @ p["attention"][i])[:, None, :] for i in range(3))
    h = h + nn.dot_product_attention(query, key, value, is_causal=True)[:, 0]
    scores = nn.log_softmax(h @ p["out"] + p["offset"], axis=1)
    return -xp.sum(xp.take_along_axis(scores, codes[:, None], axis=1))


def compiled() -> tuple[Any, Any]:
    """Compile the cost and gradient of a batch of lines, and the cost of one line."""
    p = {name: gt.tensor(name, "float32", shape) for name, shape in SHAPES.items()}
    codes = gt.tensor("codes", "int32", ("n",))
    inputs, loss = [*p.values(), codes], cost(gt, gt.nn, p, codes)
    batch = graphc.ragged(
        inputs,
        graphc.value_and_grad(loss, p),
        shared=list(p.values()),
        total=True,
        pad=graphc.Pad(buckets=(LONGEST // 2, LONGEST)),
    )
    return batch, graphc.function(inputs, loss)


def in_jax(p: dict[str, Any], line: np.ndarray) -> Any:
    """Compute the cost and gradient of one line in JAX, without padding."""
    of_line = jax.value_and_grad(lambda p: cost(jnp, jax.nn, p, line))
    return jax.jit(of_line)(p)


def learned(batch: Any, text: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the parameters after some epochs of Adam, on batches of like lengths."""
    rng = np.random.default_rng(1)
    p: dict[str, np.ndarray] = {
        name: rng.normal(0, shape[-2 % len(shape)] ** -0.5, shape).astype("float32")
        for name, shape in SHAPES.items()
    }
    mean, square = ({name: np.zeros_like(a) for name, a in p.items()} for _ in "ms")
    text, count = sorted(text, key=len), len(text) // BATCH
    parts = [text[i * len(text) // count :][:BATCH] for i in range(count)]
    steps = [i for _ in range(EPOCHS) for i in rng.permutation(len(parts))]
    for step, i in enumerate(steps, start=1):
        _, gradient = batch(*p.values(), parts[i])
        count = sum(map(len, parts[i]))
        for name, slope in gradient.items():
            mean[name] += 0.1 * (slope / count - mean[name])
            square[name] += 0.01 * ((slope / count) ** 2 - square[name])
            size = np.sqrt(square[name] / (1 - 0.99**step)) + 1e-8
            p[name] = p[name] - 0.02 * mean[name] / (1 - 0.9**step) / size
    return p


def by_frequency(text: list[np.ndarray], new: list[np.ndarray]) -> float:
    """Return the bits per character, if frequencies in the text predict them."""
    counts = Counter(np.concatenate(text).tolist())
    total = sum(counts.values()) + KINDS
    each = [np.log2(total / (counts[c] + 1)) for c in np.concatenate(new).tolist()]
    return float(np.mean(each))


def main() -> int:
    """Learn, read and compare; return 0 if everything agrees."""
    text, new = lines()[40:], lines()[:40]
    batch, one = compiled()
    p = learned(batch, text)
    lengths = len({len(line) for line in text})
    stats = batch.function.stats()
    print(f"{stats.calls} batches of lines of {lengths} lengths:", end=" ")
    print(len(stats.compilations), "compilations")

    costs = [float(one(*p.values(), line)) for line in new]
    lengths = len({len(line) for line in new})
    print(f"{len(new)} new lines of {lengths} lengths, one by one:", end=" ")
    print(f"{len(one.stats().compilations)} compilations;", *one.stats().changes)
    bits = sum(costs) / np.log(2) / sum(map(len, new))
    print(f"bits per character: {bits:.2f}, by frequency {by_frequency(text, new):.2f}")

    found, _ = batch(*p.values(), new[:BATCH])
    agree = np.allclose(found, sum(costs[:BATCH]), rtol=1e-5)
    value, slopes = batch(*p.values(), new[:1])
    wanted, exact = in_jax(p, new[0])
    agree &= np.allclose([value, costs[0]], wanted, rtol=1e-5)
    for name, slope in slopes.items():
        agree &= np.allclose(slope, exact[name], rtol=1e-3, atol=1e-4)
    print("everything agrees" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
