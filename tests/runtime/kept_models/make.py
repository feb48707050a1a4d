"""Makes the models kept here, a few per file format, with the installed graphc.

Each model was made by the code that introduced its format, and is not made again. For a
new format, run `PYTHONPATH=. python tests/runtime/kept_models/make.py` and add the
files.
"""

import sys
from pathlib import Path

import numpy as np

import graphc
import graphc.tensor as gt

TABLE = np.linspace(0, 1, 300, dtype="float32").reshape(3, 100)
COUNT = "count"


def main(folder: Path, number: int) -> None:
    """Write all models; floats computed from sizes exist since format 5."""
    x = gt.tensor("x", "float32", ("n", 3))
    k = gt.tensor("k", "int32", ())
    start = gt.zeros((100,))
    last, rows = gt.scan(lambda c, v: (0.5 * c + v, c), start, x @ gt.asarray(TABLE))
    result = {"last": last, "mean": (gt.mean(rows), gt.sum(x > 0))}
    f = graphc.function([x], result, dims={"n": "pad"})
    f.export(folder / f"format_{number}_padded.model", {"n": [3]}, graph=True)
    best = gt.sort(x[:, 0][x[:, 0] > 0], descending=True)[:k]
    g = graphc.function([x, k], [best, gt.sum(x)], dims="specialize")
    sizes = {"n": [4, 4], "k": [1, 1], COUNT: [2, 3]}
    g.export(folder / f"format_{number}_reads.model", sizes)
    n = x.shape[0]
    half, root = gt.ceil(n / 3), gt.floor(n**0.5 + gt.log2(n))
    parts = [x[: half.astype("int64"), 0], x[: root.astype("int64"), 1]]
    h = graphc.function([x], parts, dims="pad")
    h.export(folder / f"format_{number}_rounds.model", {"n": [3, 16]})


if __name__ == "__main__":
    from graphc_serving.manifest import FORMAT

    main(Path(sys.argv[1] if sys.argv[1:] else Path(__file__).parent), FORMAT)
