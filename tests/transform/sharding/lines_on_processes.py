"""An epoch of the character model on a mesh of one process or of several."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np

import graphc
import graphc.tensor as gt

EXAMPLE = Path(__file__).parents[3] / "examples" / "lines_of_text.py"
BATCH, STEPS = 21, 6


def training(devices):
    """The example, its cost and gradient over the devices, and batches of lines."""
    example = SimpleNamespace(**runpy.run_path(str(EXAMPLE)))
    p = {n: gt.tensor(n, "float32", shape) for n, shape in example.SHAPES.items()}
    codes = gt.tensor("codes", "int32", ("n",))
    loss = example.cost(gt, gt.nn, p, codes)
    batch = graphc.ragged(
        [*p.values(), codes],
        graphc.value_and_grad(loss, p),
        shared=list(p.values()),
        total=True,
        pad=graphc.Pad(buckets=(example.LONGEST,)),
        batch=BATCH,
        shard=graphc.Shard("data"),
        mesh=graphc.mesh(data=devices),
    )
    text = example.lines()
    parts = [text[i : i + BATCH] for i in range(0, len(text), BATCH)]
    return example, batch, parts


def start(example):
    rng = np.random.default_rng(1)
    return {
        name: rng.normal(0, 0.3, shape).astype("float32")
        for name, shape in example.SHAPES.items()
    }


def trained(batch, parts, p, first, last):
    """The parameters after steps `first` to `last`, and the loss before each step."""
    losses = []
    for lines in parts[first:last]:
        value, slopes = batch(*p.values(), lines)
        count = sum(map(len, lines))
        losses.append(float(value) / count)
        p = {name: p[name] - 0.1 * slopes[name] / count for name in p}
    return p, losses


def main(folder, first, last):
    """Train from the parameters of step `first`, which some processes have written."""
    folder = Path(folder)
    example, batch, parts = training(jax.device_count())
    p = start(example) if not first else dict(np.load(folder / f"{first}.npz"))
    last = last or len(parts)
    p, losses = trained(batch, parts, p, first, last)
    if jax.process_index() == 0:
        np.savez(folder / f"{last}.npz", **p)
    np.save(folder / f"losses_{last}_{jax.process_index()}.npy", losses)
    few = len(batch.function.stats().compilations)
    print(len(losses), "steps", few, "compilations")
